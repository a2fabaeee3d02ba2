//! Who stands in line: calls that begin to wait, that are cancelled, and that are told of.

use std::sync::Arc;
use std::time::Duration;

use redis_lock_core::{Acquire, LockId, OwnerBuf, QueueWaits, Waiter};

use super::answer::{Answer, Wait};
use super::state::STATE;
use super::{events, timer};
use crate::locks::{CommandError, max_waiters, max_waiters_total, monotonic};
use crate::server::{Blocked, Context, Text, User};
use crate::statistics::{self, Counter, WaitEnd};

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
