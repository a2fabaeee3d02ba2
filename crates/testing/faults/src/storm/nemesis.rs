//! The nemesis of this workload: what an administrator does to the locks and to the clients.

use super::Storm;
use crate::nemesis::{Nemesis, drive};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::{Connection, Value};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use testbed::state::assert_same;
use testbed::{Expect, Kind, Server, cmd};

/// How often the replica is compared with the primary while nothing is written.
const BETWEEN_COMPARISONS: Duration = Duration::from_millis(1500);
/// The pause between two faults, about.
const CALM: Duration = Duration::from_millis(2);
/// The number under which it draws its choices.
const NUMBER: u32 = 1_000;

/// One thing that an administrator does.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Kill,
    KillSession,
    Unblock,
    Delete,
    Unlink,
    Expire,
    Rename,
    Overwrite,
    Flush,
    Pause,
    Look,
}

/// Each, and how often of a hundred times.
const FAULTS: [(Fault, u32); 11] = [
    (Fault::Kill, 35),
    (Fault::KillSession, 5),
    (Fault::Unblock, 10),
    (Fault::Delete, 20),
    (Fault::Unlink, 5),
    (Fault::Expire, 5),
    (Fault::Rename, 4),
    (Fault::Overwrite, 4),
    (Fault::Flush, 4),
    (Fault::Pause, 3),
    (Fault::Look, 5),
];

/// The administrator.
pub(crate) struct StormNemesis<'a> {
    storm: &'a Storm,
    random: StdRng,
    c: Connection,
    compared: Instant,
}

impl<'a> StormNemesis<'a> {
    pub(crate) fn new(storm: &'a Storm) -> Self {
        Self {
            storm,
            random: storm.run.random(NUMBER),
            c: storm.server.connection(),
            compared: Instant::now(),
        }
    }

    /// Injects faults until the run is over.
    pub(crate) fn run(mut self) {
        let run = &self.storm.run;
        let mut random = run.random(NUMBER + 1);
        drive(&mut self, run, &mut random, &FAULTS, CALM);
    }

    /// Removes a lock.
    fn remove(&mut self, command: &str, key: &str) -> bool {
        let removed = cmd!(self.c, command, key).int() == 1;
        self.count("deleted", removed)
    }

    fn flush(&mut self) -> bool {
        let commands = ["FLUSHDB", "FLUSHALL"];
        let flush = *commands.choose(&mut self.random).expect("two");
        let mode = *["SYNC", "ASYNC"].choose(&mut self.random).expect("two");
        cmd!(self.c, flush, mode).okay();
        self.count("flushed", true)
    }

    fn pause(&mut self) -> bool {
        let kind = *["WRITE", "ALL"].choose(&mut self.random).expect("two");
        let millis = self.random.random_range(1..30);
        cmd!(self.c, "CLIENT", "PAUSE", millis, kind).okay();
        self.count("pauses", true)
    }

    fn kill(&mut self) -> bool {
        let id = self.someone();
        if id == 0 {
            return false;
        }
        let client = cmd!(self.c, "CLIENT", "LIST", "ID", id).text();
        let event = if client.contains("flags=b") {
            "kills while waiting"
        } else {
            "kills"
        };
        let killed = cmd!(self.c, "CLIENT", "KILL", "ID", id).value();
        self.count(event, killed == Value::Int(1))
    }

    fn kill_a_session(&mut self) -> bool {
        let sessions = &self.storm.sessions;
        let id = sessions.choose(&mut self.random).expect("clients");
        let id = id.load(Ordering::Relaxed);
        let killed = id != 0 && cmd!(self.c, "LOCK.SESSION", "KILL", id).is_ok();
        self.count("sessions killed", killed)
    }

    fn unblock(&mut self) -> bool {
        let id = self.someone();
        let how = *["TIMEOUT", "ERROR"].choose(&mut self.random).expect("two");
        let version = Server::version();
        let is_old = version.kind == Kind::Redis && !version.is_redis_from(7, 4);
        if is_old {
            // To unblock a client that waits for the end of a pause crashes Redis 7.0, module or not.
            cmd!(self.c, "CLIENT", "UNPAUSE").okay();
        }
        let unblocked = cmd!(self.c, "CLIENT", "UNBLOCK", id, how).int();
        self.count("unblocked", unblocked == 1 || is_old)
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
        self.count("comparisons", true);
    }

    /// The connection of some client, or 0.
    fn someone(&mut self) -> i64 {
        let id = self.storm.ids.choose(&mut self.random).expect("clients");
        id.load(Ordering::Relaxed)
    }

    fn count(&self, what: &str, happened: bool) -> bool {
        self.storm.run.count(what, u64::from(happened));
        happened
    }
}

impl Nemesis for StormNemesis<'_> {
    type Fault = Fault;

    fn inject(&mut self, fault: Fault) -> bool {
        let keys = &self.storm.run.keys;
        let key = keys.choose(&mut self.random).expect("keys");
        match fault {
            Fault::Kill => self.kill(),
            Fault::KillSession => self.kill_a_session(),
            Fault::Unblock => self.unblock(),
            Fault::Delete => self.remove("DEL", key),
            Fault::Unlink => self.remove("UNLINK", key),
            Fault::Expire => cmd!(self.c, "PEXPIRE", key, 1).int() == 1,
            Fault::Rename => cmd!(self.c, "RENAME", key, "elsewhere").is_ok(),
            Fault::Overwrite => {
                cmd!(self.c, "SET", key, "text", "PX", 5).okay();
                self.count("overwritten", true)
            }
            Fault::Flush => self.flush(),
            Fault::Pause => self.pause(),
            Fault::Look => cmd!(self.c, "LOCK.WAITERS", key).is_ok(),
        }
    }

    fn tick(&mut self) {
        if self.compared.elapsed() > BETWEEN_COMPARISONS {
            self.compare();
            self.compared = Instant::now();
        }
    }
}
