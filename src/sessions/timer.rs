//! The timer that runs the work of the sessions.
//!
//! The server's timers follow the wall clock, which may be set back. So the server's cron restarts an overdue timer.

use std::sync::OnceLock;
use std::time::Duration;

use redis_lock_core::Monotonic;

use super::state::{STATE, this_moment};
use crate::locks::monotonic;
use crate::server::{self, Context};

/// A timer that is late by more than this is overdue.
const OVERDUE: Duration = Duration::from_millis(2);
/// The pause between two slices of work. A timer of 0 ms that a timer arms fires before the server serves its clients.
const PAUSE: Duration = Duration::from_millis(1);
/// The pause before the next attempt while the server refuses writes.
const RETRY: Duration = Duration::from_millis(8);
/// The longest pause while a session is open. It is short, so that a stall of the server is noticed.
const MAX_PAUSE: Duration = Duration::from_millis(50);

static WORK: OnceLock<fn(Context<'_>)> = OnceLock::new();

/// Sets the work that the timer runs.
pub(super) fn load(work: fn(Context<'_>)) {
    WORK.get_or_init(|| work);
}

/// Arms the timer for the next due work. The timer's own work arms it when it ends.
pub(super) fn arm(context: Context<'_>) {
    arm_after(context, Duration::ZERO);
}

/// Like [`arm`], but cheaper. Only for use when nothing has changed except waiting POLLs and the timeouts of sessions;
/// the timer fires before those anyway.
pub(super) fn arm_for_polls(context: Context<'_>) {
    let is_sooner = STATE.with(context, |state| {
        let poll = state.sessions.next_poll_at().filter(|_| !state.has_answers);
        let timer = state.timer.as_ref();
        timer.is_none_or(|(_, due)| poll.is_some_and(|at| at < *due))
    });
    if is_sooner {
        arm(context);
    }
}

fn arm_after(context: Context<'_>, pause: Duration) {
    let now = this_moment(context);
    let next = STATE.with(context, |state| {
        if state.is_idle() || state.at_work {
            return None;
        }
        let sessions = &mut state.sessions;
        sessions.file_grants();
        let writes = if sessions.has_to_release() {
            Some(now.monotonic.plus(PAUSE))
        } else {
            sessions.next_due_at()
        };
        let earliest = if state.writes_blocked {
            RETRY
        } else {
            Duration::ZERO
        };
        let writes = writes.map(|at| at.max(now.monotonic.plus(earliest)));
        let end = sessions.next_end_at().map(|end| {
            // The server expires a key one millisecond after its deadline.
            let left = (end + 1).saturating_sub(now.unix.millis());
            now.monotonic.plus(Duration::from_millis(left))
        });
        let next = [
            sessions.has_flushed().then_some(now.monotonic),
            writes,
            end,
            sessions.next_timeout_at(),
            // POLLs with answers are answered at the end of this iteration, without the timer.
            sessions.next_poll_at().filter(|_| !state.has_answers),
        ];
        let latest = now.monotonic.plus(MAX_PAUSE);
        Some(next.into_iter().flatten().fold(latest, Monotonic::min))
    });
    if let Some(at) = next {
        arm_at(context, at.max(now.monotonic.plus(pause)));
    }
}

/// Arms the timer for the next iteration of the event loop.
pub(super) fn soon(context: Context<'_>) {
    arm_at(context, Monotonic(0));
}

/// Arms the timer for this time, unless it is armed for an earlier time.
fn arm_at(context: Context<'_>, at: Monotonic) {
    let now = monotonic();
    let at = at.max(now);
    let before = STATE.with(context, |state| match state.timer {
        Some((_, due)) if due <= at => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(before) = before else { return };
    if let Some((timer, _)) = before {
        timer.stop(context);
    }
    let timer = server::call_later(context, at.since(now), fire);
    STATE.with(context, |state| state.timer = Some((timer, at)));
}

fn fire(context: Context<'_>) {
    let is_early = STATE.with(context, |state| {
        // Take the timer out of the state, because a timer that has fired must not be stopped.
        let fired = state.timer.take();
        let is_early = fired.is_some_and(|(_, due)| due.since(monotonic()) >= PAUSE / 2);
        state.at_work = !is_early;
        is_early
    });
    if is_early {
        // The wall clock was changed. The cron arms the timer again (see `server::call_later`).
        return;
    }
    if let Some(work) = WORK.get() {
        work(context);
    }
    STATE.with(context, |state| state.at_work = false);
    arm_after(context, PAUSE);
}

/// Restarts the timer if it is overdue.
pub(super) fn check_overdue(context: Context<'_>) {
    let now = monotonic();
    let overdue = STATE.with(context, |state| {
        // The cron never runs during the work. But work that panicked has left the flag set.
        state.at_work = false;
        match state.timer {
            Some((_, due)) if now.since(due) > OVERDUE => state.timer.take(),
            _ => None,
        }
    });
    if let Some((timer, _)) = overdue {
        timer.stop(context);
    }
    arm(context);
}
