//! A lock on one server: what a correct one does, and each of the ways in which one can be wrong.

mod commands;

use std::collections::VecDeque;

use history::{Action, Call, Outcome, Refusal};

use super::fault::Fault;

/// The server's wall clock at the start of a run, in microseconds.
const START: i64 = 1_000_000_000;

/// A call, by its place among the calls of a run.
pub(crate) type Id = usize;

#[derive(Clone, Debug)]
struct Held {
    owner: String,
    token: u64,
    holds: u32,
    lease: u64,
    /// By the server's clock, in milliseconds.
    deadline: i64,
    answered: bool,
}

#[derive(Clone, Debug)]
struct Waiter {
    id: Id,
    call: Call,
    until: u64,
    /// Its connection will turn out to be gone when it is granted.
    doomed: bool,
}

#[derive(Clone, Debug)]
struct GiveBack {
    token: u64,
    took_hold: bool,
    shared: bool,
}

/// What a crash cannot take away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saved {
    held: Option<Held>,
    last_token: u64,
    register: u64,
}

/// The server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    now: u64,
    pub(crate) ahead: i64,
    saved: Saved,
    queue: VecDeque<Waiter>,
    give_backs: Vec<GiveBack>,
    /// What waiting calls were answered.
    pub(crate) answers: Vec<(Id, Outcome)>,
    /// The waiting calls that were granted after their connection was gone.
    pub(crate) dead: Vec<Id>,
    pub(crate) fault: Option<Fault>,
    /// New tokens do not follow time.
    timeless: bool,
    /// How often the fault has had its chance.
    chances: u32,
}

impl Server {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    pub(crate) fn save(&self) -> Saved {
        self.saved.clone()
    }

    /// Goes down, and comes back with what was saved.
    pub(crate) fn crash(&mut self, saved: Saved) {
        // Time goes on, and tokens follow it.
        let last_token = self.saved.last_token;
        self.saved = saved;
        self.timeless = self.is(Fault::TokensFallAfterLoss);
        if !self.timeless {
            self.saved.last_token = last_token;
        }
        self.queue.clear();
        self.give_backs.clear();
    }

