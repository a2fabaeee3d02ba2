//! A naive model: one list of calls in the order of joining, searched from the start each time. The
//! grants of which a call was answered are one set.

use std::collections::{BTreeMap, BTreeSet};

use crate::Refusal;

/// The name of a lock: a database and a key.
pub(super) type Name = (i32, u8);

pub(super) const NAMES: [Name; 4] = [(0, b'a'), (0, b'b'), (1, b'a'), (1, b'b')];
/// Owners that are easily confused.
pub(super) const OWNERS: [&[u8]; 3] = [b"o", b"o\0", b"O"];
/// Every lease, in milliseconds.
pub(super) const LEASE: u64 = 20;
/// How much a raise adds to a token.
pub(super) const LIFT: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// `LOCK.ACQUIRE`, with `BLOCK` or without.
    Acquire {
        name: Name,
        owner: usize,
        holds: Option<u32>,
        block: Option<u64>,
    },
    /// `LOCK.RELEASE`, with `ALL` or without.
    Release { name: Name, owner: usize, all: bool },
    /// The holder's `LOCK.RENEW … RAISE`.
    Raise(Name),
    /// The client of a waiting call disconnects.
    Disconnect(usize),
    /// The reply of a pending grant is written to its client.
    Write(usize),
    /// What is written is sent.
    Send,
    /// The client of a sent reply asks for a lock again.
    Confirm(usize),
    /// The client of a sent reply disconnects, and had not read it as a whole.
    Unsent(usize),
    /// The client of a pending grant disconnects.
    Abandon(usize),
    /// So many milliseconds pass.
    Pass(u64),
    /// `DEL`.
    Del(Name),
    /// `FLUSHDB`.
    Flush(i32),
    /// `SWAPDB 0 1`, while no grant is pending.
    Swap,
    /// The event loop's tick.
    Tick,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Granted,
    Abandoned,
    TimedOut,
    Cancelled,
    Disconnected,
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    Pending(Took),
    Written(Took),
    /// The reply is sent, and that of no other call of the grant.
    Sent(Took),
    GivesBack(Took),
    /// It gives the grant back if that still stands as the call left it.
    GivesBackUnchanged(Took),
}

/// What a call took: the lock as it was then, and whether it took a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Took {
    lock: Lock,
    hold: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: usize,
    pub(super) name: Name,
    pub(super) owner: usize,
    holds: Option<u32>,
    until: Option<u64>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) owner: usize,
    pub(super) token: u64,
    pub(super) holds: u32,
    pub(super) deadline: u64,
    /// The number of the grant, which a raise does not change.
    grant: u64,
}

enum Verdict {
    Granted { took: bool },
    Busy,
    Refused(Refusal),
}

/// A server; at the start all locks are free and the clocks are at 0.
#[derive(Debug, Default)]
pub(super) struct Model {
    calls: Vec<Call>,
    pub(super) locks: BTreeMap<Name, Lock>,
    pub(super) now: u64,
    last_token: u64,
    grants: u64,
    answered: BTreeSet<u64>,
    pub(super) joined: usize,
    /// The ends of the calls, in order.
    pub(super) ended: Vec<(usize, End)>,
    /// The rare cases that were reached.
    pub(super) cases: BTreeSet<&'static str>,
}

impl Model {
    pub(super) fn waiting(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.calls.iter().filter(|call| call.stage == Stage::Waits)
    }

    pub(super) fn waiting_at(&self, name: Name) -> impl Iterator<Item = &Call> {
        self.waiting().filter(move |call| call.name == name)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &Call> {
        let pending = |call: &&Call| matches!(call.stage, Stage::Pending(_));
        self.calls.iter().filter(pending)
    }

    /// The calls with a pending grant, with those whose reply is written.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Call> {
        let of = |call: &&Call| matches!(call.stage, Stage::Pending(_) | Stage::Written(_));
        self.calls.iter().filter(of)
    }

    pub(super) fn sent(&self) -> impl Iterator<Item = &Call> {
        let sent = |call: &&Call| matches!(call.stage, Stage::Sent(_));
        self.calls.iter().filter(sent)
    }

    /// The wait that ends first: when, and of which call.
    pub(super) fn next_end(&self) -> Option<(u64, usize)> {
        self.waiting()
            .filter_map(|call| Some((call.until?, call.number)))
            .min()
    }

