//! The rules: what an acquire, a release, a renewal and a fence do to the holders of a lock.
//!
//! A rule takes the holders, the request and the time. It changes no lock, but returns a [`LockChange`] for the caller
//! to apply. The only thing that it changes is the token clock that it is given.
//!
//! An exclusive lock differs from a shared lock in three ways: its lease ends with its key (`holders.rs`), its token
//! can be raised, and it has no room for other owners.
//!
//! **The steps of a command**, which all use the same time:
//!
//! 1. [`Holders::expire`] removes the holders whose lease has ended.
//! 2. Waiters at the front of the line that have room are granted the lock ([`next_in_line`](crate::next_in_line())).
//! 3. The call is judged. If calls are still in line (`in_line`), a caller that is not a holder waits behind them.
//! 4. The change is applied. If it makes room, more waiters are granted the lock, as in step 2.
//!
//! A command that only reads does none of this and uses [`Holders::live`].

use super::{
    Acquire, Grant, Holder, Holders, Holds, Limit, LockChange, Refusal, Release, Renew, Rules,
    Token, TokenClock, UnixTime,
};

/// The outcome of a granted acquire or renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted<'a> {
    /// The grant of the caller before the call; `None` when the grant is new.
    pub before: Option<Grant>,
    /// The caller as a holder after the call.
    pub holder: Holder<'a>,
    /// The change of the lock.
    pub change: LockChange<'a>,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released<'a> {
    /// The grant of the caller before the call.
    pub before: Grant,
    /// The caller as a holder after the call; `None` if it gave back its last hold.
    pub holder: Option<Holder<'a>>,
    /// The change of the lock.
    pub change: LockChange<'a>,
}

/// Judges an acquire. Returns `None` if the lock has no room, or if the caller must wait behind other calls.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies; the clock is then unchanged.
#[inline]
pub fn acquire<'a>(
    holders: Option<&Holders<'_>>,
    call: &Acquire<'a>,
    in_line: bool,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Option<Granted<'a>>, Refusal> {
    if let Some(holders) = holders
        && let Some(before) = holders.find(call.owner)
    {
        return reenter(holders, &before, call, now).map(Some);
    }
    if call.token.is_some() || call.holds.is_some_and(|wanted| wanted > Holds::ONE) {
        return Err(match holders {
            None => Refusal::NotHeld,
            Some(_) => Refusal::NotOwner,
        });
    }
    if !Holders::has_room(holders, call.limit, rules.max_holders) {
        return Ok(None);
    }
    // Issue the token from a copy of the clock. A call that has to wait must not use up a token, but if no tokens are
    // left, it must be refused.
    let mut next = *clock;
    let token = next.issue(now).ok_or(Refusal::TokensUsedUp)?;
    if in_line {
        return Ok(None);
    }
    *clock = next;
    let lease = call.lease.unwrap_or(rules.default_lease);
    let holder = Holder {
        owner: call.owner,
        grant: Grant {
            token,
            holds: Holds::ONE,
            lease,
        },
        limit: call.limit,
        end: lease.deadline_from(now),
    };
    Ok(Some(Granted {
        before: None,
        holder,
        change: Holders::put(holders, holder),
    }))
}

/// A holder acquires its lock again.
fn reenter<'a>(
    holders: &Holders<'_>,
    before: &Holder<'_>,
    call: &Acquire<'a>,
    now: UnixTime,
) -> Result<Granted<'a>, Refusal> {
    let held = before.grant;
    if call
        .holds
        .is_some_and(|wanted| held.holds.number() < wanted.number() - 1)
    {
        return Err(Refusal::HoldsLost);
    }
    check_token(held, call.token)?;
    let limit = narrowed(holders, before.limit, call.limit)?;
    let holds = match call.holds {
        Some(wanted) if held.holds >= wanted => held.holds,
        _ => Holds::new(held.holds.number() + 1).ok_or(Refusal::TooManyHolds)?,
    };
    let lease = call.lease.map_or(held.lease, |asked| asked.max(held.lease));
    let holder = Holder {
        owner: call.owner,
        grant: Grant {
            holds,
            lease,
            ..held
        },
        limit,
        end: before.end.max(lease.deadline_from(now)),
    };
    Ok(Granted {
        before: Some(held),
        holder,
        change: holders.replace(before, holder),
    })
}

