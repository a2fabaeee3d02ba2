//! The system under test: the table of calls, driven as the server drives it. A tick looks only at locks that
//! are ready.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::model::{End, LEASE, LIFT, NAMES, Name, OWNERS, Operation};
use crate::{
    Acquire, CallId, Calls, Granted, Holder, Holders, Holds, Lease, Limit, LockChange, LockId,
    Monotonic, Owner, OwnerBuf, Release, ReleaseAmount, Renew, Rules, Taken, Token, TokenClock,
    UnixTime, Waiter, acquire, release, renew,
};

const RULES: Rules = Rules {
    default_lease: Lease::from_millis(LEASE).unwrap(),
    max_token_lead_ms: 1_000_000,
    max_holders: 1,
};

#[derive(Default)]
pub(super) struct System {
    pub(super) calls: Calls,
    pub(super) locks: BTreeMap<Name, Holder<'static>>,
    /// The calls in the order of joining.
    pub(super) ids: Vec<CallId>,
    pub(super) numbers: HashMap<CallId, usize>,
    pub(super) ended: Vec<(usize, End)>,
    /// The calls whose reply is written and not sent.
    written: Vec<usize>,
    tokens: TokenClock,
    now: u64,
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
            Operation::Write(number) => {
                assert_eq!(self.calls.blocked_by(number as u64), Some(self.ids[number]));
                self.calls.reply_written(number as u64);
                self.written.push(number);
            }
            Operation::Send => {
                self.calls.replies_sent(|| unreachable!("few"));
                self.written.sort_unstable();
                let sent = self.written.drain(..);
                self.ended.extend(sent.map(|number| (number, End::Granted)));
            }
            Operation::Confirm(number) => self.calls.forget_sent(number as u64),
            Operation::Unsent(number) => {
                assert!(self.calls.closed(number as u64), "it may be unsent");
                self.calls.reply_is_unsent(number as u64);
            }
            Operation::Abandon(number) => {
                let was_written = self.written.contains(&number);
                self.written.retain(|written| *written != number);
                if was_written {
                    assert!(!self.calls.closed(number as u64), "it gives back");
                } else {
                    assert!(self.calls.abandon(self.ids[number]), "a pending grant");
                }
                self.ended.push((number, End::Abandoned));
            }
            Operation::Pass(millis) => {
                self.now += millis;
                let expired = |held: &Holder<'_>| held.end < crate::Deadline::At(self.now);
                self.locks.retain(|_, held| !expired(held));
            }
            Operation::Del(name) => {
                self.locks.remove(&name);
                let waits = self.calls.waiting(name.0, &[name.1]) > 0;
                assert_eq!(self.calls.make_ready(name.0, &[name.1]), waits);
            }
            Operation::Flush(database) => {
                self.locks.retain(|name, _| name.0 != database);
                let flushed = |lock_id: &LockId| lock_id.database == database;
                for lock_id in self.calls.lock_ids().into_iter().filter(flushed) {
                    self.calls.make_ready(database, &lock_id.key);
                }
            }
            Operation::Swap => {
                for name in NAMES {
                    self.give_back(name);
                }
                let swapped = |((database, key), held)| ((1 - database, key), held);
                let locks = std::mem::take(&mut self.locks);
                self.locks = locks.into_iter().map(swapped).collect();
                self.calls.make_all_ready();
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
                    session: None,
                    names_limit: false,
                    client_id: self.ids.len() as u64,
                    since: Monotonic(self.now),
                    until: (wait > 0).then_some(Monotonic(self.now + wait)),
                };
                let id = self.calls.join(name.0, &[name.1], waiter, ());
                let before = self.numbers.insert(id, self.ids.len());
                assert_eq!(before, None, "{id:?} is used twice");
                self.ids.push(id);
            }
            Ok(Some(granted)) => {
                let token = granted.holder.grant.token;
                self.calls.answered(name.0, &[name.1], token);
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
                    self.calls.answered(name.0, &[name.1], token);
                } else {
                    self.serve(name);
                }
            }
            Err(_) if all => {
                while let Some(id) = self.calls.first_of(name.0, &[name.1], OWNERS[index]) {
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
        self.calls.raise(name.0, &[name.1], from, to);
        self.calls.answered(name.0, &[name.1], to);
    }

    fn tick(&mut self) {
        while let Some((end, id)) = self.calls.next_end()
            && end <= Monotonic(self.now)
        {
            self.leave(id, End::TimedOut);
        }
        self.calls.make_ended_ready(self.now);
        let mut ready = BTreeSet::new();
        while self.calls.ready_len() > 0 {
            ready.extend(self.calls.take_ready().as_ref().map(name));
        }
        for name in &ready {
            self.settle(*name);
        }
        for name in ready {
            self.serve(name);
        }
    }

    fn settle(&mut self, name: Name) {
        if self.give_back(name) {
            self.serve(name);
        }
    }

    fn give_back(&mut self, lock: Name) -> bool {
        let give_backs = self.calls.take_give_backs(lock.0, &[lock.1]);
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
            self.calls.looked_at(database, &key);
            let before = self.locks.get(&name).copied();
            let next = match &before {
                Some(held) => {
                    self.calls.set_lease_end(database, &key, held.end);
                    let own = held.owner.bytes();
                    self.calls.first_of(database, &key, own)
                }
                None => self.calls.first(database, &key),
            };
            let Some(id) = next else { return };
            let waiter = self.calls.get(id).expect("it waits").waiter.clone();
            let waits = waiter.owner.as_owner().bytes();
            let own = OWNERS.into_iter().find(|own| *own == waits);
            match self.judge(name, own.and_then(Owner::new).unwrap(), waiter.holds) {
                Ok(None) => panic!("free, or its own"),
                Ok(Some(granted)) => {
                    let grant = granted.holder.grant;
                    let taken = Taken {
                        token: grant.token,
                        took_hold: before.is_none_or(|held| grant.holds > held.grant.holds),
                        holds: grant.holds,
                        deadline: self.locks[&name].end,
                    };
                    let granted = self.calls.grant(id, taken, before.is_none());
                    granted.expect("it waits");
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

    fn leave(&mut self, id: CallId, end: End) {
        self.calls.remove(id).expect("it waits");
        self.ended.push((self.numbers[&id], end));
    }

    fn wall(&self) -> UnixTime {
        UnixTime::from_micros(self.now * 1000)
    }
}
