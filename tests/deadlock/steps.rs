//! A thousand holders are looked at.

use crate::support::{Stage, line, text};
use crate::waiting::blocked_clients;
use redis::Connection;
use std::env;
use std::time::Duration;
use testbed::{Expect, Server, Talk, cmd, eventually, server_cpu};

const STEPS: usize = 1000;

/// Readers hold `k`, the last of them waits for `j` of `w`, which then asks for `k`.
#[test]
fn each_of_the_holders_is_a_step() {
    let mut stage = Stage::new();
    stage.hold(["j w"]);
    for number in 1..STEPS {
        stage.hold([&format!("k r{number} SHARED")]);
    }
    stage.hold(["k b SHARED"]);
    stage.wait(["j b"]);
    // The last of a thousand on k is b; the one of j is the caller.
    stage.wait(["k w"]);
    drop(stage.waiter("k w"));
    stage.run("LOCK.RELEASE k r1").int();
    stage.told("k w", 2);
}

/// Each owner holds a lock and, but for the first, waits for the next one's.
pub(crate) fn chain(server: &Server, owners: usize) -> Vec<Connection> {
    let mut c = server.connection();
    for number in 0..owners {
        cmd!(
            c,
            "LOCK.ACQUIRE",
            format!("k{number}"),
            format!("o{number}"),
            "PX",
            600_000
        )
        .grant();
    }
    // From the end on, so that no search is long.
    let waiting = (1..owners).map(|number| {
        let mut c = server.connection();
        let next = (number + 1) % owners;
        c.post(&line(&format!("LOCK.ACQUIRE k{next} o{number} BLOCK 0")));
        c
    });
    let waiting: Vec<_> = waiting.collect();
    let count = i64::try_from(waiting.len()).unwrap();
    eventually(|| blocked_clients(server) == count, "all to wait");
    waiting
}

fn roomy() -> Server {
    Server::builder().config("maxclients", "2000").start()
}

#[test]
fn a_chain_of_a_thousand_is_found() {
    let server = roomy();
    let _waiting = chain(&server, STEPS);
    let mut c = server.connection();
    let reply = cmd!(c, "LOCK.ACQUIRE", "k1", "o0", "BLOCK", 10_000);
    assert_eq!(reply.refused("DEADLOCK"), text(STEPS));
}

#[test]
fn a_chain_of_one_more_is_not_found() {
    let server = roomy();
    let _waiting = chain(&server, STEPS + 1);
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k1", "o0", "BLOCK", 20).nil();
    assert_eq!(server.info_field("lock", "lock_deadlocks"), "0");
}

/// What a join costs the server, by the queue's length: 4000, or `DEADLOCK_CROWD` where that many files may
/// be open. The holder waits itself, so each is searched for.
#[test]
fn a_join_is_no_dearer_in_a_long_line() {
    const CALLS: usize = 500;
    let cost_behind = |crowd: usize| {
        let server = Server::builder()
            .config("maxclients", "20000")
            .config("lock.max-waiters", "20000")
            .config("lock.max-waiters-total", "20000")
            .start();
        let mut stage = Stage::on(server);
        stage.hold(["k a", "j b"]);
        stage.wait(["j a"]);
        let mut connections: Vec<_> = (0..crowd + CALLS)
            .map(|number| (number, stage.server.connection()))
            .collect();
        let pid = stage.server.pid();
        let mut join = |connections: &mut [(usize, Connection)]| {
            for (number, c) in &mut *connections {
                c.post(&line(&format!("LOCK.ACQUIRE k w{number} BLOCK 0")));
            }
            let (last, _) = connections.last().expect("a connection");
            let all = i64::try_from(last + 1).unwrap();
            eventually(|| stage.info("k").waiters == all, "all to wait");
        };
        let (first, rest) = connections.split_at_mut(crowd);
        join(first);
        let before = server_cpu(pid);
        join(rest);
        server_cpu(pid).saturating_sub(before) / u32::try_from(CALLS).unwrap()
    };
    let crowd = env::var("DEADLOCK_CROWD").map_or(4000, |crowd| crowd.parse().expect("a number"));
    let (short, long) = (cost_behind(10), cost_behind(crowd));
    println!("measured: a join takes {short:?} behind 10, {long:?} behind {crowd}");
    assert!(long < short * 3 + Duration::from_micros(20));
}
