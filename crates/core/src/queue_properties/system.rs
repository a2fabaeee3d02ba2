//! The system under test: queues, pending grants and the lease watch, driven as the server drives them.
//! A tick looks only at locks that were noted as free or whose watched lease has ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::model::{End, LEASE, LIFT, NAMES, Name, OWNERS, Operation};
use crate::{
    Acquire, GiveBack, Granted, Holder, Holders, Holds, Lease, LeaseWatch, Limit, LockChange,
    LockId, Monotonic, Owner, OwnerBuf, PendingGrant, PendingGrants, Queues, Release,
    ReleaseAmount, Renew, Rules, Token, TokenClock, UnixTime, Waiter, WaiterId, acquire, release,
    renew,
};

const RULES: Rules = Rules {
    default_lease: Lease::from_millis(LEASE).unwrap(),
    max_token_lead_ms: 1_000_000,
    max_holders: 1,
};

#[derive(Default)]
pub(super) struct System {
    pub(super) queues: Queues,
    pub(super) pending_grants: PendingGrants,
    pub(super) watch: LeaseWatch,
    pub(super) locks: BTreeMap<Name, Holder<'static>>,
    /// The calls in the order of joining.
    pub(super) ids: Vec<WaiterId>,
    pub(super) numbers: HashMap<WaiterId, usize>,
    pub(super) ended: Vec<(usize, End)>,
    give_backs: Vec<GiveBack>,
    maybe_free: BTreeSet<LockId>,
    tokens: TokenClock,
    now: u64,
}

pub(super) fn lock_id((database, key): Name) -> LockId {
    LockId::new(database, &[key])
}

pub(super) fn name(lock_id: &LockId) -> Name {
    (lock_id.database, lock_id.key[0])
}

fn owner(index: usize) -> Owner<'static> {
    Owner::new(OWNERS[index]).unwrap()
}

