//! The nemesis of this workload: what is done to the servers and to the locks while clients work.

mod administrator;
mod memory;
mod waiters;

use super::deployment::{Loss, Transfer};
use super::fault::Fault;
use super::stage::Stage;
use crate::connection::{connect, insist};
use crate::nemesis::{Nemesis, drive};
use history::{Action, Call, ClockStep, History, Moment, Outcome, Sighting};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::{FromRedisValue, RedisResult};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cut, Server, line};

/// The number under which calls by the nemesis are recorded.
const NUMBER: u32 = 1_000;
/// How often servers are compared.
const BETWEEN_COMPARISONS: Duration = Duration::from_millis(1_500);
/// A clock that was set is an hour off.
const AN_HOUR: i64 = 3_600;

/// Injects faults, and records their effect on locks.
pub(crate) struct LocksNemesis<'s> {
    stage: &'s Stage,
    random: StdRng,
    calls: Vec<Call>,
    sightings: Vec<Sighting>,
    compared: Instant,
}

impl<'s> LocksNemesis<'s> {
    pub(crate) fn new(stage: &'s Stage) -> Self {
        Self {
            stage,
            random: stage.run.random(NUMBER),
            calls: Vec::new(),
            sightings: Vec::new(),
            compared: Instant::now(),
        }
    }

    /// Injects these faults until the run is over. Gives back what was recorded; the servers are whole
    /// again.
    pub(crate) fn run(mut self, faults: &[Fault], calm: Duration) -> History {
        let faults: Vec<_> = faults.iter().map(|fault| (*fault, 1)).collect();
        let run = &self.stage.run;
        let mut random = run.random(NUMBER + 1);
        drive(&mut self, run, &mut random, &faults, calm);
        History {
            calls: self.calls,
            sightings: self.sightings,
            ..History::default()
        }
    }

    fn inject_now(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Crash { loses } => self.crash(loses),
            Fault::Stop => self.stop(),
            Fault::ClientKill => self.kill_a_waiter(),
            Fault::AnyKill => self.kill_a_client(),
            Fault::KillWhenGranted => self.kill_when_granted(),
            Fault::Unblock => self.unblock(),
            Fault::CutRequest => self.cut(Cut::Request),
            Fault::CutReply => self.cut(Cut::Reply),
            Fault::HalfOpen => self.cut(Cut::Neither),
            Fault::Pause => self.pause(),
            Fault::Save => self.start_in_background("BGSAVE"),
            Fault::Rewrite => self.start_in_background("BGREWRITEAOF"),
            Fault::Flush => self.flush(),
            Fault::Remove => self.remove(),
            Fault::Expire => self.expire(),
            Fault::Rename => self.rename(),
            Fault::Overwrite => self.overwrite(),
            Fault::SessionEnd => self.end_a_session(),
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
            self.stage.let_holders_idle(true);
            sleep(Duration::from_millis(100));
        }
        let from = self.stage.run.now();
        self.stage.deployment.kill(0);
        let span = self.stage.run.since(from);
        if loses {
            self.stage.may_have_lost(span);
        }
        sleep(Duration::from_millis(self.random.random_range(0..60)));
        self.stage.deployment.restart(0);
        self.stage.let_holders_idle(false);
        true
    }

    /// For so long that leases may end meanwhile.
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
        let hurries = self.stage.habits.hurry;
        let ms: u64 = self
            .random
            .random_range(if hurries { 1..30 } else { 50..300 });
        let mode = ["WRITE", "ALL"].choose(&mut self.random).expect("modes");
        let port = self.primary_port();
        let pause = line(&format!("CLIENT PAUSE {ms} {mode}"));
        insist("CLIENT PAUSE", || pause.query::<()>(&mut connect(port)?));
        if !hurries {
            sleep(Duration::from_millis(ms));
        }
        true
    }

    fn start_in_background(&mut self, command: &str) -> bool {
        // Refused while another child is at work.
        self.ask_primary::<String>(command).is_ok()
    }

    fn flush(&mut self) -> bool {
        let sent = self.stage.run.now();
        let names = ["FLUSHDB", "FLUSHALL"];
        let name = names.choose(&mut self.random).expect("names");
        let mode = ["SYNC", "ASYNC"].choose(&mut self.random).expect("modes");
        let done = self.ask_primary::<()>(&format!("{name} {mode}")).is_ok();
        for key in &self.stage.run.keys {
            let outcome = if done { Outcome::Done } else { Outcome::Lost };
            self.record_removal(key, sent, outcome);
        }
        done
    }

    /// A removal.
    fn record_removal(&mut self, key: &str, sent: Moment, outcome: Outcome) {
        self.record_call(key, "", Action::Remove, sent, outcome);
    }

    fn record_call(
        &mut self,
        key: &str,
        owner: &str,
        action: Action,
        sent: Moment,
        outcome: Outcome,
    ) {
        let call = Call::sent(NUMBER, key, owner, action, sent);
        self.calls.push(call.ended(self.stage.run.now(), outcome));
    }

    /// Sets the clock, and a while later right again.
    fn step(&mut self, seconds: i64) -> bool {
        for ahead in [seconds, 0] {
            let from = self.stage.run.now();
            self.stage.deployment.set_clock(ahead);
            self.stage.clock_was_set(ClockStep {
                at: self.stage.run.since(from),
                ahead: ahead * 1_000_000,
            });
            sleep(Duration::from_millis(self.random.random_range(100..500)));
        }
        true
    }

    fn lose_primary(&mut self, how: Loss) -> bool {
        let key = self.key();
        let from = self.stage.run.now();
        let before = || self.stage.let_holders_idle(true);
        self.stage.deployment.lose_primary(&key, how, &before);
        self.stage.let_holders_idle(false);
        self.stage.may_have_lost(self.stage.run.since(from));
        true
    }

    fn move_slot(&mut self, how: Transfer) -> bool {
        let key = self.key();
        self.stage.deployment.move_slot(&key, how)
    }

    /// Sends a command to the primary of some key.
    fn ask_primary<T: FromRedisValue>(&mut self, words: &str) -> RedisResult<T> {
        line(words).query(&mut connect(self.primary_port())?)
    }

    fn primary_port(&mut self) -> u16 {
        let key = self.key();
        let deployment = &self.stage.deployment;
        deployment.nodes()[deployment.home(&key)].port()
    }

    fn key(&mut self) -> String {
        let keys = &self.stage.run.keys;
        keys.choose(&mut self.random).expect("keys").clone()
    }
}

impl Nemesis for LocksNemesis<'_> {
    type Fault = Fault;

    fn inject(&mut self, fault: Fault) -> bool {
        let is_injected = self.inject_now(fault);
        if is_injected {
            self.stage.run.count(fault.name(), 1);
        }
        is_injected
    }

    fn tick(&mut self) {
        if self.compared.elapsed() > BETWEEN_COMPARISONS {
            let compared = self.stage.deployment.compare();
            self.stage.run.count("comparisons", u64::from(compared));
            self.compared = Instant::now();
        }
    }
}
