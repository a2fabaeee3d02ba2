//! One client of the storm.

use super::{CLIENTS, Storm};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::{Cmd, Connection, ConnectionLike, Value};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::unix_micros;
use testbed::{Expect, Grant, Refusal, Reply};

/// How many clients are the same owner: two calls of one owner may wait for one lock.
const CLIENTS_AN_OWNER: u32 = 2;

/// The errors that a call may get in a storm.
const EXPECTED: [&str; 9] = [
    "DEADLOCK",
    "NOTALONE",
    "NOTHELD",
    "NOTOWNER",
    "FENCED",
    "WRONGTYPE",
    "UNBLOCKED",
    "NOSESSION",
    "ERR",
];

pub(crate) struct Client<'a> {
    pub(super) storm: &'a Storm,
    pub(super) number: u32,
    owner: String,
    pub(super) random: StdRng,
    connection: Connection,
    /// The last grant that this client was told of.
    pub(super) last: Option<(String, Grant)>,
    /// The session that it polls.
    pub(super) session: Option<i64>,
}

/// The connection is gone.
pub(super) struct Gone;

impl<'a> Client<'a> {
    pub(crate) fn new(storm: &'a Storm, number: u32) -> Self {
        let mut client = Self {
            storm,
            number,
            owner: format!("owner-{}", number / CLIENTS_AN_OWNER),
            random: storm.run.random(number),
            connection: storm.server.connection(),
            last: None,
            session: None,
        };
        client.introduce();
        client
    }

    pub(crate) fn run(mut self) {
        while !self.storm.run.is_over() {
            if self.act().is_err() {
                self.reconnect();
            }
            sleep(Duration::from_micros(self.random.random_range(0..4000)));
        }
        self.end();
        self.storm.ids[self.number as usize].store(0, Ordering::Relaxed);
    }

    pub(super) fn reconnect(&mut self) {
        self.connection = self.storm.server.connection();
        self.introduce();
    }

    /// Tells the others whom to kill.
    fn introduce(&mut self) {
        let id = self
            .connection
            .req_command(&redis::cmd("CLIENT").arg("ID").to_owned());
        if let Ok(Value::Int(id)) = id {
            self.storm.ids[self.number as usize].store(id, Ordering::Relaxed);
        }
    }

    fn act(&mut self) -> Result<(), Gone> {
        let keys = &self.storm.run.keys;
        let key = keys.choose(&mut self.random).expect("keys").clone();
        if self.random.random_ratio(1, 4) {
            return self.act_in_session(&key);
        }
        match self.random.random_range(0..100) {
            0..15 => self.acquire(&key, None),
            15..60 => self.wait(&key),
            60..85 => self.release(),
            85..91 => self.renew(),
            91..94 => self.call_off(&key),
            94..97 => self.close_while_waiting(&key),
            97 => {
                self.count("closes");
                Err(Gone)
            }
            _ => self.hold_long(&key),
        }
    }

    fn wait(&mut self, key: &str) -> Result<(), Gone> {
        let block = *[0, 3, 10, 30, 100, 300]
            .choose(&mut self.random)
            .expect("waits");
        self.acquire(key, Some(block))
    }

    fn acquire(&mut self, key: &str, block: Option<u64>) -> Result<(), Gone> {
        let lease = self.random.random_range(2..60);
        let mut call = self.call("LOCK.ACQUIRE", key);
        call.arg("PX").arg(lease);
        self.name_a_limit(&mut call);
        if let Some(block) = block {
            call.arg("BLOCK").arg(block);
        }
        let counts = self.random.random_ratio(1, 3);
        if counts {
            call.arg("HOLDS").arg(self.random.random_range(1..=2));
        }
        let before = self.storm.ledger.highest(key);
        let began_us = unix_micros();
        match self.send(&call)? {
            Ok(Value::Nil) => {
                let event = if block.is_some() {
                    "timed out"
                } else {
                    "refused: held"
                };
                self.count(event);
            }
            Ok(value) => self.granted(key, (before, !counts), began_us, block.is_some(), value),
            Err(refusal) => match refusal.code() {
                "WRONGTYPE" => self.count("wrong type"),
                "NOTALONE" => self.count("refused: not alone"),
                "DEADLOCK" => self.count("told of a deadlock"),
                _ => {}
            },
        }
        Ok(())
    }

    fn granted(
        &mut self,
        key: &str,
        (before, is_plain): (i64, bool),
        began_us: i64,
        waited: bool,
        value: Value,
    ) {
        let grant = value.grant();
        if grant.owner != self.owner.as_bytes() {
            let run = &self.storm.run;
            run.trouble(format!("{key}: {} was told of {grant:?}", self.owner));
        }
        if grant.limit.is_some_and(|limit| limit != 1) {
            self.count("shares");
        }
        let begins = is_plain && grant.holds == 1;
        self.count(match self.tell(key, before, begins, &grant) {
            // A token is the time at which its grant was made, or more.
            true if waited && grant.token > began_us + 1000 => "hand-offs",
            true => "grants at once",
            false => "re-entries",
        });
        self.last = Some((key.to_owned(), grant));
    }

