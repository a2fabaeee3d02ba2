//! The rule of each command for a lock that may be shared. A lock of one holder with limit 1 is judged by
//! the rules of `lock.rs` alone.

use super::change::{ShareChange, Transition};
use super::holders::{Holders, Shared};
use super::share::{Share, end_of};
use crate::lock::{self, check_reentry, check_token, reentered};
use crate::{
    Acquire, Acquired, Deadline, Grant, Held, Holds, Limit, Refusal, Release, ReleaseAmount, Renew,
    Rules, Times, Token, TokenClock, UnixTime,
};

/// What else decides whether a new holder has room.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// How many holders a lock may have.
    pub max_holders: usize,
    /// Others are in line: only who holds the lock already passes them.
    pub in_line: bool,
}

/// A grant and the limit in force: the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The grant.
    pub grant: Grant,
    /// How many holders it bears.
    pub limit: Limit,
}

/// The outcome of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted<'a> {
    /// There was room: a new grant.
    New(Granted, Transition<'a>),
    /// The caller holds the lock already: a re-entry.
    Again(Granted, Transition<'a>),
    /// There is no room; the caller may wait.
    Busy,
}

/// Judges an acquire of a lock whose ended shares are taken out.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies; the clock is then unchanged.
#[inline]
pub fn acquire<'a>(
    holders: Option<&Holders<'_>>,
    request: &Acquire<'a>,
    limit: Limit,
    room: Room,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Admitted<'a>, Refusal> {
    match holders {
        Some(Holders::Alone(held)) => Ok(
            match lock::acquire(Some(held), request, rules, now, clock)? {
                Acquired::New(..) | Acquired::Busy => Admitted::Busy,
                Acquired::Again(grant, change) => {
                    Admitted::Again(alone(grant), Transition::of(request.owner, change))
                }
            },
        ),
        Some(Holders::Shared(shared)) => {
            acquire_share(shared, request, limit, room, rules, now, clock)
        }
        None => enter(None, request, limit, room, rules, now, clock),
    }
}

#[inline(never)]
fn acquire_share<'a>(
    shared: &Shared<'_>,
    request: &Acquire<'a>,
    limit: Limit,
    room: Room,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Admitted<'a>, Refusal> {
    if let Some(before) = shared.of(request.owner) {
        return reenter(shared, &before, request, limit, now);
    }
    if request.token.is_some() || request.holds.is_some_and(|wanted| wanted > Holds::ONE) {
        return Err(Refusal::NotOwner);
    }
    if !Holders::has_room(Some(&Holders::Shared(*shared)), limit, room.max_holders) {
        return Ok(Admitted::Busy);
    }
    enter(Some(shared), request, limit, room, rules, now, clock)
}

/// There is room for a new grant.
#[inline]
fn enter<'a>(
    shared: Option<&Shared<'_>>,
    request: &Acquire<'a>,
    limit: Limit,
    room: Room,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Admitted<'a>, Refusal> {
    let mut next = *clock;
    // The grant of a free lock, whoever is there.
    let Acquired::New(grant, change) = lock::acquire(None, request, rules, now, &mut next)? else {
        return Ok(Admitted::Busy);
    };
    if room.in_line {
        return Ok(Admitted::Busy);
    }
    *clock = next;
    let share = Share {
        owner: request.owner,
        grant,
        limit,
        end: end_of(grant.lease, now),
    };
    let transition = match shared {
        Some(shared) => shared.put(share),
        None if limit == Limit::ONE => Transition::of(request.owner, change),
        None => Transition::Share(ShareChange::only(share)),
    };
    Ok(Admitted::New(Granted { grant, limit }, transition))
}

fn reenter<'a>(
    shared: &Shared<'_>,
    before: &Share<'_>,
    request: &Acquire<'a>,
    limit: Limit,
    now: UnixTime,
) -> Result<Admitted<'a>, Refusal> {
    check_reentry(before.grant, request)?;
    let limit = narrowed(shared, before.limit, limit)?;
    let grant = reentered(before.grant, request)?;
    let after = Share {
        grant,
        limit,
        end: before.end.max(end_of(grant.lease, now)),
        owner: request.owner,
    };
    Ok(Admitted::Again(
        Granted { grant, limit },
        changed(shared, before, after),
    ))
}

/// The narrower of the two limits, if the present holders are no more than that.
fn narrowed(shared: &Shared<'_>, present: Limit, wanted: Limit) -> Result<Limit, Refusal> {
    if wanted >= present {
        Ok(present)
    } else if wanted.bears(shared.shares.count()) {
        Ok(wanted)
    } else {
        Err(Refusal::NotAlone)
    }
}

