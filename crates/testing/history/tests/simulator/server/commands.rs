//! The commands: the module's rules, and the defects around them.

use history::{Action, Call, Down, Outcome};
use redis_lock_core::{
    self as core, Acquire, Acquired, Change, Grant, Holds, Lease, LockId, Refusal, Release,
    ReleaseAmount, Renew, Rules, Times, Token, TokenClock,
};

use super::super::defect::Defect;
use super::{DATABASE, KEY, Lock, Server, owner};

/// The settings. Every acquire here names a lease.
const RULES: Rules = Rules {
    default_lease: Lease::MAX,
    max_token_lead_ms: 5_000,
};

/// What an acquire asks for.
pub(super) fn acquire(call: &Call) -> Acquire<'_> {
    let Action::Acquire {
        lease,
        holds,
        token,
        ..
    } = call.action
    else {
        panic!("no acquire: {call:?}");
    };
    Acquire {
        owner: owner(&call.owner),
        lease: lease.and_then(Lease::from_millis),
        holds: holds.and_then(Holds::new),
        token: token.and_then(Token::new),
    }
}

impl Server {
    pub(super) fn acquire(&mut self, call: &Call) -> Outcome {
        match (self.judge_acquire(&acquire(call)), &self.saved.lock) {
            (Err(refusal), _) => refused(refusal),
            (Ok(Acquired::New(..) | Acquired::Again(..)), Some(lock)) => {
                // A twin that was granted it just before and is gone gives back its hold only.
                self.pending.owner_answered(&LockId::new(DATABASE, KEY));
                lock.outcome()
            }
            (Ok(_), _) => Outcome::Nil,
        }
    }

    /// Judges an acquire and carries it out.
    pub(super) fn judge_acquire(&mut self, request: &Acquire<'_>) -> Result<Acquired, Refusal> {
        let before = self.saved.clone();
        let now = self.wall();
        let mut lock = before.lock.as_ref().map(Lock::held);
        let counts = request.token.is_some() || request.holds.is_some_and(|n| n > Holds::ONE);
        let is_another = lock.is_some_and(|held| held.owner != request.owner);
        if is_another && !counts && self.has_at_times(Defect::TwoOwners) {
            lock = None;
        }
        if lock.is_none() && !counts && self.has_at_times(Defect::NilWhileFree) {
            return Ok(Acquired::Busy);
        }
        let clock = &mut self.saved.clock;
        let mut acquired = core::acquire(lock.as_ref(), request, &RULES, now, clock)?;
        match &mut acquired {
            Acquired::New(grant, change) => {
                if let Some(token) = self.wrong_token(before.clock) {
                    grant.token = token;
                }
                let short = Lease::from_millis(grant.lease.millis() / 2);
                let lease = short.filter(|_| self.has(Defect::ShortLease));
                let deadline = lease.unwrap_or(grant.lease).deadline_from(now);
                *change = Change::Hold(*grant, deadline);
            }
            Acquired::Again(grant, change) => {
                let held = lock.expect("a lock that is entered again");
                if self.repeats_hold(grant.holds > held.grant.holds) {
                    grant.holds = Holds::new(grant.holds.number() + 1).expect("few holds");
                }
                if self.has_at_times(Defect::ReEntryNewToken) {
                    grant.token = self.saved.clock.next(now).expect("tokens");
                }
                let deadline = if self.has(Defect::ReEntryShortens) {
                    request.lease.unwrap_or(grant.lease).deadline_from(now)
                } else {
                    held.deadline.max(grant.lease.deadline_from(now))
                };
                *change = Change::Hold(*grant, deadline);
            }
            Acquired::Busy => {}
        }
        if let Acquired::New(_, change) | Acquired::Again(_, change) = acquired {
            self.apply(request.owner.into(), change);
        }
        Ok(acquired)
    }

    /// The token that a new grant must not have.
    fn wrong_token(&mut self, before: TokenClock) -> Option<Token> {
        let last = before.last()?.number();
        let token = if self.has_at_times(Defect::TokenLower) {
            last - 1
        } else if self.has_at_times(Defect::TokenRepeated) {
            last
        } else if self.timeless {
            last + 1
        } else {
            return None;
        };
        let token = Token::new(token);
        self.saved.clock = TokenClock::after(token.max(before.last()));
        token
    }

    /// Whether a re-entry adds one hold more than it should.
    fn repeats_hold(&mut self, adds: bool) -> bool {
        self.has_at_times(if adds {
            Defect::HoldsOffByOne
        } else {
            Defect::HoldsRepeated
        })
    }

