//! Sessions with very many grants.

use testbed::{Expect, Session, at_once, await_renewals, eventually, polled, run, started};

const MANY: usize = 10_000;
#[test]
fn one_is_lost_of_ten_thousand_and_the_rest_moves_to_another_session() {
    let (server, mut c, mut session) = Session::opened();
    let granted = session.acquire_all(&mut c, (0..MANY).map(|n| format!("k{n} a PX 6000")));
    let tokens: Vec<_> = granted.iter().map(|grant| grant.token).collect();
    let many = i64::try_from(MANY).expect("a number");
    assert_eq!(server.count("session_grants"), many);
    await_renewals(&server, 2 * many);
    assert_eq!(run(&mut c, "DBSIZE").int(), many);
    assert_eq!(server.count("session_losses"), 0);

    run(&mut c, "DEL k5000").int();
    let polled = session.poll();
    assert_eq!(polled.grants, many - 1);
    let lost = format!("1 lost k5000 a {} deleted", tokens[5000]);
    assert_eq!(polled.events, [lost]);

    let mut other = Session::open(&server);
    let move_it = |(n, token)| format!("LOCK.RENEW k{n} a TOKEN {token} PX 60000 SESSION ID");
    let renewals = tokens.iter().enumerate().map(move_it);
    let renewals: Vec<_> = renewals.map(|words| other.line(&words)).collect();
    for (n, reply) in at_once(&mut c, &renewals).into_iter().enumerate() {
        match n {
            5000 => drop(reply.refused("NOTHELD")),
            _ => assert_eq!(reply.grant().token, tokens[n]),
        }
    }
    assert_eq!(other.poll().grants, many - 1);
    assert_eq!(session.poll().grants, 0);
}

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
        let told = || server.count("session_losses") == GRANTS + 1;
        eventually(told, "all to be reported");
        assert_eq!(server.count("session_grants"), 0);
        assert_eq!(one.poll().sure_ms, -1);
    }
}
