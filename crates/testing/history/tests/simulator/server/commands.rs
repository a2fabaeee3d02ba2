//! The commands: the module's rules, and the defects around them.

use history::{Action, Call, Down, Outcome};
use redis_lock_core::{
    Acquire, Granted, Holder, Holds, Lease, Limit, LockChange, Refusal, Release, ReleaseAmount,
    Renew, Rules, Token, TokenClock, UnixTime,
};

use super::super::defect::Defect;
use super::{DATABASE, KEY, Lock, MAX_HOLDERS, Server, owner};

/// The settings. Every acquire here names a lease.
const RULES: Rules = Rules {
    default_lease: Lease::MAX,
    max_token_lead_ms: 5_000,
    max_holders: MAX_HOLDERS,
};

/// What an acquire asks for.
pub(super) fn acquire(call: &Call) -> Acquire<'_> {
    let Action::Acquire {
        limit,
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
        limit: limit.map_or(Limit::ONE, of_history),
        lease: lease.and_then(Lease::from_millis),
        holds: holds.and_then(Holds::new),
        token: token.and_then(Token::new),
    }
}

/// As a command replies it.
pub(super) fn granted(holder: &Holder<'_>, names_limit: bool) -> Outcome {
    let Holder {
        owner,
        grant,
        limit,
        ..
    } = holder;
    Outcome::Grant {
        token: grant.token.number(),
        owner: String::from_utf8_lossy(owner.bytes()).into_owned(),
        holds: grant.holds.number(),
        lease: grant.lease.millis(),
        limit: names_limit.then(|| history::Limit::new(limit.number())),
    }
}

fn of_history(limit: history::Limit) -> Limit {
    Limit::new(limit.number()).expect("a limit")
}

impl Server {
    pub(super) fn acquire(&mut self, call: &Call) -> Outcome {
        let request = acquire(call);
        let names_limit = matches!(call.action, Action::Acquire { limit: Some(_), .. });
        let in_line =
            !self.has(Defect::Barging) && self.waits.first_eligible(DATABASE, KEY).is_some();
        match self.judge_acquire(&request, in_line) {
            Err(refusal) => refused(refusal),
            Ok(Some(now)) => {
                // A twin that was granted it just before and is gone gives back its hold only.
                self.answered(now.holder.grant.token);
                granted(&now.holder, names_limit)
            }
            Ok(None) => Outcome::Nil,
        }
    }

    /// A call of this grant is answered.
    fn answered(&mut self, token: Token) {
        self.waits.answered(DATABASE, KEY, token);
    }

