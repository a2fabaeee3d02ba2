//! What a search costs. How far it goes is shown in the core (`deadlock/tests.rs`).

use crate::support::Stage;
use redis::Connection;
use std::env;
use std::time::Duration;
use testbed::{Server, Talk, eventually, line, server_cpu};

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
