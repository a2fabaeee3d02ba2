//! The interface for commands on locks: they report changes of grants to the sessions, and check what a session allows.

use redis_lock_core::parse::SessionMove;
use redis_lock_core::sessions::{GrantName, LossReason, SessionId, can_renew};
use redis_lock_core::{Granted, Holder, LockChange, OwnerBuf, Refusal, Token};

use super::grant::track_cap;
use super::state::STATE;
use super::upper::release;
use super::{timer, work};
use crate::locks::{LockKey, check_write, monotonic};
use crate::server::{Context, Text, WriteCheck};

/// The effect of a call on the session of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// The grant stays in its session, if any.
    Stays,
    /// The grant joins this session.
    Joins(SessionId),
    /// Like `Joins`, but the call has waited, so it is granted even if the session is full.
    JoinsAfterWait(SessionId),
    /// The grant leaves its session.
    Leaves,
    /// The grant is released by the program of this session, or by a call that names no session.
    ReleasedBy(Option<SessionId>),
    /// The grant is given back because the client of the blocked call has disconnected.
    GivenBack,
}

impl Membership {
    /// The session that the grant joins.
    const fn joins(self) -> Option<SessionId> {
        match self {
            Self::Joins(id) | Self::JoinsAfterWait(id) => Some(id),
            Self::Stays | Self::Leaves | Self::ReleasedBy(_) | Self::GivenBack => None,
        }
    }
}

/// The membership for the `SESSION` option of a renewal.
pub(crate) const fn membership(moved: Option<SessionMove>) -> Membership {
    match moved {
        None => Membership::Stays,
        Some(SessionMove::Into(id)) => Membership::Joins(id),
        Some(SessionMove::Out) => Membership::Leaves,
    }
}

/// Releases the grants that a closed session left in this lock, and renews the due ones. Must be called before each
/// command on the lock that the server allows to write.
#[inline]
pub(crate) fn before_command(context: Context<'_>, name: Text<'_>) {
    if STATE.any_grants() {
        apply_due(context, name);
    }
}

/// Like [`before_command`], but for a read-only command: does nothing unless the server would allow a write.
#[inline]
pub(crate) fn before_read(context: Context<'_>, name: Text<'_>) {
    if STATE.any_grants()
        && has_due(context, name)
        && check_write(context, name) == WriteCheck::Allowed
    {
        apply_due(context, name);
    }
}

/// Returns true if [`before_read`] may have something to do.
#[inline]
pub(crate) fn any_grants() -> bool {
    STATE.any_grants()
}

fn has_due(context: Context<'_>, name: Text<'_>) -> bool {
    STATE.with_time(context, |state, now| {
        let database = context.database();
        state.sessions.has_due_of_lock(database, name.bytes(), now)
    })
}

#[inline(never)]
fn apply_due(context: Context<'_>, name: Text<'_>) {
    // Check this first, because usually nothing is due on the whole server.
    let now = monotonic();
    let is_due = STATE.with(context, |state| state.sessions.may_have_due(now));
    if !is_due || context.flags().replica() || context.writes_paused() {
        return;
    }
    let database = context.database();
    while let Some(grant) = STATE.with(context, |state| {
        let sessions = &mut state.sessions;
        sessions.take_to_release_of(database, name.bytes())
    }) {
        release(context, &grant);
    }
    while let Some(grant) = STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        sessions.next_due_of_lock(database, name.bytes(), now)
    }) {
        work::renew_attached(context, &grant);
    }
}

/// Checks the grant that a call is about to get. These checks come after all others, but before anything changes.
#[inline]
pub(crate) fn check(
    context: Context<'_>,
    name: Text<'_>,
    membership: Membership,
    granted: &Granted<'_>,
) -> Result<(), Refusal> {
    if !STATE.any_grants() && membership.joins().is_none() {
        return Ok(());
    }
    check_grant(context, name, membership, granted)
}

#[inline(never)]
fn check_grant(
    context: Context<'_>,
    name: Text<'_>,
    membership: Membership,
    granted: &Granted<'_>,
) -> Result<(), Refusal> {
    let (joins, grant) = (membership.joins(), granted.holder.grant);
    // Not the new grant's token, because RAISE changes it.
    let before = granted.before.map(|before| before.token);
    let current = before.and_then(|token| of_grant(context, name, token));
    let belongs = joins.or(current.filter(|_| membership != Membership::Leaves));
    match membership {
        Membership::Joins(id) if current != Some(id) && is_full(context, id) => {
            Err(Refusal::SessionFull)
        }
        _ if belongs.is_some() && !can_renew(grant.lease) => Err(Refusal::SessionLeaseTooShort),
        _ => Ok(()),
    }
}

