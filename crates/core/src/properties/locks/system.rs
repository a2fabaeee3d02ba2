//! The system under test: locks that are kept like in a server and changed by the rules of the core, and a replica of
//! them that gets only the effects, each twice.

use super::history::KEYS;
use super::memory::{Locks, Stored};
use super::numbers::{count, error, lease, name, to_end, to_limit, to_model, token};
use crate::model::errors::LOWER;
use crate::model::lock::{self as model, Amount, Call, Event, Key, Reply, Verb};
use crate::{
    Acquire, EffectBuffer, Granted, Holders, Limit, LockChange, Refusal, Release, ReleaseAmount,
    Renew, Rules, Token, TokenClock, UnixTime, acquire, fence, release, renew,
};

#[derive(Clone, Debug)]
pub(crate) struct System {
    locks: Locks,
    replica: Locks,
    /// The effects that the replica has seen.
    replica_clock: TokenClock,
    clock: TokenClock,
    now: UnixTime,
    rules: Rules,
}

impl System {
    /// The state in which a server starts.
    pub(crate) fn like(server: &model::Server) -> Self {
        let clock = TokenClock::after(Token::new(server.seen));
        let mut system = Self {
            locks: Locks::default(),
            replica: Locks::default(),
            replica_clock: clock,
            clock,
            now: UnixTime::from_micros(server.now),
            rules: Rules {
                default_lease: lease(server.settings.default_lease),
                max_token_lead_ms: server.settings.max_lead,
                max_holders: 0,
            },
        };
        system.apply(&Event::MaxHolders(server.settings.max_holders));
        system
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.now
    }

    pub(crate) fn max_holders(&self) -> usize {
        self.rules.max_holders
    }

