//! The system under test: a server with the core's rules and the model's interface.

use super::model::{Amount, Call, Event, LIMIT, LOWER, Lock, MICROS, Reply, Server, USED_UP, Verb};
use crate::{
    Acquire, Deadline, Grant, Holder, Holders, Holds, Lease, Limit, LockChange, Owner, Refusal,
    Release, ReleaseAmount, Renew, Rules, Token, TokenClock, UnixTime, acquire, fence, release,
    renew,
};

/// Owners that are easily confused.
pub(super) const OWNERS: [&[u8]; 3] = [b"o", b"o\0", b"O"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct System {
    locks: Vec<Option<Holder<'static>>>,
    clock: TokenClock,
    now: UnixTime,
    default_lease: Lease,
    max_lead: u64,
}

impl System {
    /// A system in the state of the model.
    pub(super) fn like(server: &Server) -> Self {
        Self {
            locks: server
                .locks
                .iter()
                .map(|lock| lock.map(from_model))
                .collect(),
            clock: TokenClock::after(Token::new(server.seen)),
            now: UnixTime::from_micros(server.now),
            default_lease: lease(server.settings.default_lease),
            max_lead: server.settings.max_lead,
        }
    }

    pub(super) fn lock(&self, key: usize) -> Option<Lock> {
        self.locks[key].as_ref().map(to_model)
    }

    pub(super) fn locks(&self) -> Vec<Option<Lock>> {
        (0..self.locks.len()).map(|key| self.lock(key)).collect()
    }

    /// The last token seen; 0 for none.
    pub(super) fn seen(&self) -> u64 {
        self.clock.last().map_or(0, Token::number)
    }

    pub(super) fn now(&self) -> u64 {
        self.now.micros()
    }

    pub(super) fn max_lead(&self) -> u64 {
        self.max_lead
    }

    pub(super) fn default_lease(&self) -> u64 {
        self.default_lease.millis()
    }

    /// What Redis does to keys, expiry included.
    pub(super) fn apply(&mut self, event: Event) {
        let mut set = |key: usize, deadline| {
            if let Some(held) = &mut self.locks[key] {
                held.end = deadline;
            }
        };
        match event {
            Event::Clock(now) => self.now = UnixTime::from_micros(now),
            Event::Pexpire(key, ms) => set(key, lease(ms).deadline_from(self.now)),
            Event::Persist(key) => set(key, Deadline::Never),
            Event::Del(key) => self.locks[key] = None,
            Event::Seen(number) => self.clock.observe(token(number)),
        }
        let now = Deadline::At(self.now.millis());
        for lock in &mut self.locks {
            lock.take_if(|held| held.end < now);
        }
    }

    pub(super) fn call(&mut self, call: Call) -> Reply {
        self.judge(call).unwrap_or_else(|refusal| {
            Reply::Error(match refusal {
                Refusal::NotHeld | Refusal::HoldsLost => "NOTHELD",
                Refusal::NotOwner => "NOTOWNER",
                Refusal::Fenced => "FENCED",
                Refusal::Ahead => "AHEAD",
                Refusal::TooManyHolds => LIMIT,
                Refusal::TokensUsedUp => USED_UP,
                Refusal::NotAlone
                | Refusal::SeveralHolds
                | Refusal::NotRaisable
                | Refusal::LeaseTooShortToKeep
                | Refusal::KeptLeaseTooShort => unreachable!("of shares and kept grants"),
            })
        })
    }

    fn judge(&mut self, call: Call) -> Result<Reply, Refusal> {
        let holders = self.locks[call.key].map(Holders::Exclusive);
        let holders = holders.as_ref();
        let owner = owner(call.owner);
        let bound = call.token.map(token);
        let rules = Rules {
            default_lease: self.default_lease,
            max_token_lead_ms: self.max_lead,
            max_holders: usize::MAX,
        };
        let (reply, change) = match call.verb {
            Verb::Acquire { px, holds } => {
                let request = Acquire {
                    owner,
                    limit: Limit::ONE,
                    lease: px.map(lease),
                    holds: holds.map(count),
                    token: bound,
                };
                match acquire(holders, &request, false, &rules, self.now, &mut self.clock)? {
                    Some(granted) => (reply(call.owner, granted.holder.grant), granted.change),
                    None => (Reply::Nil, LockChange::Keep),
                }
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
                let released = release(holders, &request, self.now)?;
                (
                    Reply::Left(
                        released
                            .holder
                            .map_or(0, |holder| holder.grant.holds.number())
                            .into(),
                    ),
                    released.change,
                )
            }
            Verb::Renew { px, raise } => {
                let lease = px.map(lease);
                let request = match raise.map(token) {
                    None => Some(Renew::new(owner, None, lease, bound)),
                    Some(raise) => Renew::raise(owner, lease, bound.unwrap(), raise),
                };
                let Some(request) = request else {
                    return Ok(Reply::Error(LOWER));
                };
                let renewed = renew(holders, &request, &rules, self.now, &mut self.clock)?;
                (reply(call.owner, renewed.holder.grant), renewed.change)
            }
            Verb::Fence => {
                fence(holders, bound.expect("a fence names a token"), self.now)?;
                (Reply::Ok, LockChange::Keep)
            }
        };
        match change {
            LockChange::Keep => {}
            LockChange::Free => self.locks[call.key] = None,
            LockChange::Exclusive(holder) => self.locks[call.key] = Some(holder),
            LockChange::Shared(_) => unreachable!("no call has a wider limit"),
        }
        Ok(reply)
    }

    /// The same state at another time, at which no lock may have expired.
    pub(super) fn moved_to(&self, micros: u64) -> Self {
        let mut moved = self.clone();
        moved.apply(Event::Clock(micros));
        assert_eq!(moved.locks, self.locks, "moved past a deadline");
        moved
    }

    /// The earliest deadline: the last time at which every lock is still held.
    pub(super) fn first_expiry(&self) -> u64 {
        self.locks()
            .into_iter()
            .filter_map(|lock| lock?.deadline)
            .fold(u64::MAX, |end, deadline| {
                end.min(deadline.saturating_mul(MICROS))
            })
    }
}

fn to_model(held: &Holder<'_>) -> Lock {
    Lock {
        owner: OWNERS
            .iter()
            .position(|owner| *owner == held.owner.bytes())
            .unwrap(),
        token: held.grant.token.number(),
        holds: held.grant.holds.number().into(),
        lease: held.grant.lease.millis(),
        deadline: match held.end {
            Deadline::At(millis) => Some(millis),
            Deadline::Never => None,
        },
    }
}

fn from_model(lock: Lock) -> Holder<'static> {
    Holder {
        owner: owner(lock.owner),
        grant: Grant {
            token: token(lock.token),
            holds: count(lock.holds),
            lease: lease(lock.lease),
        },
        limit: Limit::ONE,
        end: lock.deadline.map_or(Deadline::Never, Deadline::At),
    }
}

fn reply(owner: usize, grant: Grant) -> Reply {
    Reply::Grant {
        token: grant.token.number(),
        owner,
        holds: grant.holds.number().into(),
        lease: grant.lease.millis(),
    }
}

fn owner(index: usize) -> Owner<'static> {
    Owner::new(OWNERS[index]).unwrap()
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn count(number: u64) -> Holds {
    Holds::new(u32::try_from(number).unwrap()).unwrap()
}

fn lease(millis: u64) -> Lease {
    Lease::from_millis(millis).unwrap()
}
