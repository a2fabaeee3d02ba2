//! The timer that starts ticks.
//!
//! The server's timers follow the wall clock, which may be set back. So the server's cron checks the timer against the
//! monotonic clock, and starts a tick that is overdue.

use std::sync::OnceLock;
use std::time::Duration;

use super::stall_detector::MAX_PAUSE;
use super::state::STATE;
use crate::locks::{monotonic, now};
use crate::server::{self, Context, ServerEvent};

/// A tick that is late by more than this is overdue, because the wall clock was set back. A wait may time out late by
/// this plus the period of the cron.
const OVERDUE: Duration = Duration::from_millis(2);

/// A timer that fires early by more than this shows that the wall clock was changed.
const EARLY: Duration = Duration::from_micros(500);

/// The shortest time between two ticks. A timer of 0 ms that a timer arms fires before the server serves its clients.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Runs a tick. Returns the delay until the next one, if one is needed.
pub(super) type Tick = fn(Context<'_>) -> Option<Duration>;

static TICK: OnceLock<Tick> = OnceLock::new();

/// Sets the tick, and subscribes to the cron.
pub(super) fn load(context: Context<'_>, tick: Tick) {
    TICK.get_or_init(|| tick);
    server::subscribe(context, ServerEvent::Cron, check_overdue);
}

/// Arms a tick for the next iteration of the event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Duration::ZERO);
}

/// Arms a tick for the end of a wait, but at most [`MAX_PAUSE`] from now.
pub(super) fn within(context: Context<'_>, wait: Option<Duration>) {
    arm(context, wait.map_or(MAX_PAUSE, |wait| wait.min(MAX_PAUSE)));
}

/// Arms a tick for the end of a lease, in milliseconds since 1970.
pub(super) fn at_end(context: Context<'_>, end: u64) {
    within(context, Some(until_end(context, end)));
}

/// The time until a lease that ends at `end` is over. The server expires a key one millisecond after its deadline.
pub(super) fn until_end(context: Context<'_>, end: u64) -> Duration {
    Duration::from_millis((end + 1).saturating_sub(now(context).millis()))
}

/// Arms a tick after `delay`, unless an earlier one is armed. A running tick arms the next one itself.
pub(super) fn arm(context: Context<'_>, delay: Duration) {
    let due = monotonic().plus(delay);
    let before = STATE.with(context, |state| match state.timer {
        Some((_, armed)) if armed <= due => Err(()),
        _ if state.in_tick => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(before) = before else { return };
    if let Some((timer, _)) = before {
        timer.stop(context);
    }
    let timer = server::call_later(context, delay, fire);
    STATE.with(context, |state| state.timer = Some((timer, due)));
}

fn fire(context: Context<'_>) {
    // Take the timer out of the state, because a timer that has fired must not be stopped.
    let due = STATE.with(context, |state| {
        state.in_tick = true;
        state.timer.take().map(|(_, due)| due)
    });
    let is_early = due.is_some_and(|due| due.since(monotonic()) > EARLY);
    let next = TICK.get().and_then(|tick| tick(context));
    STATE.with(context, |state| state.in_tick = false);
    // After an early tick the cron arms the next one (see `server::call_later`).
    if let Some(delay) = next
        && !is_early
    {
        arm(context, delay.max(MIN_PAUSE));
    }
}

fn check_overdue(context: Context<'_>) {
    let (overdue, missing) = STATE.with(context, |state| {
        // The cron never runs during a tick. But a tick that panicked has left the flag set.
        state.in_tick = false;
        match state.timer {
            Some((_, due)) if monotonic().since(due) > OVERDUE => (state.timer.take(), false),
            Some(_) => (None, false),
            None => (None, !state.calls.is_idle()),
        }
    });
    if let Some((timer, _)) = overdue {
        timer.stop(context);
        soon(context);
    } else if missing {
        soon(context);
    }
}