    pub(crate) fn holders(&self, key: Key) -> Option<Holders<'_>> {
        self.locks.holders(key)
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Clock(now) => self.now = UnixTime::from_micros(*now),
            Event::MaxHolders(count) => {
                self.rules.max_holders = usize::try_from(*count).expect("a number of holders");
            }
            Event::Seen(number) => self.clock.observe(token(*number)),
            Event::Restore(_, holders) => {
                for holder in holders {
                    self.clock.observe(token(holder.token));
                }
            }
            _ => {}
        }
        self.locks.apply(event, self.now);
        self.replica.apply(event, self.now);
    }

    /// `FLUSHDB`: these keys stay.
    pub(crate) fn keep(&mut self, stays: impl Fn(Key) -> bool) {
        for locks in [&mut self.locks, &mut self.replica] {
            locks.0.retain(|key, _| stays(*key));
        }
    }

    /// `SWAPDB 0 1`
    pub(crate) fn swap(&mut self) {
        for locks in [&mut self.locks, &mut self.replica] {
            let all = std::mem::take(&mut locks.0).into_iter();
            locks.0 = all
                .map(|((database, key), lock)| ((1 - database, key), lock))
                .collect();
        }
    }

    /// Removes the holders whose lease has ended. Returns true if there were any.
    pub(crate) fn end_leases(&mut self, key: Key) -> bool {
        let Some(holders) = self.locks.holders(key) else {
            return false;
        };
        let change = holders.expire(self.now);
        self.commit(key, &change, false);
        change != LockChange::Keep
    }

    /// Applies a change here, and its effect twice on the replica.
    fn commit(&mut self, key: Key, change: &LockChange<'_>, is_renewal: bool) {
        let before = self.locks.0.get(&key).cloned();
        self.locks.change(key, change);
        let is_same = self.locks.0.get(&key) == before.as_ref();
        assert_eq!(
            is_same && !is_renewal,
            *change == LockChange::Keep,
            "what changes nothing is not written, but for a renewal"
        );
        let mut buffer = EffectBuffer::new();
        let effect = match change {
            LockChange::Keep => return,
            LockChange::Free => {
                self.replica.change(key, change);
                return;
            }
            LockChange::Exclusive(holder) => holder.effect(false, &mut buffer).bytes(),
            LockChange::Shared(change) => {
                let seen = self.clock.last().expect("a token was granted");
                change.effect(seen, false, &mut buffer)
            }
        };
        for _ in 0..2 {
            let read = LockChange::from_effect(effect).expect("an effect");
            self.replica.change(key, &read);
        }
        if let Some(token) = change.token() {
            self.replica_clock.observe(token);
        }
        let lock = self.locks.0.get(&key);
        assert_eq!(self.replica.0.get(&key), lock, "the replica");
        lock.into_iter().for_each(Stored::check);
        let granted = change.holder().map(|holder| holder.grant.token);
        assert!(
            self.replica_clock.last() >= granted,
            "the replica has not seen a token"
        );
    }

    pub(crate) fn call(&mut self, call: Call) -> Reply {
        if !matches!(call.verb, Verb::Fence) {
            self.end_leases(call.key);
        }
        self.judge(call)
            .unwrap_or_else(|refusal| Reply::Error(error(refusal)))
    }

    fn judge(&mut self, call: Call) -> Result<Reply, Refusal> {
        let Call {
            key, owner, verb, ..
        } = call;
        let (locks, now) = (&self.locks, self.now);
        let holders = locks.holders(key);
        let holders = holders.as_ref();
        let owner = name(owner);
        let bound = call.token.map(token);
        let (clock, rules) = (&mut self.clock, &self.rules);
        let (change, reply) = match verb {
            Verb::Acquire {
                px,
                limit,
                holds,
                in_line,
            } => {
                let call = Acquire {
                    owner,
                    limit: to_limit(limit),
                    lease: px.map(lease),
                    holds: holds.map(count),
                    token: bound,
                };
                match acquire(holders, &call, in_line, rules, now, clock)? {
                    Some(granted) => (granted.change, granted_reply(&granted)),
                    None => return Ok(Reply::Nil),
                }
            }
            Verb::Release(amount) => {
                let amount = match amount {
                    Amount::One => ReleaseAmount::One,
                    Amount::All => ReleaseAmount::All,
                    Amount::DownTo(n) => ReleaseAmount::DownTo(u32::try_from(n).expect("holds")),
                };
                let released = release(
                    holders,
                    &Release {
                        owner,
                        amount,
                        token: bound,
                    },
                    || now,
                )?;
                let left = released
                    .holder
                    .map_or(0, |holder| holder.grant.holds.number());
                (released.change, Reply::Left(left.into()))
            }
            Verb::Renew { px, limit, raise } => {
                let px = px.map(lease);
                let call = match raise.map(token) {
                    None => Some(Renew::new(owner, limit.map(to_limit), px, bound)),
                    Some(raise) => Renew::raise(owner, px, bound.expect("TOKEN"), raise),
                };
                let Some(call) = call else {
                    return Ok(Reply::Error(LOWER));
                };
                let granted = renew(holders, &call, rules, now, clock)?;
                (granted.change, granted_reply(&granted))
            }
            Verb::Fence => {
                fence(holders, bound.expect("TOKEN"), now)?;
                return Ok(Reply::Ok);
            }
        };
        self.commit(key, &change, matches!(verb, Verb::Renew { .. }));
        Ok(reply)
    }

    /// The locks are those of the model.
    pub(crate) fn check(&self, expected: &model::Server) {
        assert_eq!(
            self.clock.last().map_or(0, Token::number),
            expected.seen,
            "the token clock"
        );
        for key in KEYS {
            let holders = expected.holders(key).into_iter();
            let holders: Vec<_> = holders
                .map(|holder| model::Holder { grant: 0, ..holder })
                .collect();
            assert_eq!(self.look(key), holders, "the holders of {key:?}");
            let expiry = expected.locks.get(&key).map(|lock| lock.expiry);
            let lock = self.locks.0.get(&key).cloned();
            assert_eq!(
                lock.map(|mut lock| to_end(*lock.expiry())),
                expiry,
                "the expiry of {key:?}"
            );
        }
    }

    /// The holders whose lease has not ended, told in every way.
    fn look(&self, key: Key) -> Vec<model::Holder> {
        let Some(holders) = self.locks.holders(key) else {
            return Vec::new();
        };
        let live: Vec<_> = holders.live(self.now).collect();
        assert_eq!(holders.live_count(self.now), live.len());
        let least = live.iter().map(|holder| holder.limit).min();
        assert_eq!(
            holders.live_least_limit(self.now),
            least.unwrap_or(Limit::NONE)
        );
        assert!(live.iter().all(|holder| holders.next_end() <= holder.end));
        for holder in &live {
            assert_eq!(holders.find(holder.owner), Some(*holder));
            assert_eq!(holders.find_token(holder.grant.token), Some(*holder));
        }
        live.iter().map(to_model).collect()
    }
}

fn granted_reply(granted: &Granted<'_>) -> Reply {
    let holder = to_model(&granted.holder);
    Reply::Grant {
        token: holder.token,
        holds: holder.holds,
        lease: holder.lease,
        limit: holder.limit,
    }
}
