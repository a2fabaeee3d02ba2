//! The tasks of clients with a lock: they work under it, re-enter, overstay, meddle.

use super::held::{Held, Step};
use super::{Client, TWINS};
use crate::locks::program::Program;
use crate::locks::protocol;
use history::{Acquire, Action, Down, Granted, Limit, Outcome, Renew};
use rand::RngExt;
use rand::seq::IndexedRandom;
use std::ops::Range;
use std::thread::{scope, sleep};
use std::time::Duration;

/// A lease that no undisturbed holder outlives, in milliseconds.
const LONG: Range<u64> = 4_000..8_000;
/// One that a holder may outlive.
const SHORT: Range<u64> = 40..250;
/// How long a waiting call waits at most.
const WAIT: Range<u64> = 20..900;

/// A lease in a hurry.
const HURRIED: Range<u64> = 2..60;
/// One that a comparison of the servers looks at.
const COMPARED: u64 = 30_000;
/// How long a waiting call waits at most in a hurry; 0: until it is granted.
const HURRIED_WAITS: [u64; 6] = [0, 3, 10, 30, 100, 300];

/// How often an idle holder writes, every tenth of a second.
const IDLE: usize = 30;

impl Client<'_> {
    /// One task after the other until the run is over. Calls queue in the sessions of a program; grants may move to those
    /// of another.
    pub(crate) fn run(&mut self, program: &Program<'_>, other: &Program<'_>) {
        while !self.stage.run.is_over() {
            self.tasks += 1;
            let queues = if self.stage.habits.programs.is_usual() {
                2
            } else {
                4
            };
            // The grant of an event was written by another client's call: WAIT does not cover it.
            let may_queue = !self.stage.habits.wait;
            if may_queue && self.random.random_ratio(1, queues) {
                self.queue(program, other);
                continue;
            }
            if self.stage.habits.hurry && self.random.random_ratio(1, 25) {
                self.leave();
            }
            let twins = if self.stage.habits.twins { 1..4 } else { 1..2 };
            match self.random.random_range(0..7) {
                0 if self.random.random() => self.meddle(),
                0 => self.overstay(),
                5 | 6 => self.work_under_two(),
                task if twins.contains(&task) => self.work_with_twin(),
                _ => self.work(),
            }
            self.pause(4);
        }
    }

    /// Takes the lock, works, lets go.
    fn work(&mut self) {
        let (key, owner) = (self.key(), self.owner());
        let lease = self.lease();
        let limit = self.limit();
        if let Some(mut held) = self.enter(&key, &owner, limit, lease) {
            if self.stage.holders_idle() {
                self.idle(&held);
            }
            match self.hold(&mut held) {
                Step::Done => self.give_back(&held),
                Step::Lost => self.clean_up(&held.key, &held.owner),
            }
        }
    }

    /// Takes a second lock under the first, in any order, or is told not to wait for it.
    fn work_under_two(&mut self) {
        let (key, second, owner) = (self.key(), self.key(), self.owner());
        // So long that it can close a cycle.
        let lease = self.lease().max(1_000);
        let limits = [self.limit(), self.limit()];
        let Some(first) = self.enter(&key, &owner, limits[0], lease) else {
            return;
        };
        self.pause(20);
        if key != second
            && let Some(both) = self.enter(&second, &owner, limits[1], lease)
        {
            self.write(&both);
            self.give_back(&both);
        }
        self.write(&first);
        self.give_back(&first);
    }

    /// Continues writing to the database, and asks the server nothing: if the grant gets lost
    /// meanwhile, nobody tells.
    fn idle(&mut self, held: &Held) {
        for _ in 0..IDLE {
            if held.is_alone() {
                self.write_by_sql(&held.key, held.token);
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Two calls of one owner, at the same time; either may die, and one may call off the other.
    fn work_with_twin(&mut self) {
        let (key, owner) = (self.key(), self.owner());
        let lease = self.lease();
        let calls_off = self.random.random_ratio(1, 3);
        let limits = [self.limit(), self.limit()];
        let mut twin = Client::new(self.stage, self.number + TWINS, true);
        twin.tasks = self.tasks;
        let pause = self.random.random_range(0..20);
        let (mine, others) = scope(|scope| {
            let other = scope.spawn(|| {
                sleep(Duration::from_millis(pause));
                if calls_off {
                    twin.release(&key, &owner, Down::All, None)
                } else {
                    twin.acquire(&key, &owner, limits[1], lease, None)
                }
            });
            let mine = self.acquire(&key, &owner, limits[0], lease, None);
            (mine, other.join().expect("the twin"))
        });
        self.calls.append(&mut twin.calls);
        if calls_off && others == Outcome::Left(0) && mine == Outcome::Nil {
            self.stage.run.count("waits called off", 1);
        }
        if !calls_off {
            // Each has its hold and gives it back.
            for outcome in [&mine, &others] {
                if let Outcome::Grant(Granted { token, .. }) = outcome {
                    self.pause(3);
                    if self.random.random_ratio(1, 3) {
                        self.write_by_script(&key, *token);
                    }
                    self.release(&key, &owner, Down::One, None);
                }
            }
        }
        if [&mine, &others].contains(&&Outcome::Lost) {
            self.clean_up(&key, &owner);
        } else if calls_off && matches!(mine, Outcome::Grant(_)) {
            self.release(&key, &owner, Down::All, None);
        }
    }

    /// Closes its connection while it waits, or just when it is granted the lock.
    fn leave(&mut self) {
        let (key, owner) = (self.key(), self.owner());
        let action = Action::Acquire(Acquire {
            limit: self.limit(),
            lease: Some(self.random.random_range(HURRIED)),
            block: true,
            ..Acquire::default()
        });
        let command = protocol::command(&key, &owner, &action, 0);
        let home = self.stage.deployment.home(&key);
        let Some(line) = self.line(home) else { return };
        let after = Duration::from_micros(self.random.random_range(0..3_000));
        let sent = self.stage.run.now();
        line.leave(self.stage, &command, after);
        self.stage.run.count("closes while waiting", 1);
        let span = (sent, self.stage.run.now());
        self.record(&key, &owner, action, span, Outcome::Lost);
    }

    /// How long a holder has the lock who is not disturbed.
    fn lease(&mut self) -> u64 {
        if !self.stage.habits.hurry {
            self.random.random_range(LONG)
        } else if self.random.random_ratio(1, 8) {
            COMPARED
        } else {
            self.random.random_range(HURRIED)
        }
    }

    /// Takes the lock for a short time, sleeps past it and continues writing.
    fn overstay(&mut self) {
        let (key, owner) = (self.key(), self.owner());
        let lease = self.random.random_range(SHORT);
        let limit = self.limit();
        let Some(held) = self.enter(&key, &owner, limit, lease) else {
            return;
        };
        self.write(&held);
        let over = self.random.random_range(5..60);
        sleep(Duration::from_millis(lease + over));
        self.write(&held);
        self.give_back(&held);
    }

    /// Touches what is not its own.
    fn meddle(&mut self) {
        let (key, owner) = (self.key(), self.owner());
        let token = match self.ask(&key, "", Action::Look, 0) {
            Outcome::Holders(holders) => holders[0].token,
            _ => 1,
        };
        let token = self.random.random_ratio(1, 2).then_some(token);
        let refused = match self.random.random_range(0..5) {
            0 => self.release(&key, &owner, Down::One, token),
            1 => self.release(&key, &owner, Down::To(0), token),
            2 => {
                let asks = Renew {
                    lease: Some(5_000),
                    token,
                    ..Renew::default()
                };
                self.renew(&key, &owner, asks)
            }
            3 => self.release(&key, &owner, Down::All, None),
            _ => {
                let action = Action::Acquire(Acquire {
                    limit: self.limit(),
                    lease: None,
                    block: true,
                    holds: Some(2),
                    token,
                });
                self.ask(&key, &owner, action, 50)
            }
        };
        if refused == Outcome::Lost {
            self.clean_up(&key, &owner);
        }
    }

    /// The first acquire of a task: waiting or not, repeatable or not.
    fn enter(&mut self, key: &str, owner: &str, limit: Option<Limit>, lease: u64) -> Option<Held> {
        let holds = self.random.random_ratio(1, 2).then_some(1);
        let mut outcome = self.acquire(key, owner, limit, lease, holds);
        let repeats = match outcome {
            Outcome::Lost => self.random.random_ratio(2, 3),
            Outcome::Grant(_) => self.random.random_ratio(1, 8),
            _ => false,
        };
        if repeats && holds.is_some() {
            // It does not add up.
            let again = self.acquire(key, owner, limit, lease, holds);
            if matches!(again, Outcome::Grant(_) | Outcome::Lost) {
                outcome = again;
            }
        }
        if outcome == Outcome::Lost {
            self.clean_up(key, owner);
        }
        Held::of(key, owner, &outcome)
    }

    fn hold(&mut self, held: &mut Held) -> Step {
        for _ in 0..self.random.random_range(0..5) {
            let step = match self.random.random_range(0..8) {
                0 | 1 => self.re_enter(held),
                2 => self.prolong(held),
                3 => self.release_one(held),
                _ => {
                    self.write(held);
                    Step::Done
                }
            };
            if matches!(step, Step::Lost) {
                // Somebody else may have it by now: this write must not undo theirs.
                self.pause(20);
                self.write(held);
                return step;
            }
            self.pause(6);
        }
        Step::Done
    }

    fn re_enter(&mut self, held: &mut Held) -> Step {
        let bound = self.random.random_ratio(1, 2);
        let limit = self.random.random_ratio(1, 4);
        let limit = if limit {
            self.limit()
        } else {
            held.named_limit()
        };
        let action = Action::Acquire(Acquire {
            limit,
            lease: self.random.random_ratio(1, 2).then_some(held.lease / 2),
            block: self.random.random_ratio(1, 2),
            holds: bound.then_some(held.holds + 1),
            token: self.random.random_ratio(1, 2).then_some(held.token),
        });
        let mut outcome = self.ask(&held.key, &held.owner, action.clone(), 50);
        if outcome == Outcome::Lost && bound {
            outcome = self.ask(&held.key, &held.owner, action, 50);
        }
        held.learn(&outcome, limit, true)
    }

    fn prolong(&mut self, held: &mut Held) -> Step {
        let raise = match self.stage.habits.raise {
            _ if !held.is_alone() => None,
            0 => None,
            most if self.random.random_ratio(1, 2) => {
                Some(held.token + self.random.random_range(0..=most))
            }
            _ => None,
        };
        let token = (raise.is_some() || self.random.random_ratio(1, 2)).then_some(held.token);
        let lease = self.random.random_ratio(1, 2);
        let lease = lease.then(|| self.lease());
        // A wider one only where the server takes it.
        let sets = raise.is_none() && held.holds == 1 && self.random.random_ratio(1, 2);
        let limit = if sets { self.limit() } else { None };
        let asks = Renew {
            limit,
            lease,
            token,
            raise,
        };
        let mut outcome = self.renew(&held.key, &held.owner, asks);
        if outcome == Outcome::Lost {
            outcome = self.renew(&held.key, &held.owner, asks);
        }
        held.learn(&outcome, limit, false)
    }

    fn release_one(&mut self, held: &mut Held) -> Step {
        if held.holds < 2 {
            return Step::Done;
        }
        let down = Down::To(held.holds - 1);
        let mut outcome = self.release(&held.key, &held.owner, down, Some(held.token));
        if outcome == Outcome::Lost {
            outcome = self.release(&held.key, &held.owner, down, Some(held.token));
        }
        held.learn(&outcome, None, false)
    }

    /// Gives everything back, and sometimes writes once more, too late.
    pub(super) fn give_back(&mut self, held: &Held) {
        let token = self.random.random_ratio(1, 2).then_some(held.token);
        let outcome = match self.random.random_range(0..3) {
            0 => {
                let mut last = Outcome::Untouched;
                for _ in 0..held.holds {
                    last = self.release(&held.key, &held.owner, Down::One, token);
                    if last == Outcome::Lost {
                        break;
                    }
                }
                last
            }
            1 => self.release(&held.key, &held.owner, Down::To(0), token),
            _ => self.release(&held.key, &held.owner, Down::All, token),
        };
        if matches!(outcome, Outcome::Lost | Outcome::Untouched) {
            self.clean_up(&held.key, &held.owner);
        }
        if self.random.random_ratio(1, 4) {
            self.pause(30);
            self.write(held);
        }
    }

    /// After a reply that was lost: neither a hold nor a wait of this owner stays behind.
    pub(super) fn clean_up(&mut self, key: &str, owner: &str) {
        loop {
            match self.release(key, owner, Down::All, None) {
                Outcome::Lost => {}
                Outcome::Untouched if self.stage.run.is_over() => return,
                Outcome::Untouched => sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
    }

    /// To what the lock guards: the database is for those who have it alone.
    pub(super) fn write(&mut self, held: &Held) {
        if !held.is_alone() || self.random.random_ratio(1, 2) {
            self.write_by_script(&held.key, held.token);
        }
        if held.is_alone() && !self.stage.habits.hurry {
            self.write_by_sql(&held.key, held.token);
        }
    }

    pub(super) fn acquire(
        &mut self,
        key: &str,
        owner: &str,
        limit: Option<Limit>,
        lease: u64,
        holds: Option<u32>,
    ) -> Outcome {
        let action = Action::Acquire(Acquire {
            limit,
            lease: Some(lease),
            block: self.random.random_ratio(4, 5),
            holds,
            token: None,
        });
        let wait_ms = if self.stage.habits.hurry {
            *HURRIED_WAITS.choose(&mut self.random).expect("waits")
        } else {
            self.random.random_range(WAIT)
        };
        self.ask(key, owner, action, wait_ms)
    }

    pub(super) fn release(
        &mut self,
        key: &str,
        owner: &str,
        down: Down,
        token: Option<u64>,
    ) -> Outcome {
        self.ask(key, owner, Action::Release { down, token }, 0)
    }

    pub(super) fn renew(&mut self, key: &str, owner: &str, asks: Renew) -> Outcome {
        self.ask(key, owner, Action::Renew(asks), 0)
    }
}
