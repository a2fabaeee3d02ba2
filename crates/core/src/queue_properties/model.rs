//! The same, done naively: one list of calls in the order of joining, searched from its start each
//! time, and who was answered written on the lock itself.

use std::collections::{BTreeMap, BTreeSet};

use crate::Refusal;

/// A key of a database.
pub(super) type Spot = (i32, u8);

pub(super) const SPOTS: [Spot; 4] = [(0, b'a'), (0, b'b'), (1, b'a'), (1, b'b')];
/// Owners that are easily taken for one another.
pub(super) const OWNERS: [&[u8]; 3] = [b"o", b"o\0", b"O"];
/// Every lease, in milliseconds.
pub(super) const LEASE: u64 = 20;
/// By how much a raise lifts a token.
pub(super) const LIFT: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// `LOCK.ACQUIRE`; it waits for so long, 0 for ever, or not at all.
    Acquire {
        spot: Spot,
        owner: usize,
        holds: Option<u32>,
        block: Option<u64>,
    },
    /// `LOCK.RELEASE`, with `ALL` or without.
    Release {
        spot: Spot,
        owner: usize,
        all: bool,
    },
    /// The holder's `LOCK.RENEW … RAISE`.
    Raise(Spot),
    /// One of the waiting calls is gone.
    Disconnect(usize),
    /// One of the granted calls is answered.
    Deliver(usize),
    /// One of the granted calls is gone.
    Abandon(usize),
    /// So many milliseconds go by.
    Pass(u64),
    /// An administrator's `DEL`, `FLUSHDB`, and `SWAPDB 0 1` once no grant is pending.
    Del(Spot),
    Flush(i32),
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
    Pending { grant: u64, took: bool },
    Owes { grant: u64, took: bool },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) number: usize,
    pub(super) spot: Spot,
    pub(super) owner: usize,
    holds: Option<u32>,
    until: Option<u64>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub(super) owner: usize,
    pub(super) token: u64,
    pub(super) holds: u32,
    pub(super) deadline: u64,
    /// Which grant it is, whatever its token.
    grant: u64,
    answered: bool,
}

enum Verdict {
    Granted { took: bool },
    Busy,
    Refused(Refusal),
}

/// A server in memory; nothing is held or waited for, and the clocks stand at 0, at first.
#[derive(Debug, Default)]
pub(super) struct Model {
    calls: Vec<Call>,
    pub(super) locks: BTreeMap<Spot, Lock>,
    pub(super) now: u64,
    last_token: u64,
    grants: u64,
    pub(super) joined: usize,
    /// Each call's end, in the order in which they came.
    pub(super) ended: Vec<(usize, End)>,
    /// The rare cases that came up.
    pub(super) cases: BTreeSet<&'static str>,
}

impl Model {
    pub(super) fn waiting(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.calls.iter().filter(|call| call.stage == Stage::Waits)
    }

