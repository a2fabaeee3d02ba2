//! Queues, pending grants and the lease watch under test, driven as the server drives them: what frees
//! a lock only notes it or is seen by its lease's end, and a tick looks at those alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::model::{End, LEASE, LIFT, OWNERS, Operation, SPOTS, Spot};
use crate::{
    Acquire, Acquired, Change, GiveBack, Held, Holds, Lease, LeaseWatch, LockId, Monotonic, Owner,
    OwnerBuf, PendingGrant, PendingGrants, Queues, Release, ReleaseAmount, Renew, Rules, Times,
    Token, TokenClock, UnixTime, Waiter, WaiterId, acquire, release, renew,
};

const RULES: Rules = Rules {
    default_lease: Lease::from_millis(LEASE).unwrap(),
    max_token_lead_ms: 1_000_000,
};

#[derive(Default)]
pub(super) struct System {
    pub(super) queues: Queues,
    pub(super) pending_grants: PendingGrants,
    pub(super) watch: LeaseWatch,
    pub(super) locks: BTreeMap<Spot, Held<'static>>,
    /// The calls by the order of joining.
    pub(super) ids: Vec<WaiterId>,
    pub(super) numbers: HashMap<WaiterId, usize>,
    pub(super) ended: Vec<(usize, End)>,
    give_backs: Vec<GiveBack>,
    maybe_free: BTreeSet<LockId>,
    tokens: TokenClock,
    now: u64,
}

pub(super) fn lock_id((database, key): Spot) -> LockId {
    LockId::new(database, &[key])
}

pub(super) fn spot(lock_id: &LockId) -> Spot {
    (lock_id.database, lock_id.key[0])
}

fn owner(index: usize) -> Owner<'static> {
    Owner::new(OWNERS[index]).unwrap()
}

impl System {
    pub(super) fn happens(&mut self, operation: Operation) {
        match operation {
            Operation::Acquire {
                spot,
                owner: index,
                holds,
                block,
            } => self.acquire(spot, index, holds.and_then(Holds::new), block),
            Operation::Release { spot, owner, all } => self.release(spot, owner, all),
            Operation::Raise(spot) => self.raise(spot),
            Operation::Disconnect(number) => self.leave(self.ids[number], End::Disconnected),
            Operation::Deliver(number) => {
                self.pending_grants.deliver(self.ids[number]);
                self.ended.push((number, End::Granted));
            }
            Operation::Abandon(number) => {
                let given = self.pending_grants.abandon(self.ids[number]);
                self.give_backs.push(given.expect("a pending grant"));
                self.ended.push((number, End::Abandoned));
            }
            Operation::Pass(millis) => {
                self.now += millis;
                let expired = |held: &Held<'_>| held.deadline < crate::Deadline::At(self.now);
                self.locks.retain(|_, held| !expired(held));
            }
            Operation::Del(spot) => {
                self.locks.remove(&spot);
                if self.queues.waiting(spot.0, &[spot.1]) > 0 {
                    self.maybe_free.insert(lock_id(spot));
                }
            }
            Operation::Flush(database) => {
                self.locks.retain(|spot, _| spot.0 != database);
                self.maybe_free.extend(self.queues.lock_ids(Some(database)));
            }
            Operation::Swap => {
                for spot in SPOTS {
                    self.give_back(spot);
                }
                let swapped = |((database, key), held)| ((1 - database, key), held);
                let locks = std::mem::take(&mut self.locks);
                self.locks = locks.into_iter().map(swapped).collect();
                self.maybe_free.extend(self.queues.lock_ids(None));
            }
            Operation::Tick => self.tick(),
        }
    }

    fn acquire(&mut self, spot: Spot, index: usize, holds: Option<Holds>, block: Option<u64>) {
        self.settle(spot);
        if !self.locks.contains_key(&spot) {
            self.serve(spot);
        }
        match self.judge(spot, owner(index), holds) {
            Ok(Acquired::Busy) => {
                let Some(wait) = block else { return };
                let waiter = Waiter {
                    owner: OwnerBuf::from(owner(index)),
                    lease: None,
                    holds,
                    client_id: self.ids.len() as u64,
                    since: Monotonic(self.now),
                    until: (wait > 0).then_some(Monotonic(self.now + wait)),
                };
                let id = self.queues.join(spot.0, &[spot.1], waiter);
                let before = self.numbers.insert(id, self.ids.len());
                assert_eq!(before, None, "{id:?} is given twice");
                self.ids.push(id);
                self.maybe_free.insert(lock_id(spot));
            }
            Ok(_) => self.pending_grants.owner_answered(&lock_id(spot)),
            Err(_) => {}
        }
    }

    fn release(&mut self, spot: Spot, index: usize, all: bool) {
        self.settle(spot);
        let request = Release {
            owner: owner(index),
            amount: if all {
                ReleaseAmount::All
            } else {
                ReleaseAmount::One
            },
            token: None,
        };
        let lock = self.locks.get(&spot);
        let times = || Times::of(lock, self.wall());
        match release(lock.map(Held::record), &request, times) {
            Ok(released) => {
                self.change(spot, request.owner, released.change);
                if released.holds_left > 0 {
                    self.pending_grants.owner_answered(&lock_id(spot));
                } else {
                    self.serve(spot);
                }
            }
            Err(_) if all => {
                while let Some(id) = self.queues.first_of(spot.0, &[spot.1], OWNERS[index]) {
                    self.leave(id, End::Cancelled);
                }
            }
            Err(_) => {}
        }
    }

