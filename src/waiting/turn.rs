//! The call whose turn it is: found, and granted the lock.

use redis_lock_core::{CallId, Grant, Granted, Monotonic, Taken, Waiter};

use super::answer::{Answer, Wait};
use super::disconnect_check::has_disconnected;
use super::state::{STATE, State};
use crate::locks::monotonic;
use crate::server::{Blocked, Context, OwnedText, Text};
use crate::statistics::{self, Counter, WaitEnd};

/// The call that a lock is granted to next.
pub(super) struct Next {
    pub(super) id: CallId,
    pub(super) waiter: Waiter,
    /// The time when it was chosen.
    pub(super) now: Monotonic,
}

/// The call that `first` finds. Ends the waits of calls that may not be granted any more: their time is
/// up, or their client has disconnected and the server has not noticed.
pub(super) fn next_call(
    context: Context<'_>,
    first: impl Fn(&mut State) -> Option<CallId>,
) -> Option<Next> {
    loop {
        let (next, stalled) = STATE.if_busy(context, |state| {
            let id = first(state)?;
            let now = monotonic();
            let next = Next {
                id,
                waiter: state.calls.get(id)?.waiter.clone(),
                now,
            };
            Some((next, STATE.stalls.is_stalled(now)))
        })?;
        let end = if next.waiter.until.is_some_and(|until| until <= next.now) {
            WaitEnd::TimeOut
        } else if stalled && has_disconnected(context, next.waiter.client_id) {
            WaitEnd::GivenUp
        } else {
            return Some(next);
        };
        let ended = STATE.with(context, |state| {
            state.end_wait(context, next.now, next.id, end)
        });
        if let Some(blocked) = ended {
            blocked.answer(Answer::Nothing);
        }
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

/// A call that is granted a lock and not answered yet.
#[must_use]
pub(super) struct ToAnswer(Option<Blocked<Wait>>, Answer);

impl ToAnswer {
    /// Passes the reply to the server.
    pub(super) fn send(self) {
        if let Some(blocked) = self.0 {
            blocked.answer(self.1);
        }
    }
}

/// Moves the call from its line to the granted calls. Done before the key is written and the change
/// announced: a listener may then disconnect the client, whose grant is given back, or free the lock, which
/// goes to the next call.
pub(super) fn grant(context: Context<'_>, next: &Next, granted: &Granted<'_>) -> ToAnswer {
    let Granted { before, holder, .. } = granted;
    let Grant { token, holds, .. } = holder.grant;
    let taken = Taken {
        token,
        took_hold: before.is_none_or(|before| holds > before.holds),
        holds,
        deadline: holder.end,
    };
    let waiter = &next.waiter;
    let blocked = STATE.with(context, |state| {
        let call = state.calls.grant(next.id, taken, before.is_none())?;
        let (lock_id, since) = (&call.lock_id, waiter.since);
        statistics::wait_ended(context, next.now, lock_id, since, WaitEnd::Granted);
        call.attached.blocked.take()
    });
    let answer = Answer::Granted {
        owner: waiter.owner.clone(),
        grant: holder.grant,
        limit: waiter.names_limit.then_some(holder.limit),
    };
    ToAnswer(blocked, answer)
}

/// True when the user of a waiting call may still acquire the lock. Checked only on servers that check
/// their own blocked commands again.
pub(super) fn may_acquire(context: Context<'_>, name: Text<'_>, id: CallId) -> bool {
    let Some(user) = STATE.with(context, |state| state.calls.get(id)?.attached.user.clone()) else {
        return true;
    };
    let (command, owner) = (OwnedText::new(b"LOCK.ACQUIRE"), OwnedText::new(b"*"));
    user.may_run(context, &[command.text(), name, owner.text()])
}
