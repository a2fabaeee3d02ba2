//! What commands tell, and ask.

use redis_lock_core::keeping::{Asked, GrantName, Keep, Keeper};
use redis_lock_core::{Holder, LockChange, SharedChange, Token};

use super::close::{Cause, close};
use super::follow;
use super::grant::renew;
use super::state::{STATE, this_moment};
use super::work;
use crate::locks::{LockKey, check_write};
use crate::server::{Context, Text, WriteCheck};

/// True when anything is kept.
#[inline]
pub(crate) fn any() -> bool {
    STATE.is_busy()
}

/// Whether a caller keeps its grant, which command asks, and the client that keeps it.
pub(crate) type ToKeep = Option<(Keep, Asked, u64)>;

/// Notes a change that is about to be made in a lock. `before` is the token of the caller's grant, `after` the caller
/// as a holder afterwards. To be called before the change is announced: a listener may free the lock.
#[inline]
pub(crate) fn note_change(
    key: &LockKey<'_>,
    before: Option<Token>,
    after: Option<&Holder<'_>>,
    change: &LockChange<'_>,
    keep: ToKeep,
) {
    if any() || keep.is_some() {
        note(key, before, after, change, keep);
    }
}

#[cold]
fn note(
    key: &LockKey<'_>,
    before: Option<Token>,
    after: Option<&Holder<'_>>,
    change: &LockChange<'_>,
    keep: ToKeep,
) {
    let context = key.context();
    if matches!(keep, Some((Keep::For(_), ..))) {
        follow::begin(context);
    }
    let (database, key) = (context.database(), key.name().bytes());
    let named = |token| GrantName {
        database,
        key,
        token,
    };
    let now = this_moment(context);
    let closed = STATE.with(context, |state| {
        let grants = &mut state.grants;
        if let LockChange::Shared(SharedChange { cap: Some(at), .. }) = change {
            grants.cut(database, key, *at);
        }
        let Some(&Holder { grant, end, .. }) = after else {
            if let Some(token) = before {
                grants.released(named(token));
            }
            return None;
        };
        if let Some(token) = before.filter(|token| *token != grant.token) {
            grants.raised(named(token), grant.token);
        }
        let this = named(grant.token);
        match keep {
            Some((Keep::For(silence), asked, client_id)) => {
                let keeper = Keeper {
                    client_id,
                    silence,
                    asked,
                };
                grants.keep(this, keeper, grant.lease, end, now)
            }
            Some((Keep::End, Asked::Renew, client_id)) => grants.end(this, client_id),
            Some((Keep::End, Asked::Acquire, _)) | None => {
                grants.renewed(this, grant.lease, end, now);
                None
            }
        }
    });
    close(context, closed.into_iter().collect(), Cause::Other);
    work::arm(context);
}

/// A client that was granted this lock was not told so. It keeps nothing, also where the grant stands as that of
/// other calls.
pub(crate) fn given_back(context: Context<'_>, name: Text<'_>, token: Token, client_id: u64) {
    STATE.if_busy(context, |state| {
        let name = GrantName {
            database: context.database(),
            key: name.bytes(),
            token,
        };
        state.grants.given_back(name, client_id);
    });
}

/// The leases of these grants have ended: before they are granted to anybody else.
pub(crate) fn leases_ended(
    context: Context<'_>,
    name: Text<'_>,
    tokens: impl Iterator<Item = Token>,
) {
    if !any() {
        return;
    }
    let (database, key) = (context.database(), name.bytes());
    let closed = STATE.with(context, |state| {
        tokens
            .filter_map(|token| {
                state.grants.lost(GrantName {
                    database,
                    key,
                    token,
                })
            })
            .collect()
    });
    close(context, closed, Cause::Other);
}

/// Renews the kept grants of a lock that are due, before a command on it that the server allows to write.
#[inline]
pub(crate) fn renew_due(context: Context<'_>, name: Text<'_>) {
    if any() {
        renew_due_of(context, name);
    }
}

/// As [`renew_due`], before a command that only looks: where the server would allow one that writes.
#[inline]
pub(crate) fn renew_due_if_allowed(context: Context<'_>, name: Text<'_>) {
    if any() && has_due(context, name) && check_write(context, name) == WriteCheck::Allowed {
        renew_due_of(context, name);
    }
}

#[cold]
fn has_due(context: Context<'_>, name: Text<'_>) -> bool {
    let now = this_moment(context);
    STATE.with(context, |state| {
        let database = context.database();
        state.grants.has_due_of(database, name.bytes(), now)
    })
}

#[cold]
fn renew_due_of(context: Context<'_>, name: Text<'_>) {
    if context.flags().replica() || context.writes_paused() {
        return;
    }
    let database = context.database();
    let now = this_moment(context);
    let due = STATE.with(context, |state| {
        state.grants.due_of(database, name.bytes(), now)
    });
    for kept in due {
        let outcome = renew(context, &kept);
        work::tell(context, &kept, outcome);
    }
}

/// Who keeps a grant, and for how long it may be silent.
pub(crate) fn kept_by(context: Context<'_>, name: Text<'_>, token: Token) -> Option<(u64, u64)> {
    STATE.if_busy(context, |state| {
        let kept = state.grants.get(GrantName {
            database: context.database(),
            key: name.bytes(),
            token,
        })?;
        Some((kept.client_id, kept.silence.millis()))
    })
}

/// True when a grant is kept.
pub(crate) fn is_kept(context: Context<'_>, name: Text<'_>, token: Token) -> bool {
    kept_by(context, name, token).is_some()
}