    /// Holds a lock for so long that it can be compared; a release or an administrator frees it.
    fn hold_long(&mut self, key: &str) -> Result<(), Gone> {
        let mut call = self.call("LOCK.ACQUIRE", key);
        call.arg("PX").arg(60_000);
        let before = self.storm.ledger.highest(key);
        if let Ok(value) = self.send(&call)?
            && value != Value::Nil
        {
            self.granted(key, (before, true), unix_micros(), false, value);
        }
        Ok(())
    }

    fn release(&mut self) -> Result<(), Gone> {
        let Some((key, grant)) = self.last.clone() else {
            return Ok(());
        };
        let mut call = self.call("LOCK.RELEASE", &key);
        if self.random.random_ratio(1, 3) {
            call.arg("ALL");
        }
        if self.random.random_ratio(1, 2) {
            call.arg("TOKEN").arg(grant.token);
        }
        let reply = self.send(&call)?;
        self.count(match reply {
            Ok(Value::Int(0)) => "last releases",
            Ok(_) => "partial releases",
            Err(_) => "refused releases",
        });
        Ok(())
    }

    fn renew(&mut self) -> Result<(), Gone> {
        let Some((key, _)) = self.last.clone() else {
            return Ok(());
        };
        let before = self.storm.ledger.highest(&key);
        let mut call = self.call("LOCK.RENEW", &key);
        call.arg("PX").arg(self.random.random_range(2..60));
        if self.random.random_ratio(1, 4) {
            self.name_a_limit(&mut call);
        }
        if let Ok(value) = self.send(&call)? {
            self.count("renewals");
            let grant = value.grant();
            self.tell(&key, before, false, &grant);
        }
        Ok(())
    }

    /// Another owner's waits, from here.
    fn call_off(&mut self, key: &str) -> Result<(), Gone> {
        let other = self.random.random_range(0..CLIENTS) / CLIENTS_AN_OWNER;
        let mut call = redis::cmd("LOCK.RELEASE");
        call.arg(key).arg(format!("owner-{other}")).arg("ALL");
        if self.send(&call)? == Ok(Value::Int(0)) {
            self.count("waits called off");
        }
        Ok(())
    }

    /// Starts to wait and closes: before, while or after it is granted.
    fn close_while_waiting(&mut self, key: &str) -> Result<(), Gone> {
        let mut call = self.call("LOCK.ACQUIRE", key);
        call.arg("PX")
            .arg(self.random.random_range(2..60))
            .arg("BLOCK")
            .arg(0);
        let sent = self
            .connection
            .send_packed_command(&call.get_packed_command());
        if sent.is_ok() {
            sleep(Duration::from_micros(self.random.random_range(0..3000)));
            self.count("closes while waiting");
        }
        Err(Gone)
    }

    /// Asks to share the lock, or for one of a few permits; half of the calls want it alone.
    pub(super) fn name_a_limit(&mut self, call: &mut Cmd) {
        match self.random.random_range(0..8) {
            0..4 => {}
            4..6 => {
                call.arg("SHARED");
            }
            limit => {
                call.arg("LIMIT").arg(limit - 4);
            }
        }
    }

    pub(super) fn call(&self, name: &str, key: &str) -> Cmd {
        redis::cmd(name).arg(key).arg(&self.owner).to_owned()
    }

    pub(super) fn send(&mut self, call: &Cmd) -> Result<Reply, Gone> {
        match self.connection.req_command(call) {
            Ok(value) => {
                let reply = value.reply();
                if let Err(refusal) = &reply {
                    self.judge(call, refusal);
                }
                Ok(reply)
            }
            Err(error) if error.is_timeout() => {
                let line = String::from_utf8_lossy(&call.get_packed_command()).into_owned();
                self.storm.run.trouble(format!("never answered: {line:?}"));
                Err(Gone)
            }
            Err(_) => Err(Gone),
        }
    }

    /// Tells of a grant that was answered to a call which was made when `before` was the highest token;
    /// true where nobody had been told of it.
    pub(super) fn tell(&self, key: &str, before: i64, begins: bool, grant: &Grant) -> bool {
        let added = self.storm.ledger.add(key, before, begins, grant);
        added.unwrap_or_else(|what| {
            self.storm.run.trouble(what);
            false
        })
    }

    pub(super) fn count(&self, what: &str) {
        self.storm.run.count(what, 1);
    }

    fn judge(&self, call: &Cmd, refusal: &Refusal) {
        if !EXPECTED.contains(&refusal.code()) {
            let line = String::from_utf8_lossy(&call.get_packed_command()).into_owned();
            self.storm.run.trouble(format!("{refusal} to {line:?}"));
        }
    }
}
