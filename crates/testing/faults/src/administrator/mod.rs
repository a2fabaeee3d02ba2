//! What is done to the servers while clients work.

mod memory;
mod waiters;

use crate::deployment::{Loss, Transfer, connect, insist};
use crate::fault::Fault;
use crate::stage::Stage;
use faults::proxy::Cut;
use history::{Action, Call, ClockStep, Moment, Outcome, Sighting, Span};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use std::thread::sleep;
use std::time::Duration;
use testbed::Server;

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
