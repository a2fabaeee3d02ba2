//! Waiting in line: who waits, and the one way in which a lock goes from one owner to the next.
//!
//! Whatever frees a lock only marks its key. [`serve()`] looks at what a marked key holds now, and
//! grants it to whoever is next: from the event loop ([`rounds`]), or inside a command that finds
//! the lock free or frees it. A grant is on its way until its reply is sent ([`wait`]); a caller that
//! is gone by then gives it back.

mod alarm;
mod answer;
mod leaving;
mod news;
mod redirect;
mod rounds;
mod serve;
mod sockets;
mod state;
mod turns;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use redis_lock_core::{Acquire, Heat, OwnerBuf, Token, Waiter};

use crate::locks::{Fault, monotonic, most_waiters, most_waiters_in_all};
use crate::server::{Blocked, Context, Text, User};
use crate::statistics::{self, Counter, WaitEnd};
use answer::{Answer, Wait};
use state::{STATE, place_of};

pub(crate) use news::lost;
pub(crate) use serve::{Caller, hand_over, serve, settle};

/// Starts to listen to what happens to locks and clients.
pub(crate) fn load(context: Context<'_>) {
    news::load(context);
    alarm::load(context, rounds::round);
}

/// The caller asks for a lock. Called first, whatever comes of it.
pub(crate) fn heard(context: Context<'_>) {
    STATE.hear(context);
}

/// Makes the calling client wait for a lock.
///
/// # Errors
///
/// [`Fault::TooManyWaiters`], [`Fault::TooManyWaitersInAll`] or [`Fault::CannotWait`]; then the call
/// does not wait.
pub(crate) fn join(
    context: Context<'_>,
    name: Text<'_>,
    request: &Acquire<'_>,
    wait: Option<Duration>,
) -> Result<(), Fault> {
    check_room(context, name).inspect_err(|_| statistics::count(Counter::MaxWaitersRejections))?;
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
    let blocked = Blocked::<Wait>::block(context).ok_or(Fault::CannotWait)?;
    let database = context.database();
    let known = STATE.with(context, |state| {
        let id = state.queues.join(database, name.bytes(), waiter);
        state.handles.insert(blocked.handle(), id);
        state.blocked.insert(id, blocked);
        state.users.extend(user.map(|user| (id, user)));
        let place = place_of(database, name.bytes());
        let known = state.watch.watches(&place);
        if !known {
            // It is looked at in the next round, which finds out when the lease ends.
            state.marked.insert(place);
        }
        known
    });
    news::follow_clients(context);
    if known {
        alarm::within(context, wait);
    } else {
        alarm::soon(context);
    }
    Ok(())
}

/// Whether one more call may wait for a lock.
fn check_room(context: Context<'_>, name: Text<'_>) -> Result<(), Fault> {
    if waiting(context, name) >= most_waiters() {
        Err(Fault::TooManyWaiters)
    } else if STATE.if_busy(context, |state| state.queues.len()) >= most_waiters_in_all() {
        Err(Fault::TooManyWaitersInAll)
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
pub(crate) fn load_now(context: Context<'_>) -> (usize, usize) {
    STATE.with(context, |state| {
        (state.queues.len(), state.queues.longest())
    })
}

/// The waits that go on for the keys of the caller's database.
pub(crate) fn going_on(context: Context<'_>) -> Vec<(Arc<[u8]>, Heat)> {
    let now = monotonic();
    STATE.with(context, |state| {
        state.queues.going_on(context.database(), now)
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
pub(crate) fn call_off(context: Context<'_>, name: Text<'_>, owner: &[u8]) -> bool {
    let mut any = false;
    while let Some(blocked) = STATE.with(context, |state| {
        let database = context.database();
        let id = state.queues.first_of(database, name.bytes(), owner)?;
        state.leave(context, id, WaitEnd::GivenUp)
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
        if !state.flights.is_empty() {
            let place = place_of(context.database(), name.bytes());
            state.flights.answer(&place);
        }
    });
}

/// The grant's token was raised: what is on its way belongs to it all the same.
pub(crate) fn raised(context: Context<'_>, name: Text<'_>, from: Token, to: Token) {
    STATE.with(context, |state| {
        if from != to && !state.flights.is_empty() {
            let place = place_of(context.database(), name.bytes());
            state.flights.raise(&place, from, to);
        }
    });
}