/// Judges a release of a lock whose ended shares are taken out: the holds left, and what happens.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies.
pub fn release<'a>(
    holders: Option<&Holders<'_>>,
    request: &Release<'a>,
    now: UnixTime,
) -> Result<(u32, Transition<'a>), Refusal> {
    match holders {
        None => Err(Refusal::NotHeld),
        Some(Holders::Alone(held)) => {
            let times = || Times {
                now,
                deadline: held.deadline,
            };
            let released = lock::release(Some(held.record()), request, times)?;
            Ok((
                released.holds_left,
                Transition::of(request.owner, released.change),
            ))
        }
        Some(Holders::Shared(shared)) => {
            let before = shared.of(request.owner).ok_or(Refusal::NotOwner)?;
            check_token(before.grant, request.token)?;
            let holds = before.grant.holds.number();
            let left = match request.amount {
                ReleaseAmount::One => holds - 1,
                ReleaseAmount::All => 0,
                ReleaseAmount::DownTo(count) => count.min(holds),
            };
            let transition = match Holds::new(left) {
                None => shared.remove(before.grant.token),
                Some(holds) if holds == before.grant.holds => Transition::Keep,
                Some(holds) => {
                    let grant = Grant {
                        holds,
                        ..before.grant
                    };
                    shared.put(Share {
                        owner: request.owner,
                        grant,
                        end: before.end.max(end_of(grant.lease, now)),
                        ..before
                    })
                }
            };
            Ok((left, transition))
        }
    }
}

/// Judges a renewal of a lock whose ended shares are taken out; `limit` is the one to set.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies; the clock is then unchanged.
pub fn renew<'a>(
    holders: Option<&Holders<'_>>,
    request: &Renew<'a>,
    limit: Option<Limit>,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<(Granted, Transition<'a>), Refusal> {
    match holders {
        None => Err(Refusal::NotHeld),
        Some(Holders::Alone(held)) => {
            let renewed = lock::renew(Some(held), request, rules, now, clock)?;
            let grant = renewed.grant;
            match limit {
                Some(limit) if limit > Limit::ONE => {
                    if grant.holds > Holds::ONE {
                        return Err(Refusal::SeveralHolds);
                    }
                    let share = Share {
                        owner: request.owner,
                        grant,
                        limit,
                        end: end_of(grant.lease, now),
                    };
                    Ok((
                        Granted { grant, limit },
                        Transition::Share(ShareChange::only(share)),
                    ))
                }
                _ => Ok((alone(grant), Transition::of(request.owner, renewed.change))),
            }
        }
        Some(Holders::Shared(shared)) => {
            let before = shared.of(request.owner).ok_or(Refusal::NotOwner)?;
            if request.raise != Some(before.grant.token) {
                check_token(before.grant, request.token)?;
            }
            let limit = match limit {
                Some(wanted) if wanted > before.limit => wanted,
                Some(wanted) => narrowed(shared, before.limit, wanted)?,
                None => before.limit,
            };
            if let Some(raised) = request.raise {
                lock::check_lead(before.grant.token, raised, rules, now, *clock)?;
                return Err(Refusal::NotRaisable);
            }
            if limit > before.limit && before.grant.holds > Holds::ONE {
                return Err(Refusal::SeveralHolds);
            }
            let grant = Grant {
                lease: request.lease.unwrap_or(before.grant.lease),
                ..before.grant
            };
            let after = Share {
                grant,
                limit,
                end: end_of(grant.lease, now),
                owner: request.owner,
            };
            Ok((Granted { grant, limit }, changed(shared, &before, after)))
        }
    }
}

/// Checks that `token` is that of a current grant.
///
/// # Errors
///
/// [`Refusal::Fenced`] when it is of none, or when the lock is free.
pub fn fence(holders: Option<&Holders<'_>>, token: Token, now: UnixTime) -> Result<(), Refusal> {
    match holders {
        None => Err(Refusal::Fenced),
        Some(Holders::Alone(held)) => lock::fence(Some(held), token),
        Some(Holders::Shared(shared)) => match shared.shares.with(token) {
            Some(share) if share.end >= now.millis() => Ok(()),
            _ => Err(Refusal::Fenced),
        },
    }
}

/// The owner's share is as `after` says.
fn changed<'a>(shared: &Shared<'_>, before: &Share<'_>, after: Share<'a>) -> Transition<'a> {
    if after.limit == Limit::ONE {
        // No other holder is left.
        return Transition::Alone(Held {
            owner: after.owner,
            grant: after.grant,
            deadline: Deadline::At(after.end),
        });
    }
    if after == *before && shared.is_settled() {
        Transition::Keep
    } else {
        shared.put(after)
    }
}

/// The lock has this one holder alone.
const fn alone(grant: Grant) -> Granted {
    Granted {
        grant,
        limit: Limit::ONE,
    }
}
