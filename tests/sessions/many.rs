//! A session with very many grants.

use crate::support::{Session, at_once, await_renewals, count, run};
use testbed::{Expect, Reply};

const MANY: usize = 10_000;
/// How many calls are sent in one write.
const AT_ONCE: usize = 500;

/// Sends a command for each of the keys `k0`, `k1`, ... and gives the replies.
fn each(session: &mut Session, words: impl Fn(usize) -> String) -> Vec<Reply> {
    let calls: Vec<String> = (0..MANY).map(|n| session.line(&words(n))).collect();
    let chunks = calls.chunks(AT_ONCE);
    chunks
        .flat_map(|calls| {
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            at_once(&mut session.connection, &calls)
        })
        .collect()
}

#[test]
fn one_is_lost_of_ten_thousand_and_the_rest_moves_to_another_session() {
    let (server, mut c, mut session) = Session::opened();
    let granted = each(&mut session, |n| {
        format!("LOCK.ACQUIRE k{n} a PX 6000 SESSION ID")
    });
    let tokens: Vec<_> = granted
        .into_iter()
        .map(|reply| reply.grant().token)
        .collect();
    let many = i64::try_from(MANY).expect("a number");
    assert_eq!(count(&server, "session_grants"), many);
    await_renewals(&server, 2 * many);
    assert_eq!(run(&mut c, "DBSIZE").int(), many);
    assert_eq!(count(&server, "session_losses"), 0);

    run(&mut c, "DEL k5000").int();
    let polled = session.poll();
    assert_eq!(polled.grants, many - 1);
    assert_eq!(
        polled.events,
        [format!("1 lost k5000 a {} deleted", tokens[5000])]
    );

    let mut other = Session::open(&server);
    let moved = each(&mut other, |n| {
        format!("LOCK.RENEW k{n} a TOKEN {} PX 60000 SESSION ID", tokens[n])
    });
    for (n, reply) in moved.into_iter().enumerate() {
        match n {
            5000 => drop(reply.refused("NOTHELD")),
            _ => assert_eq!(reply.grant().token, tokens[n]),
        }
    }
    assert_eq!(other.poll().grants, many - 1);
    assert_eq!(session.poll().grants, 0);
}
