//! FLUSHALL and SWAPDB with thousands of grants.

use testbed::{Expect, Session, at_once, eventually, polled, started};

/// Thousands are reported in slices, each before its lock is granted to anybody else. Until then nothing is sure.
#[test]
fn a_flush_of_many_is_told_in_slices() {
    const GRANTS: i64 = 20_000;
    for (flush, reason) in [("FLUSHALL", "flushed"), ("SWAPDB 0 1", "deleted")] {
        let (server, mut c) = started();
        let many = Session::open(&server);
        let mut one = Session::open(&server);
        many.acquire_all(&mut c, (0..GRANTS).map(|n| format!("k{n} a")));
        let token = one.acquire("one a").token;
        let poll = one.line("LOCK.SESSION POLL ID");
        let words = [
            flush,
            "LOCK.ACQUIRE one b",
            "MULTI",
            &poll,
            "EXEC",
            "INFO lock",
        ];
        let mut replies = at_once(&mut one, &words).into_iter();
        replies.next().expect("the flush").okay();
        replies.next().expect("a grant").grant();
        let exec = replies.nth(2).expect("EXEC").items().remove(0);
        let polled = polled(Ok(exec));
        assert_eq!(polled.events, [format!("1 lost one a {token} {reason}")]);
        assert_eq!((polled.sure_ms, polled.grants), (0, 0), "{flush}");
        let info = replies.next().expect("INFO").text();
        let mut lines = info.lines();
        let losses = lines.find_map(|line| line.strip_prefix("lock_session_losses:"));
        let losses: i64 = losses.expect("a field").parse().expect("a number");
        assert!(losses < GRANTS, "all at once");
        eventually(
            || server.count("session_losses") == GRANTS + 1,
            "all to be reported",
        );
        assert_eq!(server.count("session_grants"), 0);
        assert_eq!(one.poll().sure_ms, -1);
    }
}
