//! Applies the rules and the session checks to a call. An ACQUIRE is decided in the core's `rules.rs`.

use redis_lock_core::{Acquire, Granted, Holders, Owner, Refusal};

use crate::locks::{LockKey, now, observe_token, rules, token_clock};
use crate::server::Context;
use crate::sessions::{self, Membership};

/// Judges an acquire; `None` when there is no room, or somebody waits and the caller is no holder. A grant must then be
/// confirmed: `token_clock()` is a copy, and [`confirm`] records the token.
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

/// The error that the caller gets when the rules refuse its call with `error`: that of a full session may come first.
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

/// Checks that a grant that its session renews has a lease that is long enough: the last check of all. Then its token
/// counts as seen.
pub(super) fn confirm(
    key: &LockKey<'_>,
    membership: Membership,
    granted: &Granted<'_>,
) -> Result<(), Refusal> {
    sessions::check(key.context(), key.name(), membership, granted)?;
    observe_token(granted.holder.grant.token);
    Ok(())
}
