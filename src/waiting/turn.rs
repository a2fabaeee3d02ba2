//! The call whose turn it is: found, judged and granted the lock.

use redis_lock_core::keeping::{Asked, Keep, check_lease};
use redis_lock_core::sharing::{self, Admitted, Granted, Holders, Room};
use redis_lock_core::{
    Acquire, Deadline, Grant, LockId, Monotonic, PendingGrant, Refusal, Waiter, WaiterId,
};

use super::answer::{Answer, Wait};
use super::of_sessions;
use super::peer::peer_has_closed;
use super::state::{STATE, State};
use crate::keeping::{self, ToKeep};
use crate::locks::{CommandError, max_holders, monotonic, now, rules, with_token_clock};
use crate::server::{Blocked, Context, OwnedText, Text};
use crate::sessions;
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

/// Judges a waiting call whose turn it is.
pub(super) fn admit<'a>(
    context: Context<'_>,
    holders: Option<&Holders<'_>>,
    waiter: &'a Waiter,
) -> Result<Admitted<'a>, Refusal> {
    let request = request(waiter);
    let room = Room {
        max_holders: max_holders(),
        in_line: false,
    };
    with_token_clock(|clock| {
        let (rules, now) = (rules(), now(context));
        sharing::acquire(holders, &request, waiter.limit, room, &rules, now, clock)
    })
}

/// Checks that the lease of a grant that is to be kept, or is kept, is long enough.
pub(super) fn check_kept<'a>(
    context: Context<'_>,
    name: Text<'_>,
    admitted: Admitted<'a>,
    next: &Next,
) -> Result<Admitted<'a>, CommandError> {
    if let Admitted::New(granted, _) | Admitted::Again(granted, _) = &admitted {
        let (grant, keep) = (granted.grant, next.waiter.keep);
        let membership = of_sessions::membership(context, next.id);
        sessions::check_lease(context, name, membership, keep.is_some(), grant)?;
        let is_kept = keeping::is_kept(context, name, grant.token);
        check_lease(keep.map(Keep::For), is_kept, grant.lease)?;
    }
    Ok(admitted)
}

fn request(waiter: &Waiter) -> Acquire<'_> {
    Acquire {
        owner: waiter.owner.as_owner(),
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
    grant: Grant,
    deadline: Deadline,
    before: Option<Grant>,
) -> Option<Blocked<Wait>> {
    let id = next.id;
    let pending = PendingGrant {
        lock_id: lock_id.clone(),
        client_id: next.waiter.client_id,
        token: grant.token,
        took_hold: before.is_none_or(|before| grant.holds > before.holds),
        holds: grant.holds,
        deadline,
    };
    STATE.with(context, |state| {
        let blocked = state.end_wait_at(context, next.now, id, WaitEnd::Granted)?;
        state.pending_grants.add(id, pending, before.is_none());
        Some(blocked)
    })
}

/// Replies the grant to the call.
pub(super) fn send_grant(blocked: Option<Blocked<Wait>>, next: &Next, granted: Granted) {
    if let Some(blocked) = blocked {
        let handle = blocked.handle();
        blocked.answer(Answer::Granted {
            id: next.id,
            handle,
            owner: next.waiter.owner.clone(),
            grant: granted.grant,
            limit: next.waiter.names_limit.then_some(granted.limit),
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