    pub(super) fn waiting_at(&self, spot: Spot) -> impl Iterator<Item = &Call> {
        self.waiting().filter(move |call| call.spot == spot)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &Call> {
        let pending = |call: &&Call| matches!(call.stage, Stage::Pending { .. });
        self.calls.iter().filter(pending)
    }

    /// The wait that ends first: when, and of which call.
    pub(super) fn next_end(&self) -> Option<(u64, usize)> {
        self.waiting()
            .filter_map(|call| Some((call.until?, call.number)))
            .min()
    }

    pub(super) fn happens(&mut self, operation: Operation) {
        match operation {
            Operation::Acquire {
                spot,
                owner,
                holds,
                block,
            } => self.acquire(spot, owner, holds, block),
            Operation::Release { spot, owner, all } => self.release(spot, owner, all),
            Operation::Raise(spot) => {
                self.settle(spot);
                let is_pending = self.pending().any(|call| call.spot == spot);
                if let Some(lock) = self.locks.get_mut(&spot) {
                    if is_pending && !lock.answered {
                        self.cases.insert("raised while pending");
                    }
                    lock.token += LIFT;
                    lock.deadline = self.now + LEASE;
                    lock.answered = true;
                    self.last_token = self.last_token.max(lock.token);
                }
            }
            Operation::Disconnect(number) => self.end(number, End::Disconnected),
            Operation::Deliver(number) => self.deliver(number),
            Operation::Abandon(number) => {
                let call = self.call(number);
                if let Stage::Pending { grant, took } = call.stage {
                    call.stage = Stage::Owes { grant, took };
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
            Operation::Del(spot) => drop(self.locks.remove(&spot)),
            Operation::Flush(database) => self.locks.retain(|spot, _| spot.0 != database),
            Operation::Swap => self.swap(),
            Operation::Tick => self.tick(),
        }
    }

    fn acquire(&mut self, spot: Spot, owner: usize, holds: Option<u32>, block: Option<u64>) {
        self.settle(spot);
        if !self.locks.contains_key(&spot) {
            self.serve(spot);
        }
        match self.judge(spot, owner, holds) {
            Verdict::Granted { .. } => {
                let is_pending = self.pending().any(|call| call.spot == spot);
                let lock = self.locks.get_mut(&spot).unwrap();
                if is_pending && !lock.answered {
                    self.cases.insert("answered directly while pending");
                }
                lock.answered = true;
            }
            Verdict::Busy => {
                if let Some(wait) = block {
                    self.calls.push(Call {
                        number: self.joined,
                        spot,
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

    fn release(&mut self, spot: Spot, owner: usize, all: bool) {
        self.settle(spot);
        match self.locks.get_mut(&spot) {
            Some(lock) if lock.owner == owner => {
                lock.holds -= if all { lock.holds } else { 1 };
                if lock.holds > 0 {
                    lock.deadline = lock.deadline.max(self.now + LEASE);
                    lock.answered = true;
                } else {
                    self.locks.remove(&spot);
                    self.serve(spot);
                }
            }
            _ if all => {
                let own = self.waiting_at(spot).filter(|call| call.owner == owner);
                let numbers: Vec<_> = own.map(|call| call.number).collect();
                for number in numbers {
                    self.end(number, End::Cancelled);
                }
            }
            _ => {}
        }
    }

    fn deliver(&mut self, number: usize) {
        let call = *self.call(number);
        if let (Stage::Pending { grant, .. }, Some(lock)) =
            (call.stage, self.locks.get_mut(&call.spot))
        {
            lock.answered |= lock.grant == grant;
        }
        self.end(number, End::Granted);
    }

    fn swap(&mut self) {
        for spot in SPOTS {
            self.give_back(spot);
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
        for spot in SPOTS {
            self.settle(spot);
        }
        for spot in SPOTS {
            self.serve(spot);
        }
    }

    /// What is owed here is given back, and then it is somebody's turn.
    fn settle(&mut self, spot: Spot) {
        if self.give_back(spot) {
            self.serve(spot);
        }
    }

    fn give_back(&mut self, spot: Spot) -> bool {
        let mut any = false;
        let owes = |call: &Call| call.spot == spot && matches!(call.stage, Stage::Owes { .. });
        while let Some(index) = self.calls.iter().position(owes) {
            let Stage::Owes { grant, took } = self.calls.remove(index).stage else {
                unreachable!("it owes");
            };
            any = true;
            let will_know = self.calls.iter().any(
                |call| matches!(call.stage, Stage::Pending { grant: theirs, .. } if theirs == grant),
            );
            let Some(lock) = self.locks.get_mut(&spot).filter(|l| l.grant == grant) else {
                self.cases.insert("given back too late");
                continue;
            };
            self.cases.insert(match (lock.answered || will_know, took) {
                (false, _) => "given back whole",
                (true, true) if lock.holds > 1 => "a hold given back",
                (true, true) => "the last hold stays",
                (true, false) => "no hold to give back",
            });
            if !lock.answered && !will_know {
                self.locks.remove(&spot);
            } else if took && lock.holds > 1 {
                lock.holds -= 1;
                lock.deadline = lock.deadline.max(self.now + LEASE);
            }
        }
        any
    }

    fn serve(&mut self, spot: Spot) {
        loop {
            let holder = self.locks.get(&spot).map(|lock| lock.owner);
            let next = |call: &Call| {
                call.spot == spot
                    && call.stage == Stage::Waits
                    && holder.is_none_or(|holder| holder == call.owner)
            };
            let Some(index) = self.calls.iter().position(next) else {
                return;
            };
            let call = self.calls[index];
            match self.judge(spot, call.owner, call.holds) {
                Verdict::Granted { took } => {
                    let grant = self.locks[&spot].grant;
                    self.calls[index].stage = Stage::Pending { grant, took };
                }
                Verdict::Busy => unreachable!("free, or its own"),
                Verdict::Refused(refusal) => self.end(call.number, End::Refused(refusal)),
            }
        }
    }

    fn judge(&mut self, spot: Spot, owner: usize, wanted: Option<u32>) -> Verdict {
        let counts_on = wanted.map_or(0, |wanted| wanted - 1);
        let Some(lock) = self.locks.get_mut(&spot) else {
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
                answered: false,
            };
            self.locks.insert(spot, lock);
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
