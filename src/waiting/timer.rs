//! The timer of the ticks. A wait that times out is ended by `tick.rs`, or by `turn.rs` when its turn comes first.
//!
//! The server's timers follow the wall clock, which may be set back. So the server's cron starts a tick
//! that is overdue by the monotonic clock.

use std::sync::OnceLock;
use std::time::Duration;

use super::stall_detector::MAX_PAUSE;
use super::state::STATE;
use crate::locks::{monotonic, now};
use crate::server::{self, Context, ServerEvent};

/// A tick that is later than this is overdue: the wall clock was set back. A wait may end late by this
/// plus the period of the cron.
const OVERDUE: Duration = Duration::from_millis(2);

/// A timer that fires earlier than this by the monotonic clock shows that the wall clock was set.
const EARLY: Duration = Duration::from_micros(500);

/// The shortest time between two ticks. A timer of 0 ms armed in a timer fires before the server serves
/// its clients.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Runs a tick; returns the delay to the next one, if one is needed.
pub(super) type Tick = fn(Context<'_>) -> Option<Duration>;

static TICK: OnceLock<Tick> = OnceLock::new();

/// Sets the tick, and lets the cron watch over the timer.
pub(super) fn load(context: Context<'_>, tick: Tick) {
    TICK.get_or_init(|| tick);
    server::subscribe(context, ServerEvent::Cron, check_overdue);
}

/// Arms a tick for the next iteration of the event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Duration::ZERO);
}

/// Arms a tick for the end of this wait.
pub(super) fn within(context: Context<'_>, wait: Option<Duration>) {
    arm(context, wait.map_or(MAX_PAUSE, |wait| wait.min(MAX_PAUSE)));
}

/// Arms a tick for the end of a lease, in milliseconds since 1970.
pub(super) fn at_end(context: Context<'_>, end: u64) {
    within(context, Some(until_end(context, end)));
}

/// How long it is until the lease that ends then is over: a key expires a millisecond after its deadline.
pub(super) fn until_end(context: Context<'_>, end: u64) -> Duration {
    Duration::from_millis((end + 1).saturating_sub(now(context).millis()))
}

/// Arms a tick after `delay`, unless an earlier one is armed or a tick is running: that arms the next one
/// itself.
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
    // A timer that has fired must not be stopped.
    let due = STATE.with(context, |state| {
        state.in_tick = true;
        state.timer.take().map(|(_, due)| due)
    });
    let is_early = due.is_some_and(|due| due.since(monotonic()) > EARLY);
    let next = TICK.get().and_then(|tick| tick(context));
    STATE.with(context, |state| state.in_tick = false);
    // After an early one the cron arms the next (see `server::call_later`).
    if let Some(delay) = next
        && !is_early
    {
        arm(context, delay.max(MIN_PAUSE));
    }
}

fn check_overdue(context: Context<'_>) {
    let (overdue, missing) = STATE.with(context, |state| {
        // No tick is running here, but one may have ended by a panic.
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
