//! Adds a call to the line of a lock, and cancels the waits of an owner.

use std::time::Duration;

use redis_lock_core::sessions::{Presence, SessionId};
use redis_lock_core::{Acquire, Holds, Owner, OwnerBuf, Refusal, Waiter};

use super::answer::{Answer, LockWait};
use super::deadlock::Verdict;
use super::line::waiting;
use super::serve::{Caller, serve};
use super::state::{Client, STATE};
use super::{deadlock, events, timer};
use crate::locks::{CommandError, max_queued, max_waiters, max_waiters_total, monotonic};
use crate::server::{Blocked, Context, Text, User};
use crate::sessions;
use crate::statistics::{self, Counter, WaitEnd};

/// How a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitOptions {
    /// The call blocks no client. Its session gets an event when the wait ends.
    pub(crate) is_queued: bool,
    /// The timeout; `None` for no timeout.
    pub(crate) longest: Option<Duration>,
    pub(crate) names_limit: bool,
    pub(crate) session: Option<SessionId>,
}

/// Adds a call to the line of a lock. Returns its place, which is the number of calls before it, or the reason why it
/// cannot wait.
pub(crate) fn join(
    context: Context<'_>,
    name: Text<'_>,
    request: &Acquire<'_>,
    options: &WaitOptions,
) -> Result<usize, CommandError> {
    if options
        .session
        .is_some_and(|id| sessions::is_full(context, id))
    {
        return Err(Refusal::SessionFull.into());
    }
    check_limits(context, name, options.is_queued)
        .inspect_err(|_| statistics::count(Counter::MaxWaitersRejections))?;
    let verdict = deadlock::check(context, name, request.owner, request.limit);
    if let Verdict::Cycle(cycle) = &verdict {
        return Err(deadlock::error(cycle));
    }
    let since = monotonic();
    let waiter = Waiter {
        owner: OwnerBuf::from(request.owner),
        lease: request.lease,
        holds: request.holds,
        limit: request.limit,
        session: options.session,
        names_limit: options.names_limit,
        client_id: (!options.is_queued).then(|| context.client_id()),
        since,
        until: options.longest.map(|longest| since.plus(longest)),
    };
    let user = User::to_check_again(context);
    let blocked = if options.is_queued {
        None
    } else {
        Some(Blocked::<LockWait>::block(context).ok_or(CommandError::CannotWait)?)
    };
    let client = Client {
        blocked,
        user,
        socket: None,
    };
    let is_away = options
        .session
        .is_some_and(|session| sessions::presence(context, session) == Presence::Away);
    let (place, is_due) = STATE.with(context, |state| {
        let database = context.database();
        let id = state.calls.join(database, name.bytes(), waiter, client);
        if is_away {
            state.calls.pass_call_over(id, true);
        }
        if matches!(verdict, Verdict::ByTick) {
            state.to_check.push(id);
        }
        let is_due = !state.to_check.is_empty() || state.calls.ready_len() > 0;
        (state.calls.place(id), is_due)
    });
    events::follow_clients(context);
    if is_due {
        timer::soon(context);
    } else {
        timer::within(context, options.longest);
    }
    Ok(place.unwrap_or(0))
}

/// Checks the limits on waiting calls for one more call.
fn check_limits(context: Context<'_>, name: Text<'_>, is_queued: bool) -> Result<(), CommandError> {
    let (all, queued) = STATE.if_busy(context, |state| (state.calls.len(), state.calls.queued()));
    if waiting(context, name) >= max_waiters() {
        Err(CommandError::TooManyWaiters)
    } else if is_queued && queued >= max_queued() {
        Err(CommandError::TooManyQueued)
    } else if !is_queued && all - queued >= max_waiters_total() {
        Err(CommandError::TooManyWaitersInAll)
    } else {
        Ok(())
    }
}

/// The place of the queued call that this call repeats, if there is one.
pub(crate) fn place_of_repeated(
    context: Context<'_>,
    name: Text<'_>,
    owner: Owner<'_>,
    (session, holds): (SessionId, Holds),
) -> Option<usize> {
    STATE.if_busy(context, |state| {
        let (calls, database) = (&state.calls, context.database());
        let of = (session, holds);
        let id = calls.repeated(database, name.bytes(), owner.bytes(), of)?;
        calls.place(id)
    })
}

/// Ends an owner's waits for a lock with nil, and serves the calls behind them. Returns false if the owner had no
/// waits.
#[cold]
pub(crate) fn cancel(context: Context<'_>, name: Text<'_>, owner: &[u8]) -> bool {
    let any = end_waits(context, name, owner);
    if any {
        // Calls behind them may have room now.
        serve(context, name, Caller::Command);
    }
    any
}

/// Ends an owner's waits for a lock with nil. Returns false if the owner had no waits.
#[inline(never)]
pub(super) fn end_waits(context: Context<'_>, name: Text<'_>, owner: &[u8]) -> bool {
    let mut any = false;
    while let Some(recipient) = STATE.if_busy(context, |state| {
        let database = context.database();
        let id = state.calls.first_of(database, name.bytes(), owner)?;
        state.end_wait(context, monotonic(), id, WaitEnd::GivenUp)
    }) {
        recipient.answer(context, Answer::Cancelled);
        any = true;
    }
    any
}