    /// Time goes on; leases and waits end.
    pub(crate) fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        let millis = self.wall() / 1000;
        if self
            .saved
            .held
            .as_ref()
            .is_some_and(|held| held.deadline < millis)
            && !self.is(Fault::NeverExpires)
        {
            self.saved.held = None;
        }
    }

    /// Memory is full.
    pub(crate) fn evict(&mut self) {
        self.saved.held = None;
    }

    /// What the server does in between, every few milliseconds.
    pub(crate) fn round(&mut self) {
        let now = self.now;
        let (over, waiting): (VecDeque<_>, _) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|waiter| waiter.until <= now);
        self.queue = waiting;
        self.answers
            .extend(over.iter().map(|waiter| (waiter.id, Outcome::Nil)));
        self.settle();
        self.serve();
    }

    /// The clients whose calls wait, in order.
    pub(crate) fn waiters(&self) -> Vec<u32> {
        self.queue.iter().map(|waiter| waiter.call.client).collect()
    }

    /// A waiting call's connection is closed.
    pub(crate) fn leave(&mut self, id: Id) {
        self.queue.retain(|waiter| waiter.id != id);
    }

    /// A script writes behind a fence.
    pub(crate) fn write(&mut self, token: u64) -> bool {
        self.settle();
        let current = self.fence(token);
        if current {
            self.saved.register = token;
        }
        current
    }

    /// Runs a command; nothing where it waits.
    pub(crate) fn run(&mut self, id: Id, call: &Call, until: u64, doomed: bool) -> Option<Outcome> {
        if call.action != Action::Look {
            self.settle();
        }
        let outcome = match &call.action {
            Action::Acquire { block, .. } => {
                if self.saved.held.is_none() && !self.is(Fault::Barging) {
                    self.serve();
                }
                let outcome = self.acquire(call, true);
                if outcome == Outcome::Nil && *block {
                    let waiter = Waiter {
                        id,
                        call: call.clone(),
                        until,
                        doomed,
                    };
                    if self.is_at_times(Fault::LastInFirstOut) {
                        self.queue.push_front(waiter);
                    } else {
                        self.queue.push_back(waiter);
                    }
                    return None;
                }
                outcome
            }
            Action::Release { down, token } => self.release(call, *down, *token),
            Action::Renew {
                lease,
                token,
                raise,
            } => self.renew(call, *lease, *token, *raise),
            Action::Fence(token) => {
                if self.fence(*token) {
                    Outcome::Done
                } else {
                    Outcome::Refused(Refusal::Fenced)
                }
            }
            Action::Look => self.saved.held.as_ref().map_or(Outcome::Nil, grant),
            Action::Remove => {
                self.saved.held = None;
                Outcome::Done
            }
        };
        if !self.is(Fault::Barging) {
            self.serve();
        }
        Some(outcome)
    }

    fn wall(&self) -> i64 {
        START + self.now.cast_signed() + self.ahead
    }

    fn deadline(&self, lease: u64) -> i64 {
        self.wall() / 1000 + lease.cast_signed()
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Now and then only, so that everything else still happens.
    fn is_at_times(&mut self, fault: Fault) -> bool {
        self.chances += u32::from(self.is(fault));
        self.is(fault) && self.chances % 3 == 1
    }

    fn new_token(&mut self) -> u64 {
        let last = self.saved.last_token;
        if last > 0 && self.is_at_times(Fault::TokenLower) {
            return last - 1;
        }
        if last > 0 && self.is_at_times(Fault::TokenRepeated) {
            return last;
        }
        let time = u64::try_from(self.wall()).unwrap_or(0);
        let token = (last + 1).max(if self.timeless { 0 } else { time });
        self.saved.last_token = token;
        token
    }

    /// Grants to those whose turn it is.
    fn serve(&mut self) {
        loop {
            let next = match &self.saved.held {
                None => 0,
                Some(held) => {
                    let mut queue = self.queue.iter();
                    match queue.position(|waiter| waiter.call.owner == held.owner) {
                        Some(place) => place,
                        None => return,
                    }
                }
            };
            let Some(waiter) = self.queue.get(next).cloned() else {
                return;
            };
            let before = self.saved.held.as_ref().map_or(0, |held| held.holds);
            let outcome = self.acquire(&waiter.call, !waiter.doomed);
            let Outcome::Grant { token, holds, .. } = outcome else {
                return;
            };
            self.queue.remove(next);
            if !waiter.doomed {
                self.answers.push((waiter.id, outcome));
                continue;
            }
            self.dead.push(waiter.id);
            if !self.is(Fault::GivenBackStays) {
                self.give_backs.push(GiveBack {
                    token,
                    took_hold: holds > before,
                    shared: false,
                });
            }
        }
    }

    /// Gives back what callers took that are gone.
    fn settle(&mut self) {
        while !self.give_backs.is_empty() {
            for mut owed in std::mem::take(&mut self.give_backs) {
                let deadline = self
                    .saved
                    .held
                    .as_ref()
                    .map_or(0, |held| self.deadline(held.lease));
                let Some(held) = self.saved.held.as_mut() else {
                    continue;
                };
                if held.token != owed.token {
                    continue;
                }
                owed.shared |= held.answered;
                if !owed.shared || self.fault == Some(Fault::TwinTaken) {
                    self.saved.held = None;
                } else if owed.took_hold && held.holds > 1 {
                    held.holds -= 1;
                    held.deadline = held.deadline.max(deadline);
                }
            }
            self.serve();
        }
    }
}

fn grant(held: &Held) -> Outcome {
    Outcome::Grant {
        token: held.token,
        owner: held.owner.clone(),
        holds: held.holds,
        lease: held.lease,
    }
}
