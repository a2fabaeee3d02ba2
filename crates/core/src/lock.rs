//! The rule of each command: a function from the lock and the request to a result with a [`Change`].

use std::ffi::CStr;

use super::{Deadline, Grant, Held, Holds, Lease, Owner, Record, Token, TokenClock, UnixTime};

/// What a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the key is not written.
    Keep,
    /// The caller holds the lock with this grant, until this deadline.
    Hold(Grant, Deadline),
    /// The lock becomes free.
    Free,
}

/// Why a command changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The lock is free.
    NotHeld,
    /// The owner has fewer holds than it counted on.
    HoldsLost,
    /// Another owner holds it.
    NotOwner,
    /// The token given is not that of the current grant.
    Fenced,
    /// The token to raise to is too far ahead of this server's time.
    Ahead,
    /// One more hold would pass [`Holds::MAX`].
    TooManyHolds,
    /// No token is left to grant.
    TokensUsedUp,
    /// The lock has more holders than the call bears.
    NotAlone,
    /// A grant with several holds is not widened: one of them may rely on being alone.
    SeveralHolds,
    /// Only a grant of limit 1 is raised.
    NotRaisable,
    /// A call without a lease would keep a grant whose lease is under a second.
    LeaseTooShortToKeep,
    /// The lease of a kept grant would become shorter than a second.
    KeptLeaseTooShort,
}

impl Refusal {
    /// The error that the caller gets. Its first word is for programs: `ERR` where the state of the lock
    /// is not the reason.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::NotHeld => c"NOTHELD the lock is free",
            Self::HoldsLost => {
                c"NOTHELD the owner has fewer holds than HOLDS counts on: some were lost"
            }
            Self::NotOwner => c"NOTOWNER another owner holds the lock",
            Self::Fenced => c"FENCED the token is not that of the current grant",
            Self::Ahead => {
                c"AHEAD the token to raise to is further ahead of this server's time than \
                  lock.max-token-lead-ms allows"
            }
            Self::TooManyHolds => c"ERR the hold count is at its limit of 2147483647",
            Self::TokensUsedUp => {
                c"ERR no fencing token is left: this server has seen one near 2^53"
            }
            Self::NotAlone => {
                c"NOTALONE the lock has more holders than this call bears: release it first"
            }
            Self::SeveralHolds => {
                c"ERR a grant with several holds gets no wider limit: release the others first"
            }
            Self::NotRaisable => c"ERR RAISE takes a grant that has the lock alone (limit 1)",
            Self::LeaseTooShortToKeep => {
                c"ERR KEEP takes a lease of 1000 ms or more, and that of the grant is shorter: \
                  give one with PX or EX"
            }
            Self::KeptLeaseTooShort => {
                c"ERR the lease of a kept grant is 1000 ms or more: end the keeping with KEEP 0"
            }
        }
    }
}

/// The settings that the rules depend on.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The lease of a new grant if the request names none.
    pub default_lease: Lease,
    /// How far ahead of time a token may be raised, in milliseconds.
    pub max_token_lead_ms: u64,
}

/// An acquire: `LOCK.ACQUIRE key owner [PX | EX] [HOLDS n] [TOKEN token]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquire<'a> {
    /// Who asks.
    pub owner: Owner<'a>,
    /// The lease asked for.
    pub lease: Option<Lease>,
    /// How many holds the caller wants to have afterwards.
    pub holds: Option<Holds>,
    /// The grant that this call re-enters.
    pub token: Option<Token>,
}

/// The outcome of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lock was free: a new grant.
    New(Grant, Change),
    /// The caller holds it already: a re-entry.
    Again(Grant, Change),
    /// Another owner holds it; the caller may wait.
    Busy,
}

/// Judges an acquire.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies; the clock is then unchanged.
pub fn acquire(
    lock: Option<&Held<'_>>,
    request: &Acquire<'_>,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Acquired, Refusal> {
    let expects_holds =
        request.token.is_some() || request.holds.is_some_and(|wanted| wanted > Holds::ONE);
    let Some(held) = lock else {
        if expects_holds {
            return Err(Refusal::NotHeld);
        }
        let lease = request.lease.unwrap_or(rules.default_lease);
        let token = clock.next(now).ok_or(Refusal::TokensUsedUp)?;
        let grant = Grant {
            token,
            holds: Holds::ONE,
            lease,
        };
        return Ok(Acquired::New(
            grant,
            Change::Hold(grant, lease.deadline_from(now)),
        ));
    };
    if held.owner != request.owner {
        return if expects_holds {
            Err(Refusal::NotOwner)
        } else {
            Ok(Acquired::Busy)
        };
    }
    let before = held.grant;
    check_reentry(before, request)?;
    let grant = reentered(before, request)?;
    let lease = grant.lease;
    let deadline = held.deadline.max(lease.deadline_from(now));
    Ok(Acquired::Again(grant, change(held, grant, deadline)))
}

/// Checks that the holder's grant is the one that a re-entry counts on.
#[inline]
pub(crate) fn check_reentry(before: Grant, request: &Acquire<'_>) -> Result<(), Refusal> {
    if request
        .holds
        .is_some_and(|wanted| before.holds.number() < wanted.number() - 1)
    {
        return Err(Refusal::HoldsLost);
    }
    check_token(before, request.token)
}

/// The holder's grant after a re-entry.
#[inline]
pub(crate) fn reentered(before: Grant, request: &Acquire<'_>) -> Result<Grant, Refusal> {
    let holds = match request.holds {
        Some(wanted) if before.holds >= wanted => before.holds,
        _ => Holds::new(before.holds.number() + 1).ok_or(Refusal::TooManyHolds)?,
    };
    let lease = request
        .lease
        .map_or(before.lease, |asked| asked.max(before.lease));
    Ok(Grant {
        holds,
        lease,
        ..before
    })
}

