//! A call begins to wait, or is cancelled.

use std::time::Duration;

use redis_lock_core::keeping::Silence;
use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Acquire, OwnerBuf, Waiter};

use super::answer::{Answer, Wait};
use super::deadlock::Judged;
use super::line::waiting;
use super::serve::{Caller, serve};
use super::state::{Client, STATE};
use super::{deadlock, events, timer};
use crate::locks::{CommandError, max_waiters, max_waiters_total, monotonic};
use crate::server::{Blocked, Context, Text, User};
use crate::statistics::{self, Counter, WaitEnd};

/// Makes the calling client wait for a lock. The error says why it cannot.
pub(crate) fn join(
    context: Context<'_>,
    name: Text<'_>,
    request: &Acquire<'_>,
    names_limit: bool,
    (keep, session): (Option<Silence>, Option<SessionId>),
    wait: Option<Duration>,
) -> Result<(), CommandError> {
    check_limits(context, name)
        .inspect_err(|_| statistics::count(Counter::MaxWaitersRejections))?;
    let judged = deadlock::judge(context, name, request.owner, request.limit);
    if let Judged::Circle(circle) = &judged {
        return Err(deadlock::error(circle));
    }
    let since = monotonic();
    let waiter = Waiter {
        owner: OwnerBuf::from(request.owner),
        lease: request.lease,
        holds: request.holds,
        limit: request.limit,
        keep,
        session,
        names_limit,
        client_id: context.client_id(),
        since,
        until: wait.map(|wait| since.plus(wait)),
    };
    let user = User::to_check_again(context);
    let blocked = Blocked::<Wait>::block(context).ok_or(CommandError::CannotWait)?;
    let client = Client {
        blocked: Some(blocked),
        user,
        socket: None,
    };
    let is_due = STATE.with(context, |state| {
        let database = context.database();
        let id = state.calls.join(database, name.bytes(), waiter, client);
        if matches!(judged, Judged::ByTick) {
            state.to_judge.push(id);
        }
        !state.to_judge.is_empty() || state.calls.ready_len() > 0
    });
    events::follow_clients(context);
    if is_due {
        timer::soon(context);
    } else {
        timer::within(context, wait);
    }
    Ok(())
}

/// Checks that one more call may wait for a lock.
fn check_limits(context: Context<'_>, name: Text<'_>) -> Result<(), CommandError> {
    if waiting(context, name) >= max_waiters() {
        Err(CommandError::TooManyWaiters)
    } else if STATE.if_busy(context, |state| state.calls.len()) >= max_waiters_total() {
        Err(CommandError::TooManyWaitersInAll)
    } else {
        Ok(())
    }
}

/// Ends an owner's waits for a lock with nil, and serves those behind; false when there were none.
pub(crate) fn cancel(context: Context<'_>, name: Text<'_>, owner: &[u8]) -> bool {
    let any = end_waits(context, name, owner);
    if any {
        // Those behind it may have room.
        serve(context, name, Caller::Command);
    }
    any
}

/// Ends an owner's waits for a lock with nil; false when there were none.
pub(super) fn end_waits(context: Context<'_>, name: Text<'_>, owner: &[u8]) -> bool {
    let mut any = false;
    while let Some(blocked) = STATE.if_busy(context, |state| {
        let database = context.database();
        let id = state.calls.first_of(database, name.bytes(), owner)?;
        state.end_wait(context, monotonic(), id, WaitEnd::GivenUp)
    }) {
        blocked.answer(Answer::Nothing);
        any = true;
    }
    any
}
