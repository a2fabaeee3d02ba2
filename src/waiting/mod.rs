//! Waiting in line: who waits, and the one way in which a lock goes from one owner to the next.
//!
//! Whatever may have freed a lock only notes its key. [`serve()`] looks at what such a key holds now,
//! and grants it to whoever is next: from the event loop ([`mod@tick`]), or inside a command that finds
//! the lock free or frees it. A grant is pending until its reply is sent ([`wait`]); a caller that
//! is gone by then gives it back.

mod answer;
mod cluster_nodes;
mod events;
mod redirection;
mod serve;
mod sockets;
mod stall_detector;
mod state;
mod tick;
mod timer;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use redis_lock_core::{Acquire, LockId, OwnerBuf, QueueWaits, Token, Waiter};

use crate::locks::{CommandError, max_waiters, max_waiters_total, monotonic};
use crate::server::{Blocked, Context, Text, User};
use crate::statistics::{self, Counter, WaitEnd};
use answer::{Answer, Wait};
use state::STATE;

pub(crate) use events::lock_lost;
pub(crate) use serve::{Caller, hand_over, serve, settle};

/// Starts to listen to what happens to locks and clients.
pub(crate) fn load(context: Context<'_>) {
    events::load(context);
    timer::load(context, tick::tick);
}

/// The caller asks for a lock: whether the reply before was sent cannot be found out any more. Called
/// first, whatever comes of it.
pub(crate) fn forget_unconfirmed(context: Context<'_>) {
    STATE.forget_unconfirmed(context);
}

/// Makes the calling client wait for a lock.
///
/// # Errors
///
/// [`CommandError::TooManyWaiters`], [`CommandError::TooManyWaitersInAll`] or [`CommandError::CannotWait`]; then the call
/// does not wait.
pub(crate) fn join(
    context: Context<'_>,
    name: Text<'_>,
    request: &Acquire<'_>,
    wait: Option<Duration>,
) -> Result<(), CommandError> {
    check_limits(context, name)
        .inspect_err(|_| statistics::count(Counter::MaxWaitersRejections))?;
    let since = monotonic();
    let waiter = Waiter {
        owner: OwnerBuf::from(request.owner),
        lease: request.lease,
        holds: request.holds,
        client_id: context.client_id(),
        since,
        until: wait.map(|wait| since.plus(wait)),
    };
    let user = User::to_ask_again(context);
    let blocked = Blocked::<Wait>::block(context).ok_or(CommandError::CannotWait)?;
    let database = context.database();
    let known = STATE.with(context, |state| {
        let id = state.queues.join(database, name.bytes(), waiter);
        state.handles.insert(blocked.handle(), id);
        state.blocked.insert(id, blocked);
        state.users.extend(user.map(|user| (id, user)));
        let lock_id = LockId::new(database, name.bytes());
        let known = state.lease_watch.contains(&lock_id);
        if !known {
            // It is served in the next tick, which finds out when the lease ends.
            state.maybe_free.insert(lock_id);
        }
        known
    });
    events::follow_clients(context);
    if known {
        timer::within(context, wait);
    } else {
        timer::soon(context);
    }
    Ok(())
}

/// Whether one more call may wait for a lock.
fn check_limits(context: Context<'_>, name: Text<'_>) -> Result<(), CommandError> {
    if waiting(context, name) >= max_waiters() {
        Err(CommandError::TooManyWaiters)
    } else if STATE.if_busy(context, |state| state.queues.len()) >= max_waiters_total() {
        Err(CommandError::TooManyWaitersInAll)
    } else {
        Ok(())
    }
}

/// How many calls wait for a lock.
pub(crate) fn waiting(context: Context<'_>, name: Text<'_>) -> usize {
    STATE.if_busy(context, |state| {
        state.queues.waiting(context.database(), name.bytes())
    })
}

/// How many calls wait for all locks, and for the one with the most.
pub(crate) fn queue_sizes(context: Context<'_>) -> (usize, usize) {
    STATE.with(context, |state| {
        (state.queues.len(), state.queues.max_waiting())
    })
}

/// The waits for the keys of the caller's database, as they stand now.
pub(crate) fn ongoing_waits(context: Context<'_>) -> Vec<(Arc<[u8]>, QueueWaits)> {
    STATE.with(context, |state| {
        let waits = state.queues.waits(context.database());
        waits.map(|(key, waits)| (Arc::clone(key), waits)).collect()
    })
}

/// The first calls that wait for a lock, in the order of the queue.
pub(crate) fn waiters(context: Context<'_>, name: Text<'_>, most: usize) -> Vec<Waiter> {
    STATE.with(context, |state| {
        state
            .queues
            .iter(context.database(), name.bytes())
            .take(most)
            .map(|(_, waiter)| waiter.clone())
            .collect()
    })
}

/// Ends the waits of an owner for a lock, with nil; false when there was none.
pub(crate) fn cancel(context: Context<'_>, name: Text<'_>, owner: &[u8]) -> bool {
    let mut any = false;
    while let Some(blocked) = STATE.with(context, |state| {
        let database = context.database();
        let id = state.queues.first_of(database, name.bytes(), owner)?;
        state.end_wait(context, id, WaitEnd::GivenUp)
    }) {
        blocked.answer(Answer::Nothing);
        any = true;
    }
    any
}

/// The owner was answered directly: its grant is known to it, whatever becomes of its waiting
/// calls.
pub(crate) fn answered(context: Context<'_>, name: Text<'_>) {
    STATE.if_busy(context, |state| {
        if !state.pending_grants.is_empty() {
            let lock_id = LockId::new(context.database(), name.bytes());
            state.pending_grants.owner_answered(&lock_id);
        }
    });
}

/// The grant's token was raised: calls whose grant is pending belong to it all the same.
pub(crate) fn raised(context: Context<'_>, name: Text<'_>, from: Token, to: Token) {
    STATE.with(context, |state| {
        if from != to && !state.pending_grants.is_empty() {
            let lock_id = LockId::new(context.database(), name.bytes());
            state.pending_grants.raise(&lock_id, from, to);
        }
    });
}
