//! One connection that keeps very many grants.

use crate::support::{Keeper, await_renewals, count, run};
use redis::Connection;
use testbed::{Expect, Reply, Server, eventually};

const MANY: usize = 10_000;
/// How many calls are sent in one write.
const AT_ONCE: usize = 500;

/// Sends a command for each of the keys `k0`, `k1`, ... and gives the replies.
fn each(c: &mut Connection, words: impl Fn(usize) -> String) -> Vec<Reply> {
    let calls: Vec<String> = (0..MANY).map(words).collect();
    let chunks = calls.chunks(AT_ONCE);
    chunks
        .flat_map(|calls| {
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            crate::support::at_once(c, &calls)
        })
        .collect()
}

#[test]
fn one_connection_keeps_ten_thousand_grants() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let granted = each(&mut keeper, |n| {
        format!("LOCK.ACQUIRE k{n} a PX 6000 KEEP 60000")
    });
    let tokens: Vec<_> = granted
        .into_iter()
        .map(|reply| reply.grant().token)
        .collect();
    let many = i64::try_from(MANY).expect("a number");
    assert_eq!(count(&server, "kept"), many);
    await_renewals(&server, 2 * many);
    keeper.is_answered();
    assert_eq!(run(&mut c, "DBSIZE").int(), many);
    assert_eq!(count(&server, "kept_closes"), 0);

    // One is lost: the connection goes, and the others stand.
    run(&mut c, "DEL k5000").int();
    keeper.throw(&["PING"]);
    keeper.is_closed();
    assert_eq!(count(&server, "kept"), 0);

    // All are asked for on a new one, in time: of each it is told how it stands.
    let mut keeper = Keeper::of(server.connection());
    let back = each(&mut keeper, |n| {
        format!("LOCK.RENEW k{n} a TOKEN {} PX 60000 KEEP 60000", tokens[n])
    });
    for (n, reply) in back.into_iter().enumerate() {
        match n {
            5000 => drop(reply.refused("NOTHELD")),
            _ => assert_eq!(reply.grant().token, tokens[n]),
        }
    }
    assert_eq!(count(&server, "kept"), many - 1);
    run(&mut c, "FLUSHALL ASYNC").okay();
    keeper.throw(&["PING"]);
    keeper.is_closed();
    assert_eq!(count(&server, "kept"), 0);
    eventually(|| run(&mut c, "DBSIZE").int() == 0, "all to be gone");
}
