//! The timer of what is due next. The server's timers follow the wall clock, which may be set back: the server's cron
//! looks after one that is overdue.

use std::time::Duration;

use redis_lock_core::Monotonic;

use super::state::STATE;
use super::work;
use crate::locks::monotonic;
use crate::server::{self, Context};

/// A timer that is later than this is overdue.
const OVERDUE: Duration = Duration::from_millis(2);

/// Calls the work at this time, unless it will be called sooner.
pub(super) fn arm(context: Context<'_>, at: Monotonic) {
    let now = monotonic();
    let before = STATE.with(context, |state| match state.timer {
        Some((_, due)) if due <= at.max(now) => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(before) = before else { return };
    if let Some((timer, _)) = before {
        timer.stop(context);
    }
    let timer = server::call_later(context, at.since(now), fire);
    STATE.with(context, |state| state.timer = Some((timer, at.max(now))));
}

/// Calls it in the next iteration of the event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Monotonic(0));
}

fn fire(context: Context<'_>) {
    // A timer that has fired must not be stopped.
    STATE.with(context, |state| state.timer = None);
    work::work(context);
}

/// Starts the timer again where it is overdue.
pub(super) fn check_overdue(context: Context<'_>) {
    let now = monotonic();
    let overdue = STATE.with(context, |state| {
        // It is not being done here, but may have ended by a panic.
        state.at_work = false;
        match state.timer {
            Some((_, due)) if now.since(due) > OVERDUE => state.timer.take(),
            _ => None,
        }
    });
    if let Some((timer, _)) = overdue {
        timer.stop(context);
    }
    work::arm(context);
}
