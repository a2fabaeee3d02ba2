//! The storm: 200 clients and an administrator do at random, on 20 locks, everything that clients
//! and administrators do. No two owners ever have one grant, tokens rise, nobody is forgotten, and
//! replica and append-only file hold what the primary holds.
//!
//! `STORM_SECONDS` is how long it lasts (4), `STORM_SEED` repeats the choices of an earlier run,
//! though not their timing.

mod client;
mod ledger;
mod weather;

use client::Client;
use ledger::{Event, Ledger};
use std::collections::HashMap;
use std::env;
use std::sync::atomic::AtomicI64;
use std::thread;
use std::time::{Duration, Instant};
use testbed::state::assert_same;
use testbed::{Expect, Server, cmd, eventually};
use weather::Weather;

const CLIENTS: usize = 200;
const KEYS: usize = 20;
/// By how much the server's memory may have grown in the end: its own caches and buffers, and what
/// the allocator has not given back.
const MEMORY_LEFT: i64 = 1 << 20;

/// What all share.
pub(crate) struct Storm {
    seed: u64,
    end: Instant,
    server: Server,
    replica: Server,
    keys: Vec<String>,
    /// The clients' connections.
    ids: Vec<AtomicI64>,
    ledger: Ledger,
}

impl Storm {
    fn over(&self) -> bool {
        Instant::now() > self.end
    }
}

#[test]
fn no_lock_is_lost_doubled_or_forgotten_in_a_storm() {
    let seconds = env::var("STORM_SECONDS").map_or(4, |text| text.parse().expect("a number"));
    let seed = testbed::traffic::seed("STORM_SEED");
    let server = Server::builder().config("appendonly", "yes").start();
    let replica = server.replica();
    let before = used_memory(&server);
    let mut storm = Storm {
        seed,
        end: Instant::now() + Duration::from_secs(seconds),
        server,
        replica,
        keys: (0..KEYS).map(|number| format!("lock-{number}")).collect(),
        ids: (0..CLIENTS).map(|_| AtomicI64::new(0)).collect(),
        ledger: Ledger::default(),
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let storm = &storm;
                    move || Client::new(storm, number).run()
                })
            })
            .collect();
        Weather::new(&storm).run();
        // Whoever still waits does so for a lock that somebody holds for long.
        let mut c = storm.server.connection();
        while clients.iter().any(|client| !client.is_finished()) {
            cmd!(c, "DEL", storm.keys).int();
            thread::sleep(Duration::from_millis(5));
        }
    });
    let Storm {
        server,
        replica,
        ledger,
        ..
    } = &storm;
    ledger.add(Event::Expiry, stat(server, "expired_keys"));
    nobody_is_left(&storm);
    eventually(
        || server.whole_state() == server.state(),
        "the short leases to end",
    );
    server.wait_for_sync(replica);
    assert_same(
        &server.whole_state(),
        &replica.whole_state(),
        "on the replica",
    );
    tokens_rise(&storm);
    let mut c = server.connection();
    cmd!(c, "FLUSHALL").okay();
    eventually(
        || used_memory(server) < before + MEMORY_LEFT,
        "memory to return to where it was",
    );
    println!(
        "memory: {before} bytes before, {} after",
        used_memory(server)
    );
    ledger.close();
    for key in &storm.keys {
        cmd!(c, "LOCK.ACQUIRE", key, "last", "PX", 600_000).grant();
    }
    let last = server.whole_state();
    storm.server.restart();
    assert_same(
        &last,
        &storm.server.whole_state(),
        "after a restart from the file",
    );
}

/// All connections are closed and nobody waits, by the server's and the module's count.
fn nobody_is_left(storm: &Storm) {
    let mut c = storm.server.connection();
    eventually(
        || storm.server.info_field("clients", "blocked_clients") == "0",
        "no client to be blocked",
    );
    for key in &storm.keys {
        assert_eq!(cmd!(c, "LOCK.WAITERS", key).items(), []);
    }
}

/// The grants of each lock, in the order in which they were made, by the append-only file: a token
/// is never lower than one before it, and another owner's is higher.
fn tokens_rise(storm: &Storm) {
    let mut last: HashMap<Vec<u8>, (i64, Vec<u8>)> = HashMap::new();
    let mut grants = 0;
    for command in storm.server.aof() {
        if !command[0].eq_ignore_ascii_case(b"LOCK._APPLY") {
            continue;
        }
        let [_, key, owner, token, ..] = &command[..] else {
            panic!("not an effect: {command:?}");
        };
        let token: i64 = String::from_utf8_lossy(token).parse().expect("a token");
        if let Some((before, whose)) = last.get(key)
            && (token < *before || (token == *before && owner != whose))
        {
            let what = format!("{token} of {owner:?} after {before} of {whose:?}");
            storm.ledger.violation(what);
        }
        grants += u64::from(last.get(key).is_none_or(|(before, _)| *before != token));
        last.insert(key.clone(), (token, owner.clone()));
    }
    println!("{grants} grants in the append-only file");
    assert!(grants > 0);
}

/// Without what the server keeps for replicas and files, which grows to a size of its own.
fn used_memory(server: &Server) -> i64 {
    cmd!(server.connection(), "MEMORY", "PURGE").okay();
    let memory = server.info("memory");
    let bytes = |name: &str| memory[name].parse::<i64>().expect("a number");
    bytes("used_memory") - bytes("mem_total_replication_buffers") - bytes("mem_aof_buffer")
}

fn stat(server: &Server, name: &str) -> u64 {
    server.info_field("stats", name).parse().expect("a number")
}
