//! The timer of what is due next. The server's timers follow the wall clock, which may be set back; the
//! iterations of the event loop do the same work, ten times a second or more.

use std::time::Duration;

use redis_lock_core::Monotonic;

use super::state::STATE;
use crate::locks::monotonic;
use crate::server::{self, Context};

/// The shortest pause between two slices of work.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Calls `job` at this time, unless it will be called sooner.
pub(super) fn arm(context: Context<'_>, at: Monotonic, job: fn(Context<'_>)) {
    let now = monotonic();
    let at = at.max(now.plus(MIN_PAUSE));
    let before = STATE.with(context, |state| match state.timer {
        // One that is overdue is not trusted.
        Some((_, due)) if due <= at && due >= now => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(before) = before else { return };
    if let Some((timer, _)) = before {
        timer.stop(context);
    }
    let timer = server::call_later(context, at.since(now), job);
    STATE.with(context, |state| state.timer = Some((timer, at)));
}

/// The timer has fired: it must not be stopped. True when it is early by the monotonic clock.
pub(super) fn has_fired(context: Context<'_>) -> bool {
    let fired = STATE.with(context, |state| state.timer.take());
    fired.is_some_and(|(_, due)| due.since(monotonic()) >= MIN_PAUSE / 2)
}