/// The narrower of the two limits, or an error if it does not allow the present holders.
fn narrowed(holders: &Holders<'_>, present: Limit, wanted: Limit) -> Result<Limit, Refusal> {
    if wanted >= present {
        Ok(present)
    } else if wanted.allows(holders.count()) {
        Ok(wanted)
    } else {
        Err(Refusal::NotAlone)
    }
}

/// Judges a release. `now` is called only if holds are left, because only then the lease starts again.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies.
#[inline]
pub fn release<'a>(
    holders: Option<&Holders<'_>>,
    call: &Release<'a>,
    now: impl FnOnce() -> UnixTime,
) -> Result<Released<'a>, Refusal> {
    let holders = holders.ok_or(Refusal::NotHeld)?;
    let before = holders.find(call.owner).ok_or(Refusal::NotOwner)?;
    check_token(before.grant, call.token)?;
    let held = before.grant.holds;
    let (holder, change) = match call.amount.left_of(held) {
        None => (None, holders.remove(before.grant.token)),
        Some(holds) => {
            let mut holder = Holder {
                owner: call.owner,
                ..before
            };
            let change = if holds == held {
                LockChange::Keep
            } else {
                holder.grant.holds = holds;
                holder.end = before.end.max(holder.grant.lease.deadline_from(now()));
                Holders::put(Some(holders), holder)
            };
            (Some(holder), change)
        }
    };
    Ok(Released {
        before: before.grant,
        holder,
        change,
    })
}

/// Judges a renewal.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies; the clock is then unchanged.
pub fn renew<'a>(
    holders: Option<&Holders<'_>>,
    call: &Renew<'a>,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Granted<'a>, Refusal> {
    let holders = holders.ok_or(Refusal::NotHeld)?;
    let before = holders.find(call.owner).ok_or(Refusal::NotOwner)?;
    let held = before.grant;
    // If the grant already has the raised token, the call is a repetition.
    if call.raise != Some(held.token) {
        check_token(held, call.token)?;
    }
    let limit = match call.limit {
        Some(wanted) if wanted > before.limit => wanted,
        Some(wanted) => narrowed(holders, before.limit, wanted)?,
        None => before.limit,
    };
    let token = call.raise.unwrap_or(held.token);
    check_lead(held.token, token, rules, now, *clock)?;
    if call.raise.is_some() && before.limit > Limit::ONE {
        return Err(Refusal::NotRaisable);
    }
    if limit > before.limit && held.holds > Holds::ONE {
        return Err(Refusal::SeveralHolds);
    }
    clock.observe(token);
    let lease = call.lease.unwrap_or(held.lease);
    let holder = Holder {
        owner: call.owner,
        grant: Grant {
            token,
            lease,
            ..held
        },
        limit,
        end: lease.deadline_from(now),
    };
    Ok(Granted {
        before: Some(held),
        holder,
        // Written even if nothing changes, as PEXPIRE does.
        change: Holders::put(Some(holders), holder),
    })
}

/// Checks that a token is not raised too far ahead of the wall clock.
fn check_lead(
    from: Token,
    to: Token,
    rules: &Rules,
    now: UnixTime,
    clock: TokenClock,
) -> Result<(), Refusal> {
    let furthest = now
        .micros()
        .saturating_add(rules.max_token_lead_ms.saturating_mul(1000));
    if to.number() > furthest && Some(to) > clock.last() && to != from {
        return Err(Refusal::Ahead);
    }
    Ok(())
}

/// Checks that `token` is that of a current grant.
///
/// # Errors
///
/// [`Refusal::Fenced`] if no current grant has this token.
pub fn fence(holders: Option<&Holders<'_>>, token: Token, now: UnixTime) -> Result<(), Refusal> {
    match holders.and_then(|holders| holders.find_token(token)) {
        Some(holder) if !holder.end.has_passed(now) => Ok(()),
        _ => Err(Refusal::Fenced),
    }
}

fn check_token(grant: Grant, token: Option<Token>) -> Result<(), Refusal> {
    match token {
        Some(token) if token != grant.token => Err(Refusal::Fenced),
        _ => Ok(()),
    }
}
