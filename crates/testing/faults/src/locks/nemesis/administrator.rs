//! Administrators who end what clients have: locks, connections and sessions.

use super::LocksNemesis;
use history::Outcome;
use rand::seq::IndexedRandom;
use redis::Value;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, line};

impl LocksNemesis<'_> {
    /// `DEL` or `UNLINK` of a lock.
    pub(super) fn remove(&mut self) -> bool {
        let names = ["DEL", "UNLINK"];
        let name = names.choose(&mut self.random).expect("two");
        let key = self.key();
        self.take_away(&key, &format!("{name} {key}"))
    }

    /// `RENAME` of a lock.
    pub(super) fn rename(&mut self) -> bool {
        let key = self.key();
        self.take_away(&key, &format!("RENAME {key} elsewhere"))
    }

    /// Text in the place of a lock, for a moment.
    pub(super) fn overwrite(&mut self) -> bool {
        let key = self.key();
        self.take_away(&key, &format!("SET {key} text PX 5"))
    }

    /// Ends a lock by a command; whether it was there.
    fn take_away(&mut self, key: &str, words: &str) -> bool {
        let sent = self.stage.run.now();
        let node = self.stage.deployment.home(key);
        let reply = self.stage.deployment.nodes()[node]
            .connect()
            .and_then(|mut c| line(words).query::<Value>(&mut c));
        let outcome = match &reply {
            Ok(_) => Outcome::Done,
            Err(e) if e.is_io_error() => Outcome::Lost,
            Err(_) => Outcome::Untouched,
        };
        self.record_removal(key, sent, outcome);
        reply.is_ok_and(|reply| reply != Value::Int(0))
    }

    /// `PEXPIRE` of a lock, which ends in a millisecond unless somebody renews it.
    pub(super) fn expire(&mut self) -> bool {
        let key = self.key();
        let sent = self.stage.run.now();
        let reply = self.ask_primary::<i64>(&format!("PEXPIRE {key} 1"));
        sleep(Duration::from_millis(2));
        self.record_removal(&key, sent, Outcome::Lost);
        reply.is_ok_and(|set| set == 1)
    }

    /// `CLIENT KILL` of any client, whatever it does.
    pub(super) fn kill_a_client(&mut self) -> bool {
        let list = self.ask_primary::<String>("CLIENT LIST TYPE normal");
        let list = list.unwrap_or_default();
        let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
        let ids: Vec<i64> = list.lines().filter_map(id).collect();
        let Some(id) = ids.choose(&mut self.random) else {
            return false;
        };
        let killed = self.ask_primary::<i64>(&format!("CLIENT KILL ID {id} SKIPME yes"));
        killed.is_ok_and(|killed| killed == 1)
    }

    /// `LOCK.SESSION KILL` or `CLOSE`, which release the grants of a session.
    pub(super) fn end_a_session(&mut self) -> bool {
        let sessions = self.ask_primary::<Vec<Value>>("LOCK.SESSION LIST");
        let sessions = sessions.unwrap_or_default();
        let Some(session) = sessions.choose(&mut self.random) else {
            return false;
        };
        let id = session.clone().fields()["id"].clone().int();
        let names = ["KILL", "CLOSE"];
        let name = names.choose(&mut self.random).expect("two");
        let sent = self.stage.run.now();
        let ended = self.ask_primary::<Value>(&format!("LOCK.SESSION {name} {id}"));
        for key in &self.stage.run.keys {
            self.record_removal(key, sent, Outcome::Lost);
        }
        ended.is_ok()
    }
}
