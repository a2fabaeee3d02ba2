//! The model's locks beside the real calls and shares.

use super::game::{Lock, NONE, Party, Verdict};
use super::rule;
use crate::deadlock::{Cycle, Search};
use crate::{
    CallId, Calls, Deadline, Grant, Holder, HolderSet, Holders, Holds, Lease, Limit, LockId, Owner,
    SharedLock, StoredHolder, Token, UnixTime, Waiter,
};

/// Now, in milliseconds.
const NOW: u64 = 1_000_000;
const OWNERS: [&[u8]; 6] = [b"ann", b"bob", b"cid", b"dan", b"eve", b"fay"];

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// An acquire that waits where it must.
    Acquire { lock: usize, call: Party },
    /// The owner's last release.
    Release { lock: usize, owner: usize },
    /// A renewal of the n-th holder with a wider limit.
    Widen { lock: usize, place: usize },
    /// The n-th call leaves its line: time out, cancelled, killed.
    Leave { lock: usize, place: usize },
    /// A lock that was restored or deleted, of which nobody has taken notice yet.
    Restore {
        lock: usize,
        holders: [Option<Party>; 2],
    },
}

/// A call that is about to wait, and what the search says.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) lock: usize,
    pub(super) caller: usize,
    /// The model's locks as they would be with that call in line.
    pub(super) locks: Vec<Lock>,
    /// The cycle as numbers: owners, and the locks that they wait for.
    pub(super) cycle: Option<Vec<(usize, usize)>>,
}

pub(super) struct System {
    pub(super) locks: Vec<Lock>,
    calls: Calls,
    /// How many calls have waited.
    calls_made: u64,
    lines: Vec<Vec<CallId>>,
    habits: Habits,
}

/// The checks of a whole history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// An owner that waits asks for no other lock.
    pub(super) one_task: bool,
    /// A call waits, whatever was found.
    pub(super) tells_nobody: bool,
}

impl System {
    pub(super) fn new(locks: usize, habits: Habits) -> Self {
        Self {
            locks: vec![Lock::default(); locks],
            calls: Calls::default(),
            calls_made: 0,
            lines: vec![Vec::new(); locks],
            habits,
        }
    }

    /// Does one thing; a call that would wait is judged.
    pub(super) fn apply(&mut self, operation: Operation) -> Option<Judged> {
        match operation {
            Operation::Acquire { lock, call } => return self.acquire(lock, call),
            Operation::Release { lock, owner } => {
                self.locks[lock].release(owner);
                self.serve(lock);
            }
            Operation::Widen { lock, place } => {
                if let Some(holder) = self.locks[lock].holders.get_mut(place) {
                    holder.limit = NONE;
                }
                self.serve(lock);
            }
            Operation::Leave { lock, place } => {
                if place < self.locks[lock].line.len() {
                    self.locks[lock].line.remove(place);
                    self.leave(lock, place);
                    self.serve(lock);
                }
            }
            Operation::Restore { lock, holders } => {
                self.locks[lock].holders = Vec::new();
                for holder in holders.into_iter().flatten() {
                    // With nobody in line, so that room is all that it takes.
                    let mut restored = Lock {
                        holders: self.locks[lock].holders.clone(),
                        line: Vec::new(),
                    };
                    restored.acquire(holder);
                    self.locks[lock].holders = restored.holders;
                }
            }
        }
        None
    }

    pub(super) fn is_waiting(&self, owner: usize) -> bool {
        let mut locks = self.locks.iter();
        locks.any(|lock| lock.is_waited_for_by(owner))
    }

    fn acquire(&mut self, lock: usize, call: Party) -> Option<Judged> {
        let elsewhere =
            self.is_waiting(call.owner) && !self.locks[lock].is_waited_for_by(call.owner);
        if elsewhere && self.habits.one_task {
            return None;
        }
        self.serve(lock);
        if self.locks[lock].acquire(call) != Verdict::Busy {
            self.serve(lock);
            return None;
        }
        let cycle = self.search(lock, call);
        let mut locks = self.locks.clone();
        locks[lock].line.push(call);
        if cycle.is_none() || self.habits.tells_nobody {
            self.locks[lock].line.push(call);
            let (database, key) = name(lock);
            let client = self.calls_made;
            self.calls_made += 1;
            let id = self.calls.join(database, &key, waiter(call, client), ());
            self.lines[lock].push(id);
        }
        Some(Judged {
            lock,
            caller: call.owner,
            locks,
            cycle: cycle.as_ref().map(numbers),
        })
    }

