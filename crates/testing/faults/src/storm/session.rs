//! A storm client's use of sessions: its own, which it polls on its one connection, and others'.

use super::client::{Client, Gone};
use rand::RngExt;
use rand::seq::IndexedRandom;
use redis::{Cmd, Value};
use std::sync::atomic::Ordering;
use testbed::{Expect, Grant};

/// The shortest silence that ends a session: one whose OPEN was not answered is not to be seen for long.
const TIMEOUT: i64 = 1_000;
/// The shortest lease in a session.
const LEASE: i64 = 1_000;

impl Client<'_> {
    pub(super) fn act_in_session(&mut self, key: &str) -> Result<(), Gone> {
        let Some(id) = self.session else {
            return self.open();
        };
        match self.random.random_range(0..20) {
            0..7 => self.poll(id),
            7..12 => self.queue(key, id),
            12..14 => self.join(key, id, None),
            14 => self.block_in_session(key),
            15 | 16 => self.move_last(id),
            17 => self.look(id),
            18 => self.close(id),
            // The session stays, and the next connection polls it.
            _ => Err(Gone),
        }
    }

    /// Closes its session, whatever becomes of its connections.
    pub(super) fn end(&mut self) {
        while let Some(id) = self.session {
            if self.close(id).is_err() {
                self.reconnect();
            }
        }
    }

    fn open(&mut self) -> Result<(), Gone> {
        let mut call = session("OPEN", None);
        call.arg("TIMEOUT").arg(TIMEOUT).arg("NAME").arg("storm");
        if let Ok(id) = self.send(&call)? {
            self.set_session(Some(id.int()));
            self.count("sessions");
        }
        Ok(())
    }

    fn close(&mut self, id: i64) -> Result<(), Gone> {
        let closed = self.send(&session("CLOSE", Some(id)))?;
        self.count(match closed {
            Ok(_) => "sessions closed",
            Err(_) => "sessions that had ended",
        });
        self.set_session(None);
        Ok(())
    }

    fn poll(&mut self, id: i64) -> Result<(), Gone> {
        let mut call = session("POLL", Some(id));
        if self.random.random_ratio(3, 4) {
            call.arg("BLOCK").arg(self.random.random_range(1..30));
        }
        match self.send(&call)? {
            Ok(reply) => {
                let events = reply.fields().remove("events").expect("events");
                for event in events.items() {
                    self.hear(id, event)?;
                }
            }
            Err(refusal) if refusal.code() == "NOSESSION" => self.set_session(None),
            // A connection is too old, or somebody unblocked it.
            Err(_) => return Err(Gone),
        }
        Ok(())
    }

    fn hear(&mut self, id: i64, event: Value) -> Result<(), Gone> {
        let mut parts = event.items().into_iter().skip(1);
        let mut next = || parts.next().expect("a part of an event");
        let (kind, key, owner) = (next().text(), next().text(), next().bytes());
        match kind.as_str() {
            "granted" => {
                let grant = Grant {
                    token: next().int(),
                    owner,
                    holds: next().int(),
                    lease: next().int(),
                    limit: Some(next().int()),
                };
                if self.tell(&key, 0, false, &grant) {
                    self.count("queued grants");
                }
                if self.random.random_ratio(3, 4) {
                    self.release_in_session(id, &key, &grant)?;
                } else {
                    self.last = Some((key, grant));
                }
            }
            kind => self.count(match kind {
                "ended" => "queued calls that ended",
                "lost" => "losses told",
                "taken" => "takings told",
                other => panic!("an event of an unknown kind: {other}"),
            }),
        }
        Ok(())
    }

    fn release_in_session(&mut self, id: i64, key: &str, grant: &Grant) -> Result<(), Gone> {
        let mut call = redis::cmd("LOCK.RELEASE");
        call.arg(key).arg(&grant.owner).arg("ALL");
        call.arg("SESSION").arg(id).arg("TOKEN").arg(grant.token);
        if self.send(&call)?.is_ok() {
            self.count("releases in a session");
        }
        Ok(())
    }

    /// A call that waits without this connection, and one that repeats it.
    fn queue(&mut self, key: &str, id: i64) -> Result<(), Gone> {
        let wait = *[0, 3, 30, 300].choose(&mut self.random).expect("waits");
        let repeats = self.random.random_ratio(1, 4);
        for _ in 0..=i32::from(repeats) {
            self.join(key, id, Some(("QUEUE", wait)))?;
        }
        Ok(())
    }

    /// Waits on this connection, in somebody else's session.
    fn block_in_session(&mut self, key: &str) -> Result<(), Gone> {
        let sessions = &self.storm.sessions;
        let other = sessions.choose(&mut self.random).expect("clients");
        let id = other.load(Ordering::Relaxed);
        let wait = self.random.random_range(1..50);
        if id == 0 {
            return Ok(());
        }
        self.join(key, id, Some(("BLOCK", wait)))
    }

    /// An acquire in a session, which may wait.
    fn join(&mut self, key: &str, id: i64, wait: Option<(&str, i64)>) -> Result<(), Gone> {
        let mut call = self.call("LOCK.ACQUIRE", key);
        call.arg("PX")
            .arg(self.random.random_range(LEASE..LEASE * 2));
        self.name_a_limit(&mut call);
        call.arg("SESSION").arg(id).arg("HOLDS").arg(1);
        if let Some((how, ms)) = wait {
            call.arg(how).arg(ms);
        }
        let before = self.storm.ledger.highest(key);
        match self.send(&call)? {
            Ok(Value::Int(_)) => self.count("calls in line in a session"),
            Ok(Value::Nil) | Err(_) => {}
            Ok(value) => {
                let grant = value.grant();
                self.count("grants in a session");
                self.tell(key, before, false, &grant);
                self.last = Some((key.to_owned(), grant));
            }
        }
        Ok(())
    }

    /// Moves the grant that it knows into its session, or out of any.
    fn move_last(&mut self, id: i64) -> Result<(), Gone> {
        let Some((key, _)) = self.last.clone() else {
            return Ok(());
        };
        let mut call = self.call("LOCK.RENEW", &key);
        match self.random.random_range(0..3) {
            0 => call.arg("PX").arg(20).arg("SESSION").arg(0),
            _ => call.arg("PX").arg(LEASE).arg("SESSION").arg(id),
        };
        if self.send(&call)?.is_ok() {
            self.count("grants moved between sessions");
        }
        Ok(())
    }

    fn look(&mut self, id: i64) -> Result<(), Gone> {
        let call = match self.random.random_range(0..2) {
            0 => session("GRANTS", Some(id)),
            _ => session("LIST", None),
        };
        self.send(&call).map(drop)
    }

    fn set_session(&mut self, session: Option<i64>) {
        self.session = session;
        let known = &self.storm.sessions[self.number as usize];
        known.store(session.unwrap_or(0), Ordering::Relaxed);
    }
}

fn session(name: &str, id: Option<i64>) -> Cmd {
    let mut command = redis::cmd("LOCK.SESSION");
    command.arg(name).arg(id);
    command
}