    /// Judges an acquire and carries it out; none where it has no room.
    pub(super) fn judge_acquire<'a>(
        &mut self,
        request: &Acquire<'a>,
        in_line: bool,
    ) -> Result<Option<Granted<'a>>, Refusal> {
        let before = self.saved.clone();
        let now = self.wall();
        let mut holders = before.lock.as_ref().map(Lock::holders);
        let counts = request.token.is_some() || request.holds.is_some_and(|n| n > Holds::ONE);
        let own = holders.and_then(|holders| holders.find(request.owner));
        if holders.is_some() && own.is_none() && !counts && self.has_at_times(Defect::TwoOwners) {
            holders = None;
        }
        if holders.is_none() && !counts && self.has_at_times(Defect::NilWhileFree) {
            return Ok(None);
        }
        let limit = request.limit;
        let forgets = self.defect == Some(Defect::NotAloneLeftOut);
        let kept = self.kept_limit(limit, own.is_some());
        let clock = &mut self.saved.clock;
        let mut judge = |limit| {
            let request = Acquire { limit, ..*request };
            redis_lock_core::acquire(holders.as_ref(), &request, in_line, &RULES, now, clock)
        };
        let granted = match judge(kept) {
            Err(Refusal::NotAlone) if forgets => judge(Limit::NONE),
            granted => granted,
        };
        let Some(mut granted) = granted? else {
            return Ok(None);
        };
        if let LockChange::Exclusive(held) = &mut granted.change {
            match own {
                None => self.grant_wrongly(held, before.clock, now),
                Some(own) => {
                    let adds = held.grant.holds > own.grant.holds;
                    self.enter_again_wrongly(held, adds, now);
                    let shortened = request.lease.unwrap_or(held.grant.lease).deadline_from(now);
                    held.end = if self.has(Defect::ReEntryShortens) {
                        shortened
                    } else {
                        own.end.max(held.grant.lease.deadline_from(now))
                    };
                }
            }
            (granted.holder.grant, granted.holder.end) = (held.grant, held.end);
        }
        if kept != limit || forgets {
            granted.holder.limit = granted.holder.limit.min(limit);
        }
        self.apply(&granted.change);
        Ok(Some(granted))
    }

    /// The limit that the lock remembers for a call with this one.
    fn kept_limit(&self, limit: Limit, is_again: bool) -> Limit {
        match limit {
            Limit::ONE | Limit::NONE if !is_again => limit,
            _ if is_again && self.has(Defect::NarrowingForgotten) => Limit::NONE,
            _ if is_again => limit,
            _ if self.has(Defect::LimitForgotten) => Limit::NONE,
            _ if self.has(Defect::OneTooMany) => Limit::new(limit.number() + 1).expect("a limit"),
            _ => limit,
        }
    }

    fn grant_wrongly(&mut self, held: &mut Holder<'_>, before: TokenClock, now: UnixTime) {
        if let Some(token) = self.wrong_token(before) {
            held.grant.token = token;
        }
        if self.has(Defect::ShortLease)
            && let Some(short) = Lease::from_millis(held.grant.lease.millis() / 2)
        {
            held.end = short.deadline_from(now);
        }
    }

    fn enter_again_wrongly(&mut self, held: &mut Holder<'_>, adds: bool, now: UnixTime) {
        if self.repeats_hold(adds) {
            held.grant.holds = Holds::new(held.grant.holds.number() + 1).expect("few holds");
        }
        if self.has_at_times(Defect::ReEntryNewToken) {
            held.grant.token = self.saved.clock.next(now).expect("tokens");
        }
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
        let holders = lock.as_ref().filter(|_| !forgets).map(Lock::holders);
        let first = holders.and_then(|holders| holders.live(self.wall()).next());
        let anyone = first.filter(|_| self.has(Defect::ReleaseByAnyone));
        let owner = anyone.map_or(owner(&call.owner), |holder| holder.owner);
        let before = holders.and_then(|holders| holders.find(owner));
        let holds = before.map_or(1, |before| before.grant.holds.number());
        let request = Release {
            owner,
            amount: match down {
                Down::One => ReleaseAmount::One,
                Down::All if self.has(Defect::AllKeepsOne) => ReleaseAmount::DownTo(1),
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
        match redis_lock_core::release(holders.as_ref(), &request, || self.wall()) {
            Ok(released) => {
                self.answered(released.before.token);
                self.apply(&released.change);
                Outcome::Left(
                    released
                        .holder
                        .map_or(0, |holder| holder.grant.holds.number()),
                )
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
        while let Some(id) = self.waits.first_of(DATABASE, KEY, owner.as_bytes()) {
            self.end_wait(id);
            any = true;
        }
        any
    }

    pub(super) fn renew(&mut self, call: &Call) -> Outcome {
        let Action::Renew {
            limit,
            lease,
            token,
            raise,
        } = call.action
        else {
            panic!("no renewal: {call:?}");
        };
        let (owner, now) = (owner(&call.owner), self.wall());
        if self.saved.lock.is_none() && self.has(Defect::RenewTakes) {
            let request = Acquire {
                owner,
                limit: Limit::ONE,
                lease: Lease::from_millis(100),
                holds: None,
                token: None,
            };
            let _ = self.judge_acquire(&request, false);
        }
        let lock = self.saved.lock.clone();
        let holders = lock.as_ref().map(Lock::holders);
        let (lease, token) = (
            lease.and_then(Lease::from_millis),
            token.and_then(Token::new),
        );
        let raised = token.zip(raise.and_then(Token::new));
        let plain = Renew::new(owner, limit.map(of_history), lease, token);
        let request = raised.map_or(plain, |(token, raise)| {
            Renew::raise(owner, lease, token, raise).expect("a raise lifts the token")
        });
        let clock = &mut self.saved.clock;
        let renewed = redis_lock_core::renew(holders.as_ref(), &request, &RULES, now, clock);
        let renewed = match renewed {
            Ok(renewed) => renewed,
            Err(refusal) => return refused(refusal),
        };
        if let Some(before) = renewed.before {
            self.answered(before.token);
        }
        let outcome = granted(&renewed.holder, limit.is_some());
        let forgets = self.has(Defect::RenewForgotten)
            || limit.is_some() && self.has(Defect::SetLimitForgotten);
        if !forgets {
            self.apply(&renewed.change);
        }
        if self.has(Defect::RaiseForgotten)
            && let Some(before) = renewed.before
            && let Some(Lock::Exclusive { grant, .. }) = &mut self.saved.lock
        {
            grant.token = before.token;
        }
        outcome
    }

    pub(super) fn fence(&mut self, token: u64) -> bool {
        let lock = self.saved.lock.clone();
        let holders = lock.as_ref().map(Lock::holders);
        let token = Token::new(token).expect("a token that a client was told of");
        match redis_lock_core::fence(holders.as_ref(), token, self.wall()) {
            Ok(()) => !self.has_at_times(Defect::FencesCurrent),
            Err(_) => lock.is_some() && self.has_at_times(Defect::FencePassesStale),
        }
    }
}

pub(super) fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(match refusal {
        Refusal::NotHeld | Refusal::HoldsLost => history::Refusal::NotHeld,
        Refusal::NotOwner => history::Refusal::NotOwner,
        Refusal::Fenced => history::Refusal::Fenced,
        Refusal::Ahead => history::Refusal::Ahead,
        Refusal::NotAlone => history::Refusal::NotAlone,
        // An `ERR`, which tells too little.
        Refusal::SeveralHolds | Refusal::NotRaisable => return Outcome::Untouched,
        Refusal::TooManyHolds
        | Refusal::TokensUsedUp
        | Refusal::SessionFull
        | Refusal::SessionLeaseTooShort => panic!("not in a simulation: {refusal:?}"),
    })
}