    pub(super) fn release(&mut self, call: &Call, down: Down, token: Option<u64>) -> Outcome {
        let lock = self.saved.lock.clone();
        let forgets = self.has_at_times(Defect::NotHeldWhileHeld);
        let held = lock.as_ref().filter(|_| !forgets).map(Lock::held);
        let holds = held.map_or(1, |held| held.grant.holds.number());
        let anyone = held.filter(|_| self.has(Defect::ReleaseByAnyone));
        let request = Release {
            owner: anyone.map_or(owner(&call.owner), |held| held.owner),
            amount: match down {
                Down::One => ReleaseAmount::One,
                Down::All if self.has(Defect::AllKeepsOne) => {
                    ReleaseAmount::DownTo((holds - 1).min(1))
                }
                Down::All => ReleaseAmount::All,
                Down::To(count) if self.has(Defect::DownTooFar) => {
                    ReleaseAmount::DownTo(count.min(holds - 1))
                }
                Down::To(count) => ReleaseAmount::DownTo(count),
            },
            token: token
                .filter(|_| !self.has(Defect::TokenIgnored))
                .and_then(Token::new),
        };
        let times = || Times {
            now: self.wall(),
            deadline: held.expect("a lock with holds").deadline,
        };
        let record = held.as_ref().map(core::Held::record);
        match core::release(record, &request, times) {
            Ok(released) => {
                self.apply(request.owner.into(), released.change);
                Outcome::Left(released.holds_left)
            }
            Err(_) if down == Down::All && token.is_none() && self.call_off(&call.owner) => {
                Outcome::Left(0)
            }
            Err(refusal) => refused(refusal),
        }
    }

    /// Calls off an owner's waits; whether there were any.
    fn call_off(&mut self, owner: &str) -> bool {
        let mut any = false;
        while let Some(id) = self.queues.first_of(DATABASE, KEY, owner.as_bytes()) {
            self.end_wait(id);
            any = true;
        }
        any
    }

    pub(super) fn renew(
        &mut self,
        call: &Call,
        lease: Option<u64>,
        token: Option<u64>,
        raise: Option<u64>,
    ) -> Outcome {
        let (owner, now) = (owner(&call.owner), self.wall());
        if self.saved.lock.is_none() && self.has(Defect::RenewTakes) {
            let grant = Grant {
                token: self.saved.clock.next(now).expect("tokens"),
                holds: Holds::ONE,
                lease: Lease::from_millis(100).expect("a lease"),
            };
            let deadline = grant.lease.deadline_from(now);
            self.apply(owner.into(), Change::Hold(grant, deadline));
        }
        let lock = self.saved.lock.clone();
        let held = lock.as_ref().map(Lock::held);
        let (lease, token) = (
            lease.and_then(Lease::from_millis),
            token.and_then(Token::new),
        );
        let raised = token.zip(raise.and_then(Token::new));
        let request = raised.map_or(Renew::new(owner, lease, token), |(token, raise)| {
            Renew::raise(owner, lease, token, raise).expect("a raise lifts the token")
        });
        let clock = &mut self.saved.clock;
        let renewed = match core::renew(held.as_ref(), &request, &RULES, now, clock) {
            Ok(renewed) => renewed,
            Err(refusal) => return refused(refusal),
        };
        self.apply(owner.into(), renewed.change);
        let outcome = self.saved.lock.as_ref().map_or(Outcome::Nil, Lock::outcome);
        if self.has(Defect::RenewForgotten) {
            self.saved.lock = lock;
        } else if self.has(Defect::RaiseForgotten)
            && let (Some(before), Some(after)) = (lock, &mut self.saved.lock)
        {
            after.grant.token = before.grant.token;
        }
        outcome
    }

    pub(super) fn fence(&mut self, token: u64) -> bool {
        let held = self.saved.lock.as_ref().map(Lock::held);
        let token = Token::new(token).expect("a token that a client was told of");
        match core::fence(held.as_ref(), token) {
            Ok(()) => !self.has_at_times(Defect::FencesCurrent),
            Err(_) => self.saved.lock.is_some() && self.has_at_times(Defect::FencePassesStale),
        }
    }
}

fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(match refusal {
        Refusal::NotHeld | Refusal::HoldsLost => history::Refusal::NotHeld,
        Refusal::NotOwner => history::Refusal::NotOwner,
        Refusal::Fenced => history::Refusal::Fenced,
        Refusal::Ahead => history::Refusal::Ahead,
        Refusal::TooManyHolds | Refusal::TokensUsedUp => panic!("not in a simulation: {refusal:?}"),
    })
}
