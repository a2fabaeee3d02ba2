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

/// What a LOCK.FENCE takes the server, in microseconds: the least of some averages.
fn cost_of_a_fence(c: &mut Connection) -> f64 {
    let fences = ["LOCK.FENCE k"; AT_ONCE];
    let average = |_| {
        run(c, "CONFIG RESETSTAT").okay();
        crate::support::at_once(c, &fences);
        let stats = run(c, "INFO commandstats").text();
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_lock.fence:"));
        let average = line.and_then(|line| {
            line.split(',')
                .find_map(|field| field.strip_prefix("usec_per_call="))
        });
        average.expect("an average").parse().expect("a number")
    };
    (0..10).map(average).fold(f64::MAX, f64::min)
}

#[test]
fn a_command_on_a_lock_with_thousands_of_kept_shares_costs_little_more_than_with_ten() {
    const SHARES: usize = 9000;
    let server = Server::start();
    let mut keeper = Keeper::of(server.connection());
    let mut add = |from: usize, to: usize| {
        let calls: Vec<String> = (from..to)
            .map(|n| format!("LOCK.ACQUIRE k o{n} SHARED PX 600000 KEEP 600000"))
            .collect();
        for calls in calls.chunks(AT_ONCE) {
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            crate::support::at_once(&mut keeper, &calls);
        }
        let kept = i64::try_from(to).expect("a number");
        assert_eq!(count(&server, "kept"), kept);
        cost_of_a_fence(&mut keeper)
    };
    let (few, many) = (add(0, 10), add(10, SHARES));
    println!("a LOCK.FENCE takes {few} us with 10 kept shares, {many} us with {SHARES}");
    assert!(many < few * 10.0, "{few} us, and then {many} us");
}
