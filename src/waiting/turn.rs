//! The call whose turn it is: found, judged and granted the lock.

use redis_lock_core::keeping::{Asked, Keep, check_lease};
use redis_lock_core::{
    Acquire, Grant, Granted, Holder, Holders, LockId, Monotonic, PendingGrant, Waiter, WaiterId,
};

use super::answer::{Answer, Wait};
use super::of_sessions;
use super::peer::peer_has_closed;
use super::state::{STATE, State};
use crate::keeping::{self, ToKeep};
use crate::locks::{CommandError, monotonic, now, rules, with_token_clock};
use crate::server::{Blocked, Context, OwnedText, Text};
use crate::sessions::{self, Membership};
use crate::statistics::{self, Counter, WaitEnd};

/// The call that a lock is granted to next.
pub(super) struct Next {
    pub(super) id: WaiterId,
    pub(super) waiter: Waiter,
    /// The time when it was chosen.
    pub(super) now: Monotonic,
}

/// The call that `first` finds. Ends the waits of calls that may not be granted any more: their time is
/// up, or their client has disconnected and the server has not noticed.
pub(super) fn next_call(
    context: Context<'_>,
    first: impl Fn(&mut State) -> Option<WaiterId>,
) -> Option<Next> {
    loop {
        let (next, stalled) = STATE.if_busy(context, |state| {
            let id = first(state)?;
            let now = monotonic();
            let next = Next {
                id,
                waiter: state.queues.get(id)?.clone(),
                now,
            };
            Some((next, STATE.stalls.is_stalled(now)))
        })?;
        let end = if next.waiter.until.is_some_and(|until| until <= next.now) {
            WaitEnd::TimeOut
        } else if stalled && peer_has_closed(context, next.id, next.waiter.client_id) {
            WaitEnd::GivenUp
        } else {
            return Some(next);
        };
        let ended = STATE.with(context, |state| {
            state.end_wait_at(context, next.now, next.id, end)
        });
        if let Some(blocked) = ended {
            blocked.answer(Answer::Nothing);
        }
    }
}

/// Judges an acquire; `None` when there is no room, or somebody waits and the caller is no holder.
#[inline]
pub(super) fn admit<'a>(
    context: Context<'_>,
    name: Text<'_>,
    holders: Option<&Holders<'_>>,
    request: &Acquire<'a>,
    in_line: bool,
    keep: Option<Keep>,
    membership: Membership,
) -> Result<Option<Granted<'a>>, CommandError> {
    let (rules, now) = (rules(), now(context));
    with_token_clock(|clock| {
        let granted = redis_lock_core::acquire(holders, request, in_line, &rules, now, clock)?;
        if let Some(granted) = &granted {
            check_renewal(context, name, keep, membership, granted)?;
        }
        Ok(granted)
    })
}

/// Checks that a grant that the server renews has a lease that is long enough: the last check of all.
pub(super) fn check_renewal(
    context: Context<'_>,
    name: Text<'_>,
    keep: Option<Keep>,
    membership: Membership,
    granted: &Granted<'_>,
) -> Result<(), CommandError> {
    let keeps = matches!(keep, Some(Keep::For(_)));
    sessions::check(context, name, membership, keeps, granted.holder.grant)?;
    if keep.is_none() && !keeping::any() {
        return Ok(());
    }
    let Grant { token, lease, .. } = granted.holder.grant;
    let is_kept = keeping::is_kept(context, name, token);
    Ok(check_lease(keep, is_kept, lease)?)
}

/// Judges a waiting call whose turn it is.
pub(super) fn admit_waiter<'a>(
    context: Context<'_>,
    name: Text<'_>,
    holders: Option<&Holders<'_>>,
    next: &'a Next,
) -> Result<Option<Granted<'a>>, CommandError> {
    let keep = next.waiter.keep.map(Keep::For);
    let request = request(&next.waiter);
    let membership = of_sessions::membership(context, next.id);
    admit(context, name, holders, &request, false, keep, membership)
}

fn request(waiter: &Waiter) -> Acquire<'_> {
    Acquire {
        owner: waiter.owner.as_owner(),
        limit: waiter.limit,
        lease: waiter.lease,
        holds: waiter.holds,
        token: None,
    }
}

/// Counts the grant to a waiting call.
pub(super) fn count_grant(is_new: bool) {
    if is_new {
        statistics::count(Counter::Grants);
        statistics::count(Counter::HandOffs);
    } else {
        statistics::count(Counter::Reentries);
    }
}

/// Whether the client of a waiting call keeps the grant.
pub(super) fn to_keep(waiter: &Waiter) -> ToKeep {
    let silence = waiter.keep?;
    Some((Keep::For(silence), Asked::Acquire, waiter.client_id))
}

/// Moves the call from its queue to the pending grants. Called before the key is written and the change
/// announced: a listener may then kill the client, whose grant is given back, or free the lock, which goes
/// to the next call.
pub(super) fn make_pending(
    context: Context<'_>,
    lock_id: &LockId,
    next: &Next,
    granted: &Granted<'_>,
) -> Option<Blocked<Wait>> {
    let id = next.id;
    let Granted { before, holder, .. } = granted;
    let Grant { token, holds, .. } = holder.grant;
    let pending = PendingGrant {
        lock_id: lock_id.clone(),
        client_id: next.waiter.client_id,
        token,
        took_hold: before.is_none_or(|before| holds > before.holds),
        holds,
        deadline: holder.end,
    };
    STATE.with(context, |state| {
        let blocked = state.end_wait_at(context, next.now, id, WaitEnd::Granted)?;
        state.pending_grants.add(id, pending, before.is_none());
        Some(blocked)
    })
}

/// Replies the grant to the call.
pub(super) fn send_grant(blocked: Option<Blocked<Wait>>, next: &Next, holder: &Holder<'_>) {
    if let Some(blocked) = blocked {
        let handle = blocked.handle();
        blocked.answer(Answer::Granted {
            id: next.id,
            handle,
            owner: next.waiter.owner.clone(),
            grant: holder.grant,
            limit: next.waiter.names_limit.then_some(holder.limit),
        });
    }
}

/// True when the user of a waiting call may still acquire the lock. Checked only on servers that check
/// their own blocked commands again.
pub(super) fn may_acquire(context: Context<'_>, name: Text<'_>, id: WaiterId) -> bool {
    let Some(user) = STATE.with(context, |state| state.users.get(&id).cloned()) else {
        return true;
    };
    let (command, owner) = (OwnedText::new(b"LOCK.ACQUIRE"), OwnedText::new(b"*"));
    user.may_run(context, &[command.text(), name, owner.text()])
}
