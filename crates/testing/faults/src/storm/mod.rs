//! The workload `storm`: 200 clients do at random, on 20 locks, everything that clients do, while an
//! administrator does everything that administrators do. No two owners ever have one grant, tokens rise,
//! nobody is forgotten, no session is left over, and replica and append-only file hold what the primary holds.
//!
//! There is no history: leases of a few milliseconds and 200 calls at a time leave the checker too
//! much to search. A ledger that all clients share judges each grant as it is told.

mod client;
mod ledger;
mod nemesis;
mod session;

use crate::run::{Findings, Run, with_clients};
use crate::workload::{Configuration, Workload};
use client::Client;
use ledger::Ledger;
use nemesis::StormNemesis;
use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::thread;
use std::time::Duration;
use testbed::effect::{self, Said};
use testbed::state::assert_same;
use testbed::{Expect, Server, cmd, eventually};

const CLIENTS: u32 = 200;
const KEYS: usize = 20;
/// By how much the server's memory may have grown in the end: its own caches and buffers, what the allocator has not
/// given back, and tables that were large once. It is the same after three seconds and after thirty.
const MEMORY_LEFT: i64 = 3 << 19;

/// The events that must happen, by the names under which they are counted.
const WANTED: [&str; 37] = [
    "grants at once",
    "hand-offs",
    "re-entries",
    "refused: held",
    "timed out",
    "waits called off",
    "wrong type",
    "partial releases",
    "last releases",
    "refused releases",
    "renewals",
    "shares",
    "refused: not alone",
    "told of a deadlock",
    "closes",
    "closes while waiting",
    "kills",
    "kills while waiting",
    "unblocked",
    "expired",
    "deleted",
    "overwritten",
    "flushed",
    "pauses",
    "comparisons",
    "sessions",
    "sessions closed",
    "sessions killed",
    "sessions that had ended",
    "calls in line in a session",
    "queued grants",
    "queued calls that ended",
    "releases in a session",
    "grants in a session",
    "grants moved between sessions",
    "losses told",
    "takings told",
];

/// The workload, for a run of so many seconds.
#[must_use]
pub fn workload(seconds: u64) -> Workload {
    let length = Duration::from_secs(seconds);
    Workload {
        columns: vec![
            ("at once", "grants at once"),
            ("hand-offs", "hand-offs"),
            ("re-entries", "re-entries"),
        ],
        configurations: vec![Box::new(StormSetup { length })],
    }
}

/// A primary with an append-only file and a replica.
struct StormSetup {
    length: Duration,
}

/// The state that all in a run share.
struct Storm {
    run: Run,
    server: Server,
    replica: Server,
    /// The clients' connections.
    ids: Vec<AtomicI64>,
    /// The clients' sessions.
    sessions: Vec<AtomicI64>,
    ledger: Ledger,
}

impl Configuration for StormSetup {
    fn name(&self) -> &'static str {
        "storm"
    }

    fn run(&self, seed: u64) -> Result<Findings, String> {
        let server = Server::builder().config("appendonly", "yes").start();
        let replica = server.replica();
        let memory = used_memory(&server);
        let mut storm = Storm {
            run: Run::new(seed, KEYS, self.length),
            server,
            replica,
            ids: (0..CLIENTS).map(|_| AtomicI64::new(0)).collect(),
            sessions: (0..CLIENTS).map(|_| AtomicI64::new(0)).collect(),
            ledger: Ledger::default(),
        };
        play(&storm);
        storm.check(memory);
        storm.restart();
        Ok(storm.run.into_findings())
    }

    fn wanted(&self) -> Vec<&'static str> {
        WANTED.to_vec()
    }
}

fn play(storm: &Storm) {
    let client = |number| Client::new(storm, number).run();
    with_clients(CLIENTS, client, |all_ended| {
        StormNemesis::new(storm).run();
        // A call that still waits does so for a lock that somebody holds for long.
        let mut c = storm.server.connection();
        while !all_ended() {
            cmd!(c, "DEL", storm.run.keys).int();
            thread::sleep(Duration::from_millis(5));
        }
    });
}

impl Storm {
    /// The checks when all clients have ended. `memory` is what the server used at first.
    fn check(&self, memory: i64) {
        let Self {
            run,
            server,
            replica,
            ..
        } = self;
        let expired = server.info_field("stats", "expired_keys");
        run.count("expired", expired.parse().expect("a number"));
        self.check_nobody_is_left();
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
        self.check_tokens_rise();
        run.check_log(server);
        cmd!(server.connection(), "FLUSHALL").okay();
        eventually(
            || used_memory(server) < memory + MEMORY_LEFT,
            "memory to return to where it was",
        );
        println!(
            "memory: {memory} bytes before, {} after",
            used_memory(server)
        );
    }

    /// After a restart from the append-only file all locks are as before.
    fn restart(&mut self) {
        let mut c = self.server.connection();
        for key in &self.run.keys {
            cmd!(c, "LOCK.ACQUIRE", key, "last", "PX", 600_000).grant();
        }
        let last = self.server.whole_state();
        self.server.restart();
        assert_same(
            &last,
            &self.server.whole_state(),
            "after a restart from the file",
        );
    }

    /// All connections are closed and nobody waits, by the server's and the module's count.
    fn check_nobody_is_left(&self) {
        let mut c = self.server.connection();
        eventually(
            || self.server.info_field("clients", "blocked_clients") == "0",
            "no client to be blocked",
        );
        let count = |name| self.server.info_field("lock", name);
        // One whose OPEN was not answered ends by silence.
        for name in ["lock_sessions", "lock_queued", "lock_session_grants"] {
            eventually(|| count(name) == "0", name);
        }
        for key in &self.run.keys {
            assert_eq!(cmd!(c, "LOCK.WAITERS", key).items(), []);
        }
    }

    /// The grants of each lock, in the order in which they were made, by the append-only file: the token of
    /// each is higher than all before it, and is one owner's.
    fn check_tokens_rise(&self) {
        let mut known: HashMap<Vec<u8>, Told> = HashMap::new();
        let mut grants = 0;
        for command in self.server.aof() {
            if !command[0].eq_ignore_ascii_case(b"LOCK._APPLY") {
                continue;
            }
            let [_, key, effect] = &command[..] else {
                panic!("not an effect: {command:?}");
            };
            let Some(Said { owner, token, .. }) = effect::read(effect) else {
                continue;
            };
            let Told { highest, owners } = known.entry(key.clone()).or_default();
            match owners.get(&token) {
                Some(whose) if *whose == owner => {}
                Some(whose) => self
                    .run
                    .trouble(format!("{token} of {owner:?}, and of {whose:?}")),
                None => {
                    if token < *highest {
                        let what = format!("{token} of {owner:?} after {highest}");
                        self.run.trouble(what);
                    }
                    grants += 1;
                    owners.insert(token, owner);
                }
            }
            *highest = token.max(*highest);
        }
        println!("{grants} grants in the append-only file");
        assert!(grants > 0);
    }
}

/// The grants of one lock.
#[derive(Default)]
struct Told {
    /// The highest token.
    highest: i64,
    /// Whose each token is.
    owners: HashMap<i64, Vec<u8>>,
}

/// Without what the server keeps for replicas and files, which grows to a size of its own.
fn used_memory(server: &Server) -> i64 {
    cmd!(server.connection(), "MEMORY", "PURGE").okay();
    let memory = server.info("memory");
    let bytes = |name: &str| memory[name].parse::<i64>().expect("a number");
    bytes("used_memory") - bytes("mem_total_replication_buffers") - bytes("mem_aof_buffer")
}
