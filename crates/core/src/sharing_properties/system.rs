//! The system under test: the core's rules, one lock with its queue, and a replica of it that gets
//! effects alone.

use std::collections::BTreeMap;

use super::key::{Stored, core_holder, count, index, limit, owner};
use super::model::{
    Amount, Call, DEFAULT_LEASE, Event, FULL, MAX_LEAD, Model, NOT_RAISABLE, Reply, SEVERAL,
    USED_UP, Verb,
};
use crate::{
    Acquire, CallId, Calls, EffectBuffer, Granted, HolderSet, Lease, LockChange, Monotonic, Owner,
    OwnerBuf, Refusal, Release, ReleaseAmount, Renew, Rules, SharedChange, SharedStep, Token,
    TokenClock, UnixTime, Waiter, acquire, fence, next_in_line, release, renew,
};

const KEY: &[u8] = b"lock";

#[derive(Debug)]
pub(super) struct System {
    pub(super) lock: Stored,
    pub(super) replica: Stored,
    clock: TokenClock,
    now: UnixTime,
    max_holders: usize,
    calls: Calls,
    numbers: BTreeMap<CallId, usize>,
    joined: usize,
    pub(super) told: Vec<(usize, Reply)>,
}

impl System {
    pub(super) fn like(model: &Model) -> Self {
        let mut lock = Stored::Free;
        if let [only] = &model.holders[..]
            && only.limit == 1
        {
            lock = Stored::Exclusive(core_holder(only));
        } else if let Some((first, rest)) = model.holders.split_first() {
            let mut shares = HolderSet::one(&core_holder(first));
            for (count, holder) in (2..).zip(rest) {
                let holder = core_holder(holder);
                let change = SharedChange {
                    cap: None,
                    step: SharedStep::Put(holder),
                    count,
                    latest_end: shares.latest_end().max(holder.end).millis(),
                    whole: false,
                };
                assert_eq!(change.apply(Some(&mut shares)), Ok(None));
            }
            let expiry = shares.latest_end();
            lock = Stored::Shared(shares, expiry);
        }
        Self {
            replica: lock.clone(),
            lock,
            clock: TokenClock::after(Token::new(model.seen)),
            now: UnixTime::from_micros(model.now),
            max_holders: model.max_holders,
            calls: Calls::default(),
            numbers: BTreeMap::new(),
            joined: 0,
            told: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> UnixTime {
        self.now
    }

    pub(super) fn seen(&self) -> u64 {
        self.clock.last().map_or(0, Token::number)
    }

    pub(super) fn apply(&mut self, event: Event) {
        match event {
            Event::Clock(now) => self.now = UnixTime::from_micros(now),
            Event::MaxHolders(count) => self.max_holders = count,
            Event::Leave(n) => {
                let id = self.calls.iter(0, KEY).nth(n).unwrap().0;
                self.calls.remove(id);
            }
            Event::Seen(token) => self.clock.observe(Token::new(token).unwrap()),
            _ => {}
        }
        self.lock.apply(event, self.now);
        self.replica.apply(event, self.now);
    }

    pub(super) fn tick(&mut self) {
        self.expire();
        self.serve(None);
    }

    fn expire(&mut self) {
        let holders = self.lock.holders();
        let change = holders.map_or(LockChange::Keep, |holders| holders.expire(self.now));
        self.commit(change);
    }

    /// Changes the lock, and the replica by the effect alone, twice.
    fn commit(&mut self, change: LockChange<'_>) {
        self.lock.change(change);
        let mut buffer = EffectBuffer::new();
        let effect = match change {
            LockChange::Keep => return,
            LockChange::Free => return self.replica.change(change),
            LockChange::Exclusive(holder) => holder.effect(false, &mut buffer).bytes(),
            LockChange::Shared(change) => {
                change.effect(self.clock.last().unwrap(), false, &mut buffer)
            }
        };
        for _ in 0..2 {
            self.replica
                .change(LockChange::from_effect(effect).expect("an effect"));
        }
    }

    fn serve(&mut self, granted: Option<Owner<'static>>) {
        let mut granted = granted;
        loop {
            let holders = self.lock.holders();
            let next = next_in_line(
                &self.calls,
                (0, KEY),
                holders.as_ref(),
                granted,
                self.max_holders,
            );
            let Some(id) = next else { return };
            let waiter = self.calls.remove(id).unwrap().waiter;
            let request = Acquire {
                owner: owner(index(waiter.owner.as_owner())),
                limit: waiter.limit,
                lease: waiter.lease,
                holds: waiter.holds,
                token: None,
            };
            let reply = self.judge(&request, false);
            if matches!(reply, Reply::Grant { .. }) {
                granted = Some(request.owner);
            }
            self.told.push((self.numbers[&id], reply));
        }
    }

    fn judge(&mut self, request: &Acquire<'static>, in_line: bool) -> Reply {
        let (rules, now) = (self.rules(), self.now);
        let holders = self.lock.holders();
        match acquire(
            holders.as_ref(),
            request,
            in_line,
            &rules,
            now,
            &mut self.clock,
        ) {
            Ok(Some(granted)) => {
                self.commit(granted.change);
                reply(granted)
            }
            Ok(None) => Reply::Nil,
            Err(refusal) => error(refusal),
        }
    }

    pub(super) fn call(&mut self, call: Call) -> Reply {
        self.tick();
        let in_line = !self.calls.is_empty();
        let owner = owner(call.owner);
        let bound = call.token.map(|token| Token::new(token).unwrap());
        let holders = self.lock.holders();
        let mut granted = None;
        let reply = match call.verb {
            Verb::Acquire {
                px,
                limit: number,
                holds,
                block,
            } => {
                let request = Acquire {
                    owner,
                    limit: limit(number),
                    lease: px.and_then(Lease::from_millis),
                    holds: holds.map(count),
                    token: bound,
                };
                let mut reply = self.judge(&request, in_line);
                if block && reply == Reply::Nil {
                    let waiter = Waiter {
                        owner: OwnerBuf::from(owner),
                        lease: request.lease,
                        holds: request.holds,
                        limit: request.limit,
                        keep: None,
                        session: None,
                        names_limit: false,
                        client_id: 1,
                        since: Monotonic(0),
                        until: None,
                    };
                    let id = self.calls.join(0, KEY, waiter, ());
                    self.numbers.insert(id, self.joined);
                    self.joined += 1;
                    reply = Reply::Waits;
                }
                granted = matches!(reply, Reply::Grant { .. }).then_some(owner);
                reply
            }
            Verb::Release(amount) => {
                let request = Release {
                    owner,
                    amount: match amount {
                        Amount::One => ReleaseAmount::One,
                        Amount::All => ReleaseAmount::All,
                        Amount::Holds(n) => ReleaseAmount::DownTo(u32::try_from(n).unwrap()),
                    },
                    token: bound,
                };
                match release(holders.as_ref(), &request, self.now) {
                    Ok(released) => {
                        let left = released
                            .holder
                            .map_or(0, |holder| holder.grant.holds.number());
                        self.commit(released.change);
                        Reply::Left(left.into())
                    }
                    Err(refusal) => error(refusal),
                }
            }
            Verb::Renew {
                px,
                limit: number,
                raise,
            } => {
                let lease = px.and_then(Lease::from_millis);
                let request = match raise {
                    None => Renew::new(owner, number.map(limit), lease, bound),
                    Some(raise) => Renew {
                        limit: number.map(limit),
                        ..Renew::raise(owner, lease, bound.unwrap(), Token::new(raise).unwrap())
                            .unwrap()
                    },
                };
                let (rules, now) = (self.rules(), self.now);
                match renew(holders.as_ref(), &request, &rules, now, &mut self.clock) {
                    Ok(granted) => {
                        self.commit(granted.change);
                        super::system::reply(granted)
                    }
                    Err(refusal) => error(refusal),
                }
            }
            Verb::Fence => match fence(holders.as_ref(), bound.unwrap(), self.now) {
                Ok(()) => Reply::Ok,
                Err(refusal) => error(refusal),
            },
        };
        self.serve(granted);
        reply
    }

    fn rules(&self) -> Rules {
        Rules {
            default_lease: Lease::from_millis(DEFAULT_LEASE).unwrap(),
            max_token_lead_ms: MAX_LEAD,
            max_holders: self.max_holders,
        }
    }
}

fn reply(Granted { holder, .. }: Granted<'_>) -> Reply {
    Reply::Grant {
        token: holder.grant.token.number(),
        holds: holder.grant.holds.number().into(),
        lease: holder.grant.lease.millis(),
        limit: holder.limit.number().into(),
    }
}

fn error(refusal: Refusal) -> Reply {
    Reply::Error(match refusal {
        Refusal::NotHeld | Refusal::HoldsLost => "NOTHELD",
        Refusal::NotOwner => "NOTOWNER",
        Refusal::Fenced => "FENCED",
        Refusal::NotAlone => "NOTALONE",
        Refusal::Ahead => "AHEAD",
        Refusal::TooManyHolds => FULL,
        Refusal::TokensUsedUp => USED_UP,
        Refusal::SeveralHolds => SEVERAL,
        Refusal::NotRaisable => NOT_RAISABLE,
        Refusal::LeaseTooShortToKeep | Refusal::KeptLeaseTooShort => unreachable!("of kept grants"),
    })
}