/// The error for a call that the rules refuse with `refusal`. `before` is the token of the caller's grant. The error
/// for a full session (`MAXWAITERS`) takes precedence over an `ERR`, unless the grant is in that session already.
#[cold]
pub(crate) fn refusal(
    context: Context<'_>,
    name: Text<'_>,
    membership: Membership,
    before: Option<Token>,
    refusal: Refusal,
) -> Refusal {
    match membership {
        Membership::Joins(id) if refusal.is_last() && is_full(context, id) => {
            let current = before.and_then(|token| of_grant(context, name, token));
            if current == Some(id) {
                refusal
            } else {
                Refusal::SessionFull
            }
        }
        _ => refusal,
    }
}

/// Returns true if a session has so many events that it accepts no new grant and no new wait.
pub(crate) fn is_full(context: Context<'_>, id: SessionId) -> bool {
    STATE.with(context, |state| state.sessions.is_full(id))
}

/// The session of a grant.
pub(crate) fn of_grant(context: Context<'_>, name: Text<'_>, token: Token) -> Option<SessionId> {
    if !STATE.any_grants() {
        return None;
    }
    STATE.with(context, |state| {
        state.sessions.session_of(GrantName {
            database: context.database(),
            key: name.bytes(),
            token,
        })
    })
}

/// Updates the sessions for a change that is about to be made in a lock. `before` is the token of the caller's grant
/// before the change; `after` is the caller as a holder after it.
///
/// Must be called before the change is announced, because a listener may free the lock.
#[inline]
pub(crate) fn track_change(
    key: &LockKey<'_>,
    before: Option<Token>,
    after: Option<&Holder<'_>>,
    change: &LockChange<'_>,
    membership: Membership,
) {
    if STATE.any_grants() || membership.joins().is_some() {
        track(key, before, after, change, membership);
    }
}

#[inline(never)]
fn track(
    key: &LockKey<'_>,
    before: Option<Token>,
    after: Option<&Holder<'_>>,
    change: &LockChange<'_>,
    membership: Membership,
) {
    let moves = membership.joins().is_some() || membership == Membership::Leaves;
    if *change == LockChange::Keep && !moves {
        // The lease is unchanged.
        return;
    }
    track_cap(key, change);
    let context = key.context();
    let (database, key) = (context.database(), key.name().bytes());
    let named = |token| GrantName {
        database,
        key,
        token,
    };
    let is_due = STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        sessions.report_flushed_of(database, key, now);
        if let Some(holder) = after {
            let (token, lease) = (holder.grant.token, holder.grant.lease);
            if let Some(before) = before.filter(|before| *before != token) {
                sessions.raised(named(before), token);
            }
            let name = named(token);
            match membership.joins() {
                Some(id) => {
                    let owner = OwnerBuf::from(holder.owner);
                    sessions.join(id, name, &owner, lease, holder.end, now);
                }
                None if membership == Membership::Leaves => sessions.take_out(name),
                None => sessions.changed(name, lease, holder.end, now),
            }
        } else if let Some(name) = before.map(named) {
            match membership {
                Membership::GivenBack => sessions.given_back(name),
                Membership::ReleasedBy(by) => sessions.released(name, by, now),
                _ => sessions.released(name, None, now),
            }
        }
        let poll = sessions.next_poll_at();
        poll.is_some_and(|at| at <= now.monotonic)
    });
    // Everything else can wait for the timer, which fires at least every 50 ms: a lease is a second or more.
    if is_due {
        timer::arm(context);
    }
}

/// Reports that the leases of these grants have ended. Must be called before the lock is granted to another owner.
pub(crate) fn leases_ended(
    context: Context<'_>,
    name: Text<'_>,
    tokens: impl Iterator<Item = Token>,
) {
    if !STATE.any_grants() {
        return;
    }
    let (database, key) = (context.database(), name.bytes());
    STATE.with_time(context, |state, now| {
        for token in tokens {
            let name = GrantName {
                database,
                key,
                token,
            };
            state.sessions.lost(name, LossReason::Expired, now);
        }
    });
    timer::arm(context);
}