impl System {
    pub(super) fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Acquire {
                name,
                owner: index,
                holds,
                block,
            } => self.acquire(name, index, holds.and_then(Holds::new), block),
            Operation::Release { name, owner, all } => self.release(name, owner, all),
            Operation::Raise(name) => self.raise(name),
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
                let expired = |held: &Holder<'_>| held.end < crate::Deadline::At(self.now);
                self.locks.retain(|_, held| !expired(held));
            }
            Operation::Del(name) => {
                self.locks.remove(&name);
                if self.queues.waiting(name.0, &[name.1]) > 0 {
                    self.maybe_free.insert(lock_id(name));
                }
            }
            Operation::Flush(database) => {
                self.locks.retain(|name, _| name.0 != database);
                self.maybe_free.extend(self.queues.lock_ids(Some(database)));
            }
            Operation::Swap => {
                for name in NAMES {
                    self.give_back(name);
                }
                let swapped = |((database, key), held)| ((1 - database, key), held);
                let locks = std::mem::take(&mut self.locks);
                self.locks = locks.into_iter().map(swapped).collect();
                self.maybe_free.extend(self.queues.lock_ids(None));
            }
            Operation::Tick => self.tick(),
        }
    }

    fn acquire(&mut self, name: Name, index: usize, holds: Option<Holds>, block: Option<u64>) {
        self.settle(name);
        if !self.locks.contains_key(&name) {
            self.serve(name);
        }
        match self.judge(name, owner(index), holds) {
            Ok(None) => {
                let Some(wait) = block else { return };
                let waiter = Waiter {
                    owner: OwnerBuf::from(owner(index)),
                    lease: None,
                    holds,
                    limit: Limit::ONE,
                    keep: None,
                    names_limit: false,
                    client_id: self.ids.len() as u64,
                    since: Monotonic(self.now),
                    until: (wait > 0).then_some(Monotonic(self.now + wait)),
                };
                let id = self.queues.join(name.0, &[name.1], waiter);
                let before = self.numbers.insert(id, self.ids.len());
                assert_eq!(before, None, "{id:?} is used twice");
                self.ids.push(id);
                self.maybe_free.insert(lock_id(name));
            }
            Ok(Some(granted)) => {
                let token = granted.holder.grant.token;
                self.pending_grants.answered(&lock_id(name), token);
            }
            Err(_) => {}
        }
    }

    fn release(&mut self, name: Name, index: usize, all: bool) {
        self.settle(name);
        let request = Release {
            owner: owner(index),
            amount: if all {
                ReleaseAmount::All
            } else {
                ReleaseAmount::One
            },
            token: None,
        };
        match release(self.holders(name).as_ref(), &request, self.wall()) {
            Ok(released) => {
                self.change(name, released.change);
                if released.holder.is_some() {
                    let token = released.before.token;
                    self.pending_grants.answered(&lock_id(name), token);
                } else {
                    self.serve(name);
                }
            }
            Err(_) if all => {
                while let Some(id) = self.queues.first_of(name.0, &[name.1], OWNERS[index]) {
                    self.leave(id, End::Cancelled);
                }
            }
            Err(_) => {}
        }
    }

    fn raise(&mut self, name: Name) {
        self.settle(name);
        let Some(held) = self.locks.get(&name).copied() else {
            return;
        };
        let from = held.grant.token;
        let to = Token::new(from.number() + LIFT).unwrap();
        let request = Renew::raise(held.owner, None, from, to).unwrap();
        let (holders, now) = (self.holders(name), self.wall());
        let renewed = renew(holders.as_ref(), &request, &RULES, now, &mut self.tokens).unwrap();
        self.change(name, renewed.change);
        self.pending_grants.raise(&lock_id(name), from, to);
        self.pending_grants.answered(&lock_id(name), to);
    }

    fn tick(&mut self) {
        while let Some((end, id)) = self.queues.next_end()
            && end <= Monotonic(self.now)
        {
            self.leave(id, End::TimedOut);
        }
        let give_backs = self.give_backs.iter();
        let names: BTreeSet<_> = give_backs.map(|given| name(given.lock_id())).collect();
        let mut lock_ids = std::mem::take(&mut self.maybe_free);
        lock_ids.extend(self.watch.take_ended(self.now));
        for name in names {
            self.settle(name);
        }
        for lock_id in lock_ids {
            self.serve(name(&lock_id));
        }
    }

    fn settle(&mut self, name: Name) {
        if self.give_back(name) {
            self.serve(name);
        }
    }

    fn give_back(&mut self, lock: Name) -> bool {
        let of_lock = |give_back: &mut GiveBack| name(give_back.lock_id()) == lock;
        let give_backs: Vec<_> = self.give_backs.extract_if(.., of_lock).collect();
        for give_back in &give_backs {
            let held = self.locks.get(&lock).copied();
            let change = give_back.change(held.as_ref(), self.wall());
            self.change(lock, change);
        }
        !give_backs.is_empty()
    }

    /// Grants the lock to the calls that are next, until it is held by an owner that does not wait.
    fn serve(&mut self, name: Name) {
        let (database, key) = (name.0, [name.1]);
        loop {
            let before = self.locks.get(&name).copied();
            let next = match &before {
                Some(held) => {
                    if self.queues.waiting(database, &key) > 0 {
                        self.watch.watch(&lock_id(name), held.end);
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
            match self.judge(name, own.and_then(Owner::new).unwrap(), waiter.holds) {
                Ok(None) => panic!("free, or its own"),
                Ok(Some(granted)) => {
                    let grant = granted.holder.grant;
                    let pending = PendingGrant {
                        lock_id: lock_id(name),
                        client_id: waiter.client_id,
                        token: grant.token,
                        took_hold: before.is_none_or(|held| grant.holds > held.grant.holds),
                        holds: grant.holds,
                        deadline: self.locks[&name].end,
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
        name: Name,
        owner: Owner<'static>,
        holds: Option<Holds>,
    ) -> Result<Option<Granted<'static>>, crate::Refusal> {
        let request = Acquire {
            owner,
            limit: Limit::ONE,
            lease: None,
            holds,
            token: None,
        };
        let (holders, now) = (self.holders(name), self.wall());
        let granted = acquire(
            holders.as_ref(),
            &request,
            false,
            &RULES,
            now,
            &mut self.tokens,
        )?;
        if let Some(granted) = granted {
            self.change(name, granted.change);
        }
        Ok(granted)
    }

    fn holders(&self, name: Name) -> Option<Holders<'static>> {
        self.locks.get(&name).copied().map(Holders::Exclusive)
    }

    fn change(&mut self, name: Name, change: LockChange<'static>) {
        match change {
            LockChange::Keep => {}
            LockChange::Free => drop(self.locks.remove(&name)),
            LockChange::Exclusive(holder) => drop(self.locks.insert(name, holder)),
            LockChange::Shared(_) => unreachable!("no call has a wider limit"),
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
