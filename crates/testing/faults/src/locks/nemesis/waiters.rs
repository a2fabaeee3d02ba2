//! Faults of waiting clients.

use super::LocksNemesis;
use crate::locks::observer::{client_ids, clients};
use crate::locks::protocol;
use history::{Acquire, Action, Outcome, Sighting};
use rand::seq::IndexedRandom;
use redis::{Connection, RedisResult, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, line};

impl LocksNemesis<'_> {
    /// Kills the first in line of some queue.
    pub(super) fn kill_a_waiter(&mut self) -> bool {
        self.with_first_waiter(|this, connection, key, node, id| {
            // In one breath: the client may have gone on to its next call since it was seen.
            let (waiters, killed): (Value, i64) = redis::pipe()
                .add_command(line(&format!("LOCK.WAITERS {key}")))
                .add_command(line(&format!("CLIENT KILL ID {id}")))
                .query(connection)?;
            if client_ids(waiters).contains(&id) {
                this.note_killed(node, id, killed);
            }
            Ok(killed == 1)
        })
    }

    /// Releases the lock in its owner's name and kills the one who gets it, before the reply can be
    /// written.
    pub(super) fn kill_when_granted(&mut self) -> bool {
        self.with_first_waiter(|this, connection, key, node, id| {
            let held: Value = protocol::command(key, "", &Action::Look, 0).query(connection)?;
            let Outcome::Holders(mut holders) = protocol::outcome(&Action::Look, held) else {
                return Ok(false);
            };
            let owner = holders.swap_remove(0).owner;
            let mut both = redis::pipe();
            both.cmd("LOCK.WAITERS").arg(key);
            both.add_command(protocol::command(key, &owner, &Action::RELEASE, 0));
            both.cmd("CLIENT").arg("KILL").arg("ID").arg(id);
            let sent = this.stage.run.now();
            // The owner may have released it meanwhile: an error, and the kill is done all the same.
            let replies: Vec<Value> = both.ignore_errors().query(connection)?;
            let replies = <[Value; 3]>::try_from(replies).expect("three replies");
            let [waiters, released, killed] = replies.map(Expect::reply);
            let killed = killed.is_ok_and(|n| n == Value::Int(1));
            if waiters.is_ok_and(|waiters| client_ids(waiters).contains(&id)) {
                this.note_killed(node, id, i64::from(killed));
            }
            let outcome = match &released {
                Ok(value) => protocol::outcome(&Action::RELEASE, value.clone()),
                Err(error) => {
                    protocol::refusal(error.code()).map_or(Outcome::Untouched, Outcome::Refused)
                }
            };
            this.record_call(key, &owner, Action::RELEASE, sent, outcome);
            Ok(killed && released.is_ok())
        })
    }

    /// Frees a lock that is waited for, and asks for it in the same breath.
    pub(super) fn let_a_newcomer_try(&mut self) -> bool {
        self.with_first_waiter(|this, connection, key, node, id| {
            let life = this.stage.deployment.nodes()[node].life();
            let seen = this.stage.run.now();
            // The first waiter of a moment ago is still the first, or this sighting shows nothing.
            let waiters: Value = redis::cmd("LOCK.WAITERS").arg(key).query(connection)?;
            let ids = client_ids(waiters.clone());
            this.sightings.push(Sighting {
                key: key.to_owned(),
                sent: seen,
                ended: this.stage.run.now(),
                clients: clients(this.stage, (node, life), waiters),
            });
            let owner = format!("newcomer-{}", this.stage.run.now());
            let acquire = Action::Acquire(Acquire {
                lease: Some(5_000),
                ..Acquire::default()
            });
            let mut both = redis::pipe();
            both.cmd("DEL").arg(key);
            both.add_command(protocol::command(key, &owner, &acquire, 0));
            let sent = this.stage.run.now();
            let (removed, reply): (i64, Value) = both.query(connection)?;
            this.record_removal(key, sent, Outcome::Done);
            let outcome = protocol::outcome(&acquire, reply);
            let granted = matches!(outcome, Outcome::Grant(_));
            this.record_call(key, &owner, acquire, sent, outcome);
            if granted {
                let sent = this.stage.run.now();
                let reply =
                    protocol::command(key, &owner, &Action::RELEASE, 0).query(connection)?;
                let outcome = protocol::outcome(&Action::RELEASE, reply);
                this.record_call(key, &owner, Action::RELEASE, sent, outcome);
            }
            Ok(removed == 1 && ids.first() == Some(&id))
        })
    }

    /// Unblocks the first in line of some queue, as far as the server can.
    pub(super) fn unblock(&mut self) -> bool {
        let modes = ["TIMEOUT", "ERROR"];
        let mode = *modes.choose(&mut self.random).expect("two");
        let is_able = testbed::unblocks();
        self.with_first_waiter(|this, connection, _key, node, id| {
            if !is_able {
                // To unblock a client that waits for the end of a pause crashes Redis 7.0, module or not.
                line("CLIENT UNPAUSE").query::<()>(connection)?;
            }
            let life = this.stage.deployment.nodes()[node].life();
            let unblock = line(&format!("CLIENT UNBLOCK {id} {mode}"));
            let query = || unblock.query::<i64>(connection);
            let unblocked = this.stage.unblocking((node, life, id), query)?;
            Ok(unblocked == 1 || !is_able)
        })
    }

    fn note_killed(&self, node: usize, id: i64, killed: i64) {
        if killed == 1 {
            let life = self.stage.deployment.nodes()[node].life();
            self.stage.killed((node, life, id));
        }
    }

    /// Looks for a queue, for a while, and does something to its first call.
    fn with_first_waiter(
        &mut self,
        mut act: impl FnMut(&mut Self, &mut Connection, &str, usize, i64) -> RedisResult<bool>,
    ) -> bool {
        for _ in 0..100 {
            let key = self.key();
            let node = self.stage.deployment.home(&key);
            let done = self.stage.deployment.nodes()[node]
                .connect()
                .and_then(|mut connection| {
                    let first = line(&format!("LOCK.WAITERS {key} COUNT 1"));
                    let waiters: Value = first.query(&mut connection)?;
                    match client_ids(waiters).first() {
                        Some(&id) => act(self, &mut connection, &key, node, id),
                        None => Ok(false),
                    }
                });
            if done.unwrap_or(false) {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }
}
