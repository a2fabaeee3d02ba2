//! FLUSHALL and SWAPDB with thousands of grants.

use crate::support::{Session, at_once, count, polled};
use testbed::{Expect, eventually, started};

/// Thousands are reported in slices, each before its lock is granted to anybody else. Until then nothing is sure.
#[test]
fn a_flush_of_many_is_told_in_slices() {
    const GRANTS: i64 = 20_000;
    for (flush, reason) in [("FLUSHALL", "flushed"), ("SWAPDB 0 1", "deleted")] {
        let (server, mut c) = started();
        let many = Session::open(&server);
        let mut one = Session::open(&server);
        let acquires = (0..GRANTS).map(|n| many.line(&format!("LOCK.ACQUIRE k{n} a SESSION ID")));
        let acquires: Vec<_> = acquires.collect();
        let acquires: Vec<_> = acquires.iter().map(String::as_str).collect();
        for reply in at_once(&mut c, &acquires) {
            reply.grant();
        }
        let token = one.run("LOCK.ACQUIRE one a SESSION ID").grant().token;
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
        let losses = info.split("lock_session_losses:").nth(1).expect("a field");
        let losses: i64 = losses
            .split('\r')
            .next()
            .expect("a line")
            .parse()
            .expect("a number");
        assert!(losses < GRANTS, "all at once");
        eventually(
            || count(&server, "session_losses") == GRANTS + 1,
            "all to be reported",
        );
        assert_eq!(count(&server, "session_grants"), 0);
        assert_eq!(one.poll().sure_ms, -1);
    }
}
