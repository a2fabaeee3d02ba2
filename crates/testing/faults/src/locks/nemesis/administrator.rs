//! Administrators who end what clients have: locks, connections and sessions.

use super::LocksNemesis;
use crate::connection::connect;
use history::Outcome;
use rand::seq::IndexedRandom;
use redis::{Cmd, RedisResult, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::Expect;

impl LocksNemesis<'_> {
    /// `DEL` or `UNLINK` of a lock.
    pub(super) fn remove(&mut self) -> bool {
        let names = ["DEL", "UNLINK"];
        let name = names.choose(&mut self.random).expect("two");
        let key = self.key();
        self.take_away(&key, redis::cmd(name).arg(&key))
    }

    /// `RENAME` of a lock.
    pub(super) fn rename(&mut self) -> bool {
        let key = self.key();
        let mut rename = redis::cmd("RENAME");
        self.take_away(&key, rename.arg(&key).arg("elsewhere"))
    }

    /// Text in the place of a lock, for a moment.
    pub(super) fn overwrite(&mut self) -> bool {
        let key = self.key();
        let mut set = redis::cmd("SET");
        self.take_away(&key, set.arg(&key).arg("text").arg("PX").arg(5))
    }

    /// Ends a lock by a command; whether it was there.
    fn take_away(&mut self, key: &str, command: &Cmd) -> bool {
        let sent = self.stage.run.now();
        let node = self.stage.deployment.home(key);
        let reply = self.stage.deployment.nodes()[node]
            .connect()
            .and_then(|mut c| command.query::<Value>(&mut c));
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
        let (key, port) = (self.key(), self.primary_port());
        let sent = self.stage.run.now();
        let expire = redis::cmd("PEXPIRE").arg(&key).arg(1).to_owned();
        let reply = connect(port).and_then(|mut c| expire.query::<i64>(&mut c));
        sleep(Duration::from_millis(2));
        self.record_removal(&key, sent, Outcome::Lost);
        reply.is_ok_and(|set| set == 1)
    }

    /// `CLIENT KILL` of any client, whatever it does.
    pub(super) fn kill_a_client(&mut self) -> bool {
        let port = self.primary_port();
        let mut kill = || -> RedisResult<i64> {
            let mut c = connect(port)?;
            let mut list = redis::cmd("CLIENT");
            let list: String = list.arg("LIST").arg("TYPE").arg("normal").query(&mut c)?;
            let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
            let ids: Vec<i64> = list.lines().filter_map(id).collect();
            let id = ids.choose(&mut self.random).expect("this client");
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(id).arg("SKIPME").arg("yes");
            kill.query(&mut c)
        };
        kill().is_ok_and(|killed| killed == 1)
    }

    /// `LOCK.SESSION KILL` or `CLOSE`, which release the grants of a session.
    pub(super) fn end_a_session(&mut self) -> bool {
        let port = self.primary_port();
        let sent = self.stage.run.now();
        let mut end = || -> RedisResult<bool> {
            let mut c = connect(port)?;
            let sessions: Vec<Value> = redis::cmd("LOCK.SESSION").arg("LIST").query(&mut c)?;
            let Some(session) = sessions.choose(&mut self.random) else {
                return Ok(false);
            };
            let id = session.clone().fields()["id"].clone().int();
            let how = ["KILL", "CLOSE"].choose(&mut self.random).expect("two");
            let mut end = redis::cmd("LOCK.SESSION");
            end.arg(how).arg(id).query::<Value>(&mut c)?;
            Ok(true)
        };
        let ended = end();
        for key in self.stage.run.keys.clone() {
            self.record_removal(&key, sent, Outcome::Lost);
        }
        ended.unwrap_or(false)
    }
}
