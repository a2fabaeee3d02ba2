//! What is done to the servers while clients work.

use crate::configuration::Fault;
use crate::deployment::{Loss, Transfer, connect, insist};
use crate::proxy::Cut;
use crate::stage::Stage;
use crate::words;
use history::{Action, Call, ClockStep, Down, Moment, Outcome, Sighting, Span};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use redis::{Connection, RedisResult, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Server};

/// The number under which removals by the administrator are written down.
const ADMINISTRATOR: u32 = 1_000;
/// A clock that was set is an hour off.
const AN_HOUR: i64 = 3_600;

/// Whoever does it.
pub(crate) struct Administrator<'s> {
    stage: &'s Stage,
    random: StdRng,
    calls: Vec<Call>,
    sightings: Vec<Sighting>,
    /// The pause between two things that are done.
    calm: Duration,
}

impl<'s> Administrator<'s> {
    pub(crate) fn new(stage: &'s Stage, calm: Duration) -> Self {
        Self {
            stage,
            random: StdRng::seed_from_u64(stage.seed ^ u64::from(ADMINISTRATOR)),
            calls: Vec::new(),
            sightings: Vec::new(),
            calm,
        }
    }

    /// Does each of these once, in any order, and then again until the round is over. Gives back
    /// what was written down; the servers are whole again.
    pub(crate) fn run(mut self, faults: &[Fault]) -> (Vec<Call>, Vec<Sighting>) {
        let mut order = faults.to_vec();
        let mut is_first = true;
        while is_first || !self.stage.is_over() {
            order.shuffle(&mut self.random);
            for &fault in &order {
                if !is_first && self.stage.is_over() {
                    break;
                }
                self.rest();
                if self.inflict(fault) {
                    self.stage.count(fault.name(), 1);
                }
            }
            is_first = false;
        }
        (self.calls, self.sightings)
    }

    fn rest(&mut self) {
        sleep(self.calm.mul_f64(self.random.random_range(0.3..1.7)));
    }