    pub(super) fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Acquire {
                name,
                owner,
                holds,
                block,
            } => self.acquire(name, owner, holds, block),
            Operation::Release { name, owner, all } => self.release(name, owner, all),
            Operation::Raise(name) => {
                self.settle(name);
                let is_pending = self.unanswered().any(|call| call.name == name);
                if let Some(lock) = self.locks.get_mut(&name) {
                    if is_pending && !self.answered.contains(&lock.grant) {
                        self.cases.insert("raised while pending");
                    }
                    lock.token += LIFT;
                    lock.deadline = self.now + LEASE;
                    self.answered.insert(lock.grant);
                    self.last_token = self.last_token.max(lock.token);
                }
            }
            Operation::Disconnect(number) => self.end(number, End::Disconnected),
            Operation::Write(number) => {
                let call = self.call(number);
                if let Stage::Pending(took) = call.stage {
                    call.stage = Stage::Written(took);
                }
            }
            Operation::Send => self.send(),
            Operation::Confirm(number) => self.calls.retain(|call| call.number != number),
            Operation::Unsent(number) => {
                let call = self.call(number);
                if let Stage::Sent(took) = call.stage {
                    call.stage = Stage::GivesBackUnchanged(took);
                }
            }
            Operation::Abandon(number) => {
                let call = self.call(number);
                if let Stage::Pending(took) | Stage::Written(took) = call.stage {
                    call.stage = Stage::GivesBack(took);
                }
                self.ended.push((number, End::Abandoned));
            }
            Operation::Pass(millis) => {
                self.now += millis;
                let held = self.locks.len();
                self.locks.retain(|_, lock| lock.deadline >= self.now);
                if self.locks.len() < held {
                    self.cases.insert("expired");
                }
            }
            Operation::Del(name) => drop(self.locks.remove(&name)),
            Operation::Flush(database) => self.locks.retain(|name, _| name.0 != database),
            Operation::Swap => self.swap(),
            Operation::Tick => self.tick(),
        }
    }

    fn acquire(&mut self, name: Name, owner: usize, holds: Option<u32>, block: Option<u64>) {
        self.settle(name);
        if !self.locks.contains_key(&name) {
            self.serve(name);
        }
        match self.judge(name, owner, holds) {
            Verdict::Granted { .. } => {
                let is_pending = self.unanswered().any(|call| call.name == name);
                let lock = self.locks.get_mut(&name).unwrap();
                if is_pending && !self.answered.contains(&lock.grant) {
                    self.cases.insert("answered directly while pending");
                }
                self.answered.insert(lock.grant);
            }
            Verdict::Busy => {
                if let Some(wait) = block {
                    self.calls.push(Call {
                        number: self.joined,
                        name,
                        owner,
                        holds,
                        until: (wait > 0).then_some(self.now + wait),
                        stage: Stage::Waits,
                    });
                    self.joined += 1;
                }
            }
            Verdict::Refused(_) => {}
        }
    }

    fn release(&mut self, name: Name, owner: usize, all: bool) {
        self.settle(name);
        match self.locks.get_mut(&name) {
            Some(lock) if lock.owner == owner => {
                lock.holds -= if all { lock.holds } else { 1 };
                if lock.holds > 0 {
                    lock.deadline = lock.deadline.max(self.now + LEASE);
                    self.answered.insert(lock.grant);
                } else {
                    self.locks.remove(&name);
                    self.serve(name);
                }
            }
            _ if all => {
                let own = self.waiting_at(name).filter(|call| call.owner == owner);
                let numbers: Vec<_> = own.map(|call| call.number).collect();
                for number in numbers {
                    self.end(number, End::Cancelled);
                }
            }
            _ => {}
        }
    }

    fn send(&mut self) {
        while let Some((number, took)) = self.calls.iter().find_map(|call| match call.stage {
            Stage::Written(took) => Some((call.number, took)),
            _ => None,
        }) {
            let call = self.call(number);
            (call.stage, call.until) = (Stage::Sent(took), None);
            let is_pending = self.is_pending(took.lock.grant);
            if !self.answered.insert(took.lock.grant) || is_pending {
                self.calls.retain(|call| call.number != number);
            }
            self.ended.push((number, End::Granted));
        }
    }

    /// True when a call of this grant is to be answered yet.
    fn is_pending(&self, grant: u64) -> bool {
        self.unanswered().any(|call| {
            matches!(call.stage, Stage::Pending(took) | Stage::Written(took) if took.lock.grant == grant)
        })
    }

    fn swap(&mut self) {
        for name in NAMES {
            self.give_back(name);
        }
        let swapped = |((database, key), lock)| ((1 - database, key), lock);
        self.locks = std::mem::take(&mut self.locks)
            .into_iter()
            .map(swapped)
            .collect();
    }

    fn tick(&mut self) {
        while let Some((end, number)) = self.next_end()
            && end <= self.now
        {
            self.end(number, End::TimedOut);
        }
        for name in NAMES {
            self.settle(name);
        }
        for name in NAMES {
            self.serve(name);
        }
    }

    /// Gives back what abandoned calls took, and then serves the queue.
    fn settle(&mut self, name: Name) {
        if self.give_back(name) {
            self.serve(name);
        }
    }

    fn give_back(&mut self, name: Name) -> bool {
        let mut any = false;
        while let Some(index) = self.calls.iter().position(|call| {
            let gives_back = matches!(
                call.stage,
                Stage::GivesBack(_) | Stage::GivesBackUnchanged(_)
            );
            call.name == name && gives_back
        }) {
            let stage = self.calls.remove(index).stage;
            any = true;
            let (took, only_unchanged) = match stage {
                Stage::GivesBack(took) => (took, false),
                Stage::GivesBackUnchanged(took) => (took, true),
                _ => unreachable!("it gives back"),
            };
            let is_pending = self.is_pending(took.lock.grant);
            let lock = self.locks.get_mut(&name);
            let Some(lock) = lock.filter(|lock| lock.grant == took.lock.grant) else {
                self.cases.insert("given back too late");
                continue;
            };
            let stands = |lock: &Lock| (lock.token, lock.holds, lock.deadline);
            if only_unchanged {
                let is_unchanged = stands(lock) == stands(&took.lock);
                self.cases.insert(if is_unchanged {
                    "unsent and given back"
                } else {
                    "unsent and changed since"
                });
                if is_unchanged {
                    self.locks.remove(&name);
                }
                continue;
            }
            let is_shared = self.answered.contains(&took.lock.grant) || is_pending;
            self.cases.insert(match (is_shared, took.hold) {
                (false, _) => "given back whole",
                (true, true) if lock.holds > 1 => "a hold given back",
                (true, true) => "the last hold stays",
                (true, false) => "no hold to give back",
            });
            if !is_shared {
                self.locks.remove(&name);
            } else if took.hold && lock.holds > 1 {
                lock.holds -= 1;
                lock.deadline = lock.deadline.max(self.now + LEASE);
            }
        }
        any
    }

    fn serve(&mut self, name: Name) {
        loop {
            let holder = self.locks.get(&name).map(|lock| lock.owner);
            let next = |call: &Call| {
                call.name == name
                    && call.stage == Stage::Waits
                    && holder.is_none_or(|holder| holder == call.owner)
            };
            let Some(index) = self.calls.iter().position(next) else {
                return;
            };
            let call = self.calls[index];
            match self.judge(name, call.owner, call.holds) {
                Verdict::Granted { took } => {
                    let lock = self.locks[&name];
                    self.calls[index].stage = Stage::Pending(Took { lock, hold: took });
                }
                Verdict::Busy => unreachable!("free, or its own"),
                Verdict::Refused(refusal) => self.end(call.number, End::Refused(refusal)),
            }
        }
    }

    fn judge(&mut self, name: Name, owner: usize, wanted: Option<u32>) -> Verdict {
        let counts_on = wanted.map_or(0, |wanted| wanted - 1);
        let Some(lock) = self.locks.get_mut(&name) else {
            if counts_on > 0 {
                return Verdict::Refused(Refusal::NotHeld);
            }
            self.grants += 1;
            self.last_token = (self.last_token + 1).max(self.now * 1000);
            let lock = Lock {
                owner,
                token: self.last_token,
                holds: 1,
                deadline: self.now + LEASE,
                grant: self.grants,
            };
            self.locks.insert(name, lock);
            return Verdict::Granted { took: true };
        };
        if lock.owner != owner {
            return match counts_on {
                0 => Verdict::Busy,
                _ => Verdict::Refused(Refusal::NotOwner),
            };
        }
        if lock.holds < counts_on {
            return Verdict::Refused(Refusal::HoldsLost);
        }
        let took = wanted.is_none_or(|wanted| lock.holds < wanted);
        lock.holds += u32::from(took);
        lock.deadline = lock.deadline.max(self.now + LEASE);
        Verdict::Granted { took }
    }

    fn call(&mut self, number: usize) -> &mut Call {
        let mut calls = self.calls.iter_mut();
        calls.find(|call| call.number == number).unwrap()
    }

    fn end(&mut self, number: usize, end: End) {
        self.calls.retain(|call| call.number != number);
        self.ended.push((number, end));
    }
}