    fn raise(&mut self, spot: Spot) {
        self.settle(spot);
        let Some(held) = self.locks.get(&spot).copied() else {
            return;
        };
        let from = held.grant.token;
        let to = Token::new(from.number() + LIFT).unwrap();
        let request = Renew::raise(held.owner, None, from, to).unwrap();
        let renewed = renew(Some(&held), &request, &RULES, self.wall(), &mut self.tokens).unwrap();
        self.change(spot, held.owner, renewed.change);
        self.pending_grants.raise(&lock_id(spot), from, to);
        self.pending_grants.owner_answered(&lock_id(spot));
    }

    fn tick(&mut self) {
        while let Some((end, id)) = self.queues.next_end()
            && end <= Monotonic(self.now)
        {
            self.leave(id, End::TimedOut);
        }
        let owed: BTreeSet<_> = self.give_backs.iter().map(|g| spot(g.lock_id())).collect();
        let mut lock_ids = std::mem::take(&mut self.maybe_free);
        lock_ids.extend(self.watch.take_ended(self.now));
        for spot in owed {
            self.settle(spot);
        }
        for lock_id in lock_ids {
            self.serve(spot(&lock_id));
        }
    }

    fn settle(&mut self, spot: Spot) {
        if self.give_back(spot) {
            self.serve(spot);
        }
    }

    fn give_back(&mut self, here: Spot) -> bool {
        let here_too = |given: &mut GiveBack| spot(given.lock_id()) == here;
        let owed: Vec<_> = self.give_backs.extract_if(.., here_too).collect();
        for given in &owed {
            let held = self.locks.get(&here).copied();
            let change = given.change(held.as_ref(), self.wall());
            if let Some(held) = held {
                self.change(here, held.owner, change);
            }
        }
        !owed.is_empty()
    }

    /// Grants the lock to those whose turn it is, for as long as it is somebody's turn.
    fn serve(&mut self, spot: Spot) {
        let (database, key) = (spot.0, [spot.1]);
        loop {
            let before = self.locks.get(&spot).copied();
            let next = match &before {
                Some(held) => {
                    if self.queues.waiting(database, &key) > 0 {
                        self.watch.watch(&lock_id(spot), held.deadline);
                    }
                    let own = held.owner.bytes();
                    self.queues.first_of(database, &key, own)
                }
                None => self.queues.first(database, &key),
            };
            let Some(id) = next else { return };
            let waiter = self.queues.get(id).expect("it waits").clone();
            let waits = waiter.owner.as_owner().bytes();
            let own = OWNERS.into_iter().find(|own| *own == waits);
            match self.judge(spot, own.and_then(Owner::new).unwrap(), waiter.holds) {
                Ok(Acquired::Busy) => panic!("free, or its own"),
                Ok(Acquired::New(grant, _) | Acquired::Again(grant, _)) => {
                    let pending = PendingGrant {
                        lock_id: lock_id(spot),
                        client_id: waiter.client_id,
                        token: grant.token,
                        took_hold: before.is_none_or(|held| grant.holds > held.grant.holds),
                        holds: grant.holds,
                        deadline: self.locks[&spot].deadline,
                    };
                    self.take_out(id);
                    self.pending_grants.add(id, pending, before.is_none());
                }
                Err(refusal) => self.leave(id, End::Refused(refusal)),
            }
        }
    }

    fn judge(
        &mut self,
        spot: Spot,
        owner: Owner<'static>,
        holds: Option<Holds>,
    ) -> Result<Acquired, crate::Refusal> {
        let request = Acquire {
            owner,
            lease: None,
            holds,
            token: None,
        };
        let held = self.locks.get(&spot);
        let acquired = acquire(held, &request, &RULES, self.wall(), &mut self.tokens)?;
        if let Acquired::New(_, change) | Acquired::Again(_, change) = acquired {
            self.change(spot, owner, change);
        }
        Ok(acquired)
    }

    fn change(&mut self, spot: Spot, owner: Owner<'static>, change: Change) {
        match change {
            Change::Keep => {}
            Change::Free => drop(self.locks.remove(&spot)),
            Change::Hold(grant, deadline) => {
                let held = Held {
                    owner,
                    grant,
                    deadline,
                };
                self.locks.insert(spot, held);
            }
        }
    }

    fn leave(&mut self, id: WaiterId, end: End) {
        self.take_out(id);
        self.ended.push((self.numbers[&id], end));
    }

    fn take_out(&mut self, id: WaiterId) {
        let (lock_id, _) = self.queues.remove(id).expect("it waits");
        if self.queues.waiting(lock_id.database, &lock_id.key) == 0 {
            self.watch.unwatch(&lock_id);
            self.maybe_free.remove(&lock_id);
        }
    }

    fn wall(&self) -> UnixTime {
        UnixTime::from_micros(self.now * 1000)
    }
}