/// How many holds a release gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseAmount {
    /// One hold.
    One,
    /// Every hold.
    All,
    /// All but this many.
    DownTo(u32),
}

/// A release: `LOCK.RELEASE key owner [ALL | HOLDS n] [TOKEN token]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// Who asks.
    pub owner: Owner<'a>,
    /// How many holds it gives back.
    pub amount: ReleaseAmount,
    /// The grant that the call is bound to.
    pub token: Option<Token>,
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The holds that are left; 0 when the lock is free.
    pub holds_left: u32,
    /// What happens to the key.
    pub change: Change,
}

/// What a release that leaves holds needs to refresh the lease.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The current time.
    pub now: UnixTime,
    /// When the lease ends.
    pub deadline: Deadline,
}

impl Times {
    /// The times for a release of this lock.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(lock: Option<&Held<'_>>, now: UnixTime) -> Self {
        Self {
            now,
            deadline: lock.map_or(Deadline::Never, |held| held.deadline),
        }
    }
}

/// Judges a release. `times` is called only when holds are left: the usual release is the last one, and
/// need not pay for the look-up.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies.
pub fn release(
    lock: Option<Record<'_>>,
    request: &Release<'_>,
    times: impl FnOnce() -> Times,
) -> Result<Released, Refusal> {
    let held = lock.ok_or(Refusal::NotHeld)?;
    if held.owner != request.owner {
        return Err(Refusal::NotOwner);
    }
    check_token(held.grant, request.token)?;
    let before = held.grant.holds.number();
    let holds_left = match request.amount {
        ReleaseAmount::One => before - 1,
        ReleaseAmount::All => 0,
        ReleaseAmount::DownTo(count) => count.min(before),
    };
    let change = match Holds::new(holds_left) {
        None => Change::Free,
        Some(holds) if holds == held.grant.holds => Change::Keep,
        Some(holds) => {
            let grant = Grant {
                holds,
                ..held.grant
            };
            let Times { now, deadline } = times();
            Change::Hold(grant, deadline.max(grant.lease.deadline_from(now)))
        }
    };
    Ok(Released { holds_left, change })
}

/// A renewal: `LOCK.RENEW key owner [PX | EX] [TOKEN token [RAISE token]]`.
///
/// A raise needs a token to raise from, so [`Renew::raise`] takes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renew<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) lease: Option<Lease>,
    pub(crate) token: Option<Token>,
    pub(crate) raise: Option<Token>,
}

impl<'a> Renew<'a> {
    /// Who asks.
    #[must_use]
    pub const fn owner(&self) -> Owner<'a> {
        self.owner
    }

    /// A renewal, of the grant with `token` if one is given.
    #[must_use]
    pub const fn new(owner: Owner<'a>, lease: Option<Lease>, token: Option<Token>) -> Self {
        Self {
            owner,
            lease,
            token,
            raise: None,
        }
    }

    /// A renewal that raises the token of a grant from `token` to `raise`; `None` when `raise` is lower.
    #[must_use]
    pub fn raise(
        owner: Owner<'a>,
        lease: Option<Lease>,
        token: Token,
        raise: Token,
    ) -> Option<Self> {
        (raise >= token).then_some(Self {
            owner,
            lease,
            token: Some(token),
            raise: Some(raise),
        })
    }
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The grant after the renewal.
    pub grant: Grant,
    /// What happens to the key.
    pub change: Change,
}

/// Judges a renewal.
///
/// # Errors
///
/// The first [`Refusal`] of the contract that applies; the clock is then unchanged.
pub fn renew(
    lock: Option<&Held<'_>>,
    request: &Renew<'_>,
    rules: &Rules,
    now: UnixTime,
    clock: &mut TokenClock,
) -> Result<Renewed, Refusal> {
    let held = lock.ok_or(Refusal::NotHeld)?;
    if held.owner != request.owner {
        return Err(Refusal::NotOwner);
    }
    // A grant that has the raised token already: the call is a repetition.
    if request.raise != Some(held.grant.token) {
        check_token(held.grant, request.token)?;
    }
    let token = request.raise.unwrap_or(held.grant.token);
    check_lead(held.grant.token, token, rules, now, *clock)?;
    clock.observe(token);
    let grant = Grant {
        token,
        lease: request.lease.unwrap_or(held.grant.lease),
        ..held.grant
    };
    Ok(Renewed {
        grant,
        change: change(held, grant, grant.lease.deadline_from(now)),
    })
}

/// Checks that a token is not raised too far ahead of time.
#[inline]
pub(crate) fn check_lead(
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

/// Checks that `token` is that of the current grant.
///
/// # Errors
///
/// [`Refusal::Fenced`] when it is not, or when the lock is free.
pub fn fence(lock: Option<&Held<'_>>, token: Token) -> Result<(), Refusal> {
    match lock {
        Some(held) => check_token(held.grant, Some(token)),
        None => Err(Refusal::Fenced),
    }
}

pub(crate) fn check_token(grant: Grant, token: Option<Token>) -> Result<(), Refusal> {
    match token {
        Some(token) if token != grant.token => Err(Refusal::Fenced),
        _ => Ok(()),
    }
}

fn change(held: &Held<'_>, grant: Grant, deadline: Deadline) -> Change {
    if grant == held.grant && deadline == held.deadline {
        Change::Keep
    } else {
        Change::Hold(grant, deadline)
    }
}

#[cfg(test)]
#[path = "lock_tests/mod.rs"]
mod tests;
