//! Finds the next call in line, and grants it the lock.

use redis_lock_core::{CallId, Grant, Granted, LockId, Monotonic, Taken, Waiter};

use super::answer::{Answer, LockWait};
use super::disconnect_check::has_disconnected;
use super::pass_over::{Program, program_of};
use super::state::{STATE, State, recipient_of};
use crate::locks::monotonic;
use crate::server::{Blocked, Context, OwnedText, Text};
use crate::sessions::NO_SESSION;
use crate::statistics::{self, Counter, WaitEnd};

/// The call that gets the lock next.
pub(super) struct Next {
    pub(super) id: CallId,
    pub(super) waiter: Waiter,
    /// When the call was chosen.
    pub(super) now: Monotonic,
}

/// Whose turn it is.
pub(super) enum Turn {
    Nobodys,
    Call(Next),
    /// Not known until the server has caught up, or the calls of a session are updated.
    Unknown,
}

/// Returns the first call that `first` finds and that can be granted.
///
/// Ends the waits of the calls before it that can no longer be granted: they have timed out, their session has ended,
/// or their client has disconnected.
pub(super) fn next_call(
    context: Context<'_>,
    first: impl Fn(&mut State) -> Option<CallId>,
) -> Turn {
    loop {
        let found = STATE.if_busy(context, |state| {
            let id = first(state)?;
            let call = state.calls.get(id)?;
            let next = Next {
                id,
                waiter: call.waiter.clone(),
                now: monotonic(),
            };
            let LockId { database, key } = &call.lock_id;
            let (calls, changes) = (&state.calls, &state.presence_changes);
            // Not sure while a session with calls in this line is only partly updated. Not sure either while the server
            // catches up after a stall and an earlier call is passed over: the server may be about to read a POLL of
            // the program of that call.
            let is_surely_next = !changes.concern(calls, *database, key)
                && (!STATE.stalls.is_catching_up(next.now) || {
                    let before = calls.first_passed_over(*database, key);
                    before.is_none_or(|before| id < before)
                });
            Some((next, is_surely_next))
        });
        let Some((next, is_surely_next)) = found else {
            return Turn::Nobodys;
        };
        if !is_surely_next {
            return Turn::Unknown;
        }
        let (end, answer) = match look_at(context, &next) {
            Look::Here => return Turn::Call(next),
            Look::PassedOver => continue,
            Look::Ends(end, answer) => (end, answer),
        };
        let ended = STATE.with(context, |state| {
            state.end_wait(context, next.now, next.id, end)
        });
        if let Some(recipient) = ended {
            recipient.answer(context, answer);
        }
    }
}

/// The next step for a call whose turn it is.
enum Look {
    Here,
    PassedOver,
    Ends(WaitEnd, Answer),
}

fn look_at(context: Context<'_>, next: &Next) -> Look {
    let Next { waiter, now, .. } = next;
    if waiter.until.is_some_and(|until| until <= *now) {
        return Look::Ends(WaitEnd::TimeOut, Answer::TimedOut);
    }
    if let Some(client) = waiter.client_id
        && STATE.stalls.is_stalled(*now)
        && has_disconnected(context, client)
    {
        return Look::Ends(WaitEnd::GivenUp, Answer::Cancelled);
    }
    match waiter.session.map(|session| program_of(context, session)) {
        None | Some(Program::Here) => Look::Here,
        Some(Program::Away) => Look::PassedOver,
        Some(Program::Gone) => Look::Ends(WaitEnd::Refused, Answer::Error(NO_SESSION)),
    }
}

/// Counts a grant to a waiting call.
pub(super) fn count_grant(is_new: bool) {
    if is_new {
        statistics::count(Counter::Grants);
        statistics::count(Counter::HandOffs);
    } else {
        statistics::count(Counter::Reentries);
    }
}

/// A blocked client that was granted a lock but not answered yet; empty for a queued call.
#[must_use]
pub(super) struct ToAnswer(Option<(Blocked<LockWait>, Answer)>);

impl ToAnswer {
    /// Passes the answer to the server.
    pub(super) fn send(self) {
        if let Some((blocked, answer)) = self.0 {
            blocked.answer(answer);
        }
    }
}

/// Moves the call from its line to the granted calls. The event for a queued call is reported here.
///
/// Must be called before the change is announced. A listener may then disconnect the client, whose grant must be given
/// back, or free the lock, which must go to the next call. A session must get the grant before the loss of it.
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
    let ended = |lock_id: &LockId| {
        statistics::wait_ended(context, next.now, lock_id, waiter.since, WaitEnd::Granted);
    };
    let answer = Answer::Granted {
        owner: waiter.owner.clone(),
        grant: holder.grant,
        limit: holder.limit,
        names_limit: waiter.names_limit,
    };
    if waiter.is_queued() {
        let recipient = STATE.with(context, |state| {
            let call = state.calls.grant_queued(next.id, token)?;
            ended(&call.lock_id);
            recipient_of(call)
        });
        if let Some(recipient) = recipient {
            recipient.answer(context, answer);
        }
        return ToAnswer(None);
    }
    let blocked = STATE.with(context, |state| {
        let call = state.calls.grant(next.id, taken, before.is_none())?;
        ended(&call.lock_id);
        call.attached.blocked.take()
    });
    ToAnswer(blocked.map(|blocked| (blocked, answer)))
}

/// Returns true if the user of a waiting call may still acquire the lock. Servers that do not check the rights of their
/// own blocked commands again always get true.
pub(super) fn may_acquire(context: Context<'_>, name: Text<'_>, id: CallId) -> bool {
    let Some(user) = STATE.with(context, |state| state.calls.get(id)?.attached.user.clone()) else {
        return true;
    };
    let (command, owner) = (OwnedText::new(b"LOCK.ACQUIRE"), OwnedText::new(b"*"));
    user.may_run(context, &[command.text(), name, owner.text()])
}
