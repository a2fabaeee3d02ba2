//! What an administrator does to the locks and to the clients, all through the storm.

use crate::Storm;
use crate::ledger::Event;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::state::assert_same;
use testbed::{Expect, Kind, Server, cmd};

/// How often the replica is compared with the primary while nothing is written.
const BETWEEN_COMPARISONS: Duration = Duration::from_millis(1500);

pub(crate) struct Weather<'a> {
    storm: &'a Storm,
    random: StdRng,
    c: Connection,
    compared: Instant,
}

impl<'a> Weather<'a> {
    pub(crate) fn new(storm: &'a Storm) -> Self {
        Self {
            storm,
            random: StdRng::seed_from_u64(storm.seed.wrapping_sub(1)),
            c: storm.server.connection(),
            compared: Instant::now(),
        }
    }

    pub(crate) fn run(mut self) {
        while !self.storm.over() {
            self.change();
            if self.compared.elapsed() > BETWEEN_COMPARISONS {
                self.compare();
                self.compared = Instant::now();
            }
            sleep(Duration::from_micros(self.random.random_range(0..4000)));
        }
    }

    fn change(&mut self) {
        let key = self
            .storm
            .keys
            .choose(&mut self.random)
            .expect("keys")
            .clone();
        let ledger = &self.storm.ledger;
        let deleted = |times: i64| ledger.add(Event::Del, times.unsigned_abs());
        match self.random.random_range(0..100) {
            0..40 => self.kill(),
            40..50 => self.unblock(),
            50..70 => deleted(cmd!(self.c, "DEL", key).int()),
            70..75 => deleted(cmd!(self.c, "UNLINK", key).int()),
            75..80 => drop(cmd!(self.c, "PEXPIRE", key, 1).int()),
            80..84 => drop(cmd!(self.c, "RENAME", key, "elsewhere")),
            84..88 => {
                cmd!(self.c, "SET", key, "text", "PX", 5).okay();
                ledger.count(Event::Overwrite);
            }
            88..92 => {
                let flush = *["FLUSHDB", "FLUSHALL"]
                    .choose(&mut self.random)
                    .expect("two");
                let mode = *["SYNC", "ASYNC"].choose(&mut self.random).expect("two");
                cmd!(self.c, flush, mode).okay();
                ledger.count(Event::Flush);
            }
            92..95 => self.pause(),
            _ => drop(cmd!(self.c, "LOCK.WAITERS", key)),
        }
    }

    fn pause(&mut self) {
        let kind = *["WRITE", "ALL"].choose(&mut self.random).expect("two");
        let millis = self.random.random_range(1..30);
        cmd!(self.c, "CLIENT", "PAUSE", millis, kind).okay();
        self.storm.ledger.count(Event::Pause);
    }

    fn someone(&mut self) -> i64 {
        let id = self.storm.ids.choose(&mut self.random).expect("clients");
        id.load(Ordering::Relaxed)
    }

    fn kill(&mut self) {
        let id = self.someone();
        if id == 0 {
            return;
        }
        let client = cmd!(self.c, "CLIENT", "LIST", "ID", id).text();
        let waits = client.contains("flags=b");
        let killed = cmd!(self.c, "CLIENT", "KILL", "ID", id).value();
        if killed == Value::Int(1) {
            let event = if waits {
                Event::KillWhileWaiting
            } else {
                Event::Kill
            };
            self.storm.ledger.count(event);
        }
    }

    fn unblock(&mut self) {
        let id = self.someone();
        let how = *["TIMEOUT", "ERROR"].choose(&mut self.random).expect("two");
        let version = Server::version();
        let is_old = version.kind == Kind::Redis && !version.is_redis_from(7, 4);
        if is_old {
            // To unblock a client that waits for the end of a pause crashes Redis 7.0, module or not.
            cmd!(self.c, "CLIENT", "UNPAUSE").okay();
        }
        let unblocked = cmd!(self.c, "CLIENT", "UNBLOCK", id, how).int();
        if unblocked == 1 || is_old {
            self.storm.ledger.count(Event::Unblock);
        }
    }

    /// Holds all writes, and demands that the replica holds what the primary holds.
    fn compare(&mut self) {
        let Storm {
            server, replica, ..
        } = self.storm;
        cmd!(self.c, "CLIENT", "PAUSE", 20_000, "WRITE").okay();
        server.wait_for_sync(replica);
        assert_same(
            &server.state(),
            &replica.state(),
            "on the replica, in the storm",
        );
        cmd!(self.c, "CLIENT", "UNPAUSE").okay();
        self.storm.ledger.count(Event::Comparison);
    }
}