    /// Whether it happened.
    fn inflict(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Crash { loses } => self.crash(loses),
            Fault::Stop => self.stop(),
            Fault::ClientKill => self.kill_a_waiter(),
            Fault::KillInFlight => self.kill_in_flight(),
            Fault::Unblock => self.unblock(),
            Fault::CutRequest => self.cut(Cut::Request),
            Fault::CutReply => self.cut(Cut::Reply),
            Fault::Pause => self.pause(),
            Fault::Save => self.start_in_background("BGSAVE"),
            Fault::Rewrite => self.start_in_background("BGREWRITEAOF"),
            Fault::Flush => self.flush(),
            Fault::Remove => self.remove(),
            Fault::Newcomer => self.let_a_newcomer_try(),
            Fault::Fill(policy) => self.fill(policy),
            Fault::ClockForward => self.step(AN_HOUR),
            Fault::ClockBack => self.step(-AN_HOUR),
            Fault::HandOver => {
                let key = self.key();
                self.stage.deployment.hand_over(&key);
                true
            }
            Fault::LosePrimary(how) => self.lose_primary(how),
            Fault::MoveSlot => self.move_slot(Transfer::Keys),
            Fault::MoveSlotWhole => self.move_slot(Transfer::Whole),
        }
    }

    fn crash(&mut self, loses: bool) -> bool {
        if loses {
            self.stage.let_holders_doze(true);
            sleep(Duration::from_millis(100));
        }
        let from = self.stage.now();
        self.stage.deployment.kill(0);
        let span = Span {
            from,
            to: self.stage.now(),
        };
        if loses {
            self.stage.may_have_lost(span);
        }
        sleep(Duration::from_millis(self.random.random_range(0..60)));
        self.stage.deployment.restart(0);
        self.stage.let_holders_doze(false);
        true
    }

    /// Long enough for short leases to end.
    fn stop(&mut self) -> bool {
        let nodes = self.stage.deployment.nodes().len();
        let pause = Duration::from_millis(self.random.random_range(100..500));
        let stop = &mut |server: &mut Server| {
            server.signal("STOP");
            sleep(pause);
            server.signal("CONT");
        };
        self.stage
            .deployment
            .with_server(self.random.random_range(0..nodes), stop);
        true
    }

    /// Kills the first in line of some queue.
    fn kill_a_waiter(&mut self) -> bool {
        self.with_first_waiter(|this, connection, _key, node, id| {
            let killed = redis::cmd("CLIENT")
                .arg("KILL")
                .arg("ID")
                .arg(id)
                .query(connection)?;
            this.note_killed(node, id, killed);
            Ok(killed == 1)
        })
    }

    /// Releases the lock in its owner's name and kills the one who gets it, before the reply can be
    /// written.
    fn kill_in_flight(&mut self) -> bool {
        self.with_first_waiter(|this, connection, key, node, id| {
            let info: Value = redis::cmd("LOCK.INFO").arg(key).query(connection)?;
            let Outcome::Grant { owner, .. } = words::outcome(&Action::Look, info) else {
                return Ok(false);
            };
            let release = Action::Release {
                down: Down::All,
                token: None,
            };
            let mut both = redis::pipe();
            both.add_command(words::command(key, &owner, &release, 0));
            both.cmd("CLIENT").arg("KILL").arg("ID").arg(id);
            let sent = this.stage.now();
            // The owner may have released it meanwhile: an error, and the kill is done all the same.
            let replies: Vec<Value> = both.ignore_errors().query(connection)?;
            let mut replies = replies.into_iter().map(Expect::reply);
            let released = replies.next().expect("two replies");
            let killed = replies
                .next()
                .expect("two replies")
                .is_ok_and(|n| n == Value::Int(1));
            this.note_killed(node, id, i64::from(killed));
            let outcome = match &released {
                Ok(value) => words::outcome(&release, value.clone()),
                Err(error) => {
                    words::refusal(error.code()).map_or(Outcome::Untouched, Outcome::Refused)
                }
            };
            this.write_call(key, &owner, release, sent, outcome);
            Ok(killed && released.is_ok())
        })
    }

    /// Frees a lock that is waited for, and asks for it in the same breath.
    fn let_a_newcomer_try(&mut self) -> bool {
        self.with_first_waiter(|this, connection, key, node, id| {
            let life = this.stage.deployment.nodes()[node].life();
            let seen = this.stage.now();
            // Who was first in line a moment ago is still there now, or this sighting says nothing.
            let waiters = redis::cmd("LOCK.WAITERS").arg(key).query(connection)?;
            let ids = crate::observer::client_ids(waiters);
            let known = |id: &i64| this.stage.client_of((node, life, *id));
            this.sightings.push(Sighting {
                key: key.to_owned(),
                sent: seen,
                ended: this.stage.now(),
                clients: ids.iter().filter_map(known).collect(),
            });
            let owner = format!("newcomer-{}", this.stage.now());
            let acquire = Action::Acquire {
                lease: Some(5_000),
                block: false,
                holds: None,
                token: None,
            };
            let mut both = redis::pipe();
            both.cmd("DEL").arg(key);
            both.add_command(words::command(key, &owner, &acquire, 0));
            let sent = this.stage.now();
            let (removed, reply): (i64, Value) = both.query(connection)?;
            this.write_down(key, sent, Outcome::Done);
            let outcome = words::outcome(&acquire, reply);
            let granted = matches!(outcome, Outcome::Grant { .. });
            this.write_call(key, &owner, acquire, sent, outcome);
            if granted {
                let sent = this.stage.now();
                let release = Action::Release {
                    down: Down::All,
                    token: None,
                };
                let reply = words::command(key, &owner, &release, 0).query(connection)?;
                let outcome = words::outcome(&release, reply);
                this.write_call(key, &owner, release, sent, outcome);
            }
            Ok(removed == 1 && ids.first() == Some(&id))
        })
    }

    fn unblock(&mut self) -> bool {
        self.with_first_waiter(|_, connection, _key, _node, id| {
            let unblock = redis::cmd("CLIENT")
                .arg("UNBLOCK")
                .arg(id)
                .arg("ERROR")
                .to_owned();
            Ok(unblock.query::<i64>(connection)? == 1)
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
                    let waiters: Value = redis::cmd("LOCK.WAITERS")
                        .arg(&key)
                        .arg("COUNT")
                        .arg(1)
                        .query(&mut connection)?;
                    match crate::observer::client_ids(waiters).first() {
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

    fn cut(&mut self, cut: Cut) -> bool {
        let proxy = self.stage.deployment.proxy().expect("a proxy");
        proxy.cut(self.random.random_range(0..64), cut)
    }

    fn pause(&mut self) -> bool {
        let ms: u64 = self.random.random_range(50..300);
        let mode = ["WRITE", "ALL"].choose(&mut self.random).expect("modes");
        let port = self.primary_port();
        let pause = redis::cmd("CLIENT")
            .arg("PAUSE")
            .arg(ms)
            .arg(mode)
            .to_owned();
        insist("CLIENT PAUSE", || pause.query::<()>(&mut connect(port)?));
        sleep(Duration::from_millis(ms));
        true
    }

    fn start_in_background(&mut self, command: &str) -> bool {
        let port = self.primary_port();
        // Refused while another child is at work.
        let started = connect(port).and_then(|mut c| redis::cmd(command).query::<String>(&mut c));
        started.is_ok()
    }

    fn flush(&mut self) -> bool {
        let sent = self.stage.now();
        let mode = ["SYNC", "ASYNC"].choose(&mut self.random).expect("modes");
        let port = self.primary_port();
        let flush = redis::cmd("FLUSHALL").arg(mode).to_owned();
        let done = connect(port)
            .and_then(|mut c| flush.query::<()>(&mut c))
            .is_ok();
        for key in self.stage.keys.clone() {
            let outcome = if done { Outcome::Done } else { Outcome::Lost };
            self.write_down(&key, sent, outcome);
        }
        done
    }

    fn remove(&mut self) -> bool {
        let key = self.key();
        let sent = self.stage.now();
        let node = self.stage.deployment.home(&key);
        let reply = self.stage.deployment.nodes()[node]
            .connect()
            .and_then(|mut c| redis::cmd("DEL").arg(&key).query::<i64>(&mut c));
        let outcome = match &reply {
            Ok(_) => Outcome::Done,
            Err(e) if e.is_io_error() => Outcome::Lost,
            Err(_) => Outcome::Untouched,
        };
        self.write_down(&key, sent, outcome);
        reply.is_ok_and(|removed| removed == 1)
    }

    /// A removal.
    fn write_down(&mut self, key: &str, sent: Moment, outcome: Outcome) {
        self.write_call(key, "", Action::Remove, sent, outcome);
    }

    fn write_call(
        &mut self,
        key: &str,
        owner: &str,
        action: Action,
        sent: Moment,
        outcome: Outcome,
    ) {
        self.calls.push(Call {
            client: ADMINISTRATOR,
            key: key.to_owned(),
            owner: owner.to_owned(),
            action,
            sent,
            ended: self.stage.now(),
            outcome,
        });
    }

    /// Fills the memory up to its limit, and keeps it full for a while.
    fn fill(&mut self, policy: &'static str) -> bool {
        const BALLAST: usize = 64;
        let from = self.stage.now();
        let mut filled = || -> RedisResult<u64> {
            let mut c = connect(self.primary_port())?;
            let field = |c: &mut Connection, section: &str, name: &str| -> RedisResult<u64> {
                let info: redis::InfoDict = redis::cmd("INFO").arg(section).query(c)?;
                Ok(info.get(name).unwrap_or_default())
            };
            let evicted = field(&mut c, "stats", "evicted_keys")?;
            let set = |c: &mut Connection, name: &str, value: &str| {
                redis::cmd("CONFIG")
                    .arg("SET")
                    .arg(name)
                    .arg(value)
                    .query::<()>(c)
            };
            set(&mut c, "maxmemory-policy", policy)?;
            let limit = field(&mut c, "memory", "used_memory")? + 600_000;
            set(&mut c, "maxmemory", &limit.to_string())?;
            let until = self.stage.now() + self.random.random_range(200_000..500_000);
            while self.stage.now() < until {
                for number in 0..BALLAST {
                    let mut set = redis::cmd("SET");
                    set.arg(format!("ballast-{number}")).arg("x".repeat(20_000));
                    // OOM is what this is for.
                    let _ = set.query::<Value>(&mut c);
                }
                sleep(Duration::from_millis(10));
            }
            set(&mut c, "maxmemory", "0")?;
            for number in 0..BALLAST {
                redis::cmd("UNLINK")
                    .arg(format!("ballast-{number}"))
                    .query::<()>(&mut c)?;
            }
            Ok(field(&mut c, "stats", "evicted_keys")? - evicted)
        };
        let evicted = filled();
        if policy != "noeviction" {
            self.stage.may_evict(Span {
                from,
                to: self.stage.now(),
            });
        }
        match evicted {
            Ok(keys) => {
                self.stage.count("evicted keys", keys);
                true
            }
            Err(e) => {
                self.stage
                    .trouble(format!("memory could not be filled: {e}"));
                false
            }
        }
    }

    /// Sets the clock, and a while later right again.
    fn step(&mut self, seconds: i64) -> bool {
        for ahead in [seconds, 0] {
            let from = self.stage.now();
            self.stage.deployment.set_clock(ahead);
            self.stage.clock_was_set(ClockStep {
                at: Span {
                    from,
                    to: self.stage.now(),
                },
                ahead: ahead * 1_000_000,
            });
            sleep(Duration::from_millis(self.random.random_range(100..500)));
        }
        true
    }

    fn lose_primary(&mut self, how: Loss) -> bool {
        let key = self.key();
        let from = self.stage.now();
        let before = || self.stage.let_holders_doze(true);
        self.stage.deployment.lose_primary(&key, how, &before);
        self.stage.let_holders_doze(false);
        self.stage.may_have_lost(Span {
            from,
            to: self.stage.now(),
        });
        true
    }

    fn move_slot(&mut self, how: Transfer) -> bool {
        let key = self.key();
        self.stage.deployment.move_slot(&key, how)
    }

    fn primary_port(&mut self) -> u16 {
        let key = self.key();
        let deployment = &self.stage.deployment;
        deployment.nodes()[deployment.home(&key)].port()
    }

    fn key(&mut self) -> String {
        let keys = &self.stage.keys;
        keys.choose(&mut self.random).expect("keys").clone()
    }
}
