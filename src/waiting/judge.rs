//! Applies the core's rules (`rules.rs`) and the session checks to a call.

use redis_lock_core::{Acquire, Granted, Holders, Owner, Refusal};

use crate::locks::{LockKey, now, observe_token, rules, token_clock};
use crate::server::Context;
use crate::sessions::{self, Membership};

/// Judges an acquire. Returns `None` if the lock has no room, or if the caller must wait behind other calls.
///
/// The caller of this function must [`confirm`] a grant, because only that records the token in the token clock.
#[inline]
pub(super) fn admit<'a>(
    context: Context<'_>,
    holders: Option<&Holders<'_>>,
    request: &Acquire<'a>,
    in_line: bool,
) -> Result<Option<Granted<'a>>, Refusal> {
    let (rules, now) = (rules(), now(context));
    redis_lock_core::acquire(holders, request, in_line, &rules, now, &mut token_clock())
}

/// The error for a call that the rules refuse with `error`. The error for a full session may take precedence.
pub(super) fn refused(
    key: &LockKey<'_>,
    holders: Option<&Holders<'_>>,
    owner: Owner<'_>,
    membership: Membership,
    error: Refusal,
) -> Refusal {
    let before = holders.and_then(|holders| holders.find(owner));
    let before = before.map(|holder| holder.grant.token);
    sessions::refusal(key.context(), key.name(), membership, before, error)
}

/// Makes the last check, that the lease of a grant in a session is long enough, and records the token in the token
/// clock.
pub(super) fn confirm(
    key: &LockKey<'_>,
    membership: Membership,
    granted: &Granted<'_>,
) -> Result<(), Refusal> {
    sessions::check(key.context(), key.name(), membership, granted)?;
    observe_token(granted.holder.grant.token);
    Ok(())
}