    fn serve(&mut self, lock: usize) {
        for place in self.locks[lock].serve() {
            self.leave(lock, place);
        }
    }

    fn leave(&mut self, lock: usize, place: usize) {
        self.calls.remove(self.lines[lock].remove(place));
        self.calls.check();
    }

    fn search(&self, lock: usize, call: Party) -> Option<Cycle> {
        let (caller, (database, key)) = (owner(call.owner), name(lock));
        let limit = limit(call.limit);
        let shares = shares_of(&self.locks[lock]);
        let held = holders(&self.locks[lock], shares.as_ref());
        let calls = &self.calls;
        let mut search =
            Search::begin(calls, caller, (database, &key), limit, held.as_ref(), now())?;
        loop {
            let lock = &self.locks[number(&search.next_lock(calls)?)];
            let shares = shares_of(lock);
            let held = holders(lock, shares.as_ref());
            if let Some(cycle) = search.visit(calls, held.as_ref(), now()) {
                return Some(cycle);
            }
        }
    }
}

impl Judged {
    /// No owner waits for a lock that it holds, except for a moment after a lock was restored.
    pub(super) fn is_settled(&self) -> bool {
        let mut locks = self.locks.iter();
        locks.all(|lock| lock.line.iter().all(|call| !lock.is_held_by(call.owner)))
    }

    pub(super) fn shortest_cycle(&self) -> Option<usize> {
        rule::shortest_cycle(&self.locks, self.caller)
    }
}

fn numbers(cycle: &Cycle) -> Vec<(usize, usize)> {
    let numbers = cycle.waits().iter().map(|(owner, lock_id)| {
        let owner = owner.as_owner().bytes();
        let owner = OWNERS.iter().position(|name| *name == owner);
        (owner.expect("an owner"), number(lock_id))
    });
    numbers.collect()
}

fn owner(number: usize) -> Owner<'static> {
    Owner::new(OWNERS[number]).expect("an owner")
}

fn limit(number: usize) -> Limit {
    u32::try_from(number).map_or(Limit::NONE, |number| Limit::new(number).expect("a limit"))
}

/// Two databases, with the same keys.
fn name(lock: usize) -> (i32, [u8; 1]) {
    let number = u8::try_from(lock).expect("a few locks");
    (i32::from(number % 2), [number / 2])
}

fn number(lock_id: &LockId) -> usize {
    let database = usize::try_from(lock_id.database).expect("a database");
    usize::from(lock_id.key[0]) * 2 + database
}

fn waiter(call: Party, client_id: u64) -> Waiter {
    Waiter {
        limit: limit(call.limit),
        ..Waiter::of(owner(call.owner).bytes(), client_id)
    }
}

fn now() -> UnixTime {
    UnixTime::from_micros(NOW * 1000)
}

/// The shares of a lock. Beside them are as many as there is room for of owners whose lease has just
/// ended: of all who do not hold the lock.
fn shares_of(lock: &Lock) -> Option<HolderSet> {
    let ended = (0..OWNERS.len()).filter(|owner| !lock.is_held_by(*owner));
    let ended = ended.map(|owner| Party { owner, limit: NONE });
    let least = lock.holders.iter().map(|holder| holder.limit).min();
    let room = least.unwrap_or(NONE).saturating_sub(lock.holders.len());
    let ended = ended.take(room).map(|share| (share, NOW - 1));
    let holders = lock.holders.iter().map(|share| (*share, NOW));
    let mut shares = None;
    for (token, (share, end_ms)) in (1..).zip(ended.chain(holders)) {
        let fields = StoredHolder {
            limit: limit(share.limit).number().into(),
            end_ms: Some(end_ms),
            token,
            holds: 1,
            lease_ms: 1000,
            owner: OWNERS[share.owner],
        };
        let holder = fields.try_into().expect("a holder");
        HolderSet::add_stored(&mut shares, &holder).expect("a holder beside the others");
    }
    HolderSet::finish_stored(shares).ok()
}

fn holders<'a>(lock: &Lock, shares: Option<&'a HolderSet>) -> Option<Holders<'a>> {
    match lock.holders[..] {
        [holder] if holder.limit == 1 => Some(Holders::Exclusive(Holder {
            owner: owner(holder.owner),
            grant: Grant {
                token: Token::new(1)?,
                holds: Holds::ONE,
                lease: Lease::from_millis(1000)?,
            },
            limit: Limit::ONE,
            end: Deadline::At(NOW),
        })),
        _ => shares.map(|shares| {
            Holders::Shared(SharedLock {
                set: shares,
                expiry: Deadline::Never,
            })
        }),
    }
}
