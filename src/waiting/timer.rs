//! The timer of the ticks.
//!
//! The server's timers follow the wall clock, which may be set back; its cron does not, and starts
//! a tick that is overdue by a clock that nobody sets.

use std::sync::OnceLock;
use std::time::Duration;

use super::stall_detector::MAX_PAUSE;
use super::state::STATE;
use crate::locks::monotonic;
use crate::server::{self, Context, ServerEvent};

/// How late a tick may be before the cron takes it that the wall clock was set back. Little: this and
/// the time between two crons are what a wait may be late by.
const OVERDUE: Duration = Duration::from_millis(2);

/// What lies between two ticks at the least. A timer that is due at once would fire before the server
/// has looked at its clients.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// Does what is due, and tells when the next tick is, if one is.
pub(super) type Tick = fn(Context<'_>) -> Option<Duration>;

static TICK: OnceLock<Tick> = OnceLock::new();

/// Sets what a tick is, and starts to watch over the timer.
pub(super) fn load(context: Context<'_>, tick: Tick) {
    TICK.get_or_init(|| tick);
    server::subscribe(context, ServerEvent::Cron, check_overdue);
}

/// A tick as soon as the server is back in its event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Duration::ZERO);
}

/// A tick when this wait is over.
pub(super) fn within(context: Context<'_>, wait: Option<Duration>) {
    arm(context, wait.map_or(MAX_PAUSE, |wait| wait.min(MAX_PAUSE)));
}

/// A tick when what could not be done now may be possible.
pub(super) fn later(context: Context<'_>) {
    arm(context, MAX_PAUSE);
}

/// A tick after `delay`, or earlier where one is due. Not from within a tick: what it leaves to do
/// is done in the next one anyway.
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
    // Gone by now, and not to be stopped any more.
    STATE.with(context, |state| {
        state.timer = None;
        state.in_tick = true;
    });
    let next = TICK.get().and_then(|tick| tick(context));
    STATE.with(context, |state| state.in_tick = false);
    if let Some(delay) = next {
        arm(context, delay.max(MIN_PAUSE));
    }
}

fn check_overdue(context: Context<'_>) {
    let (overdue, missing) = STATE.with(context, |state| {
        // No tick is under way here; one may have ended by a panic.
        state.in_tick = false;
        match state.timer {
            Some((_, due)) if monotonic().since(due) > OVERDUE => (state.timer.take(), false),
            Some(_) => (None, false),
            None => (None, !state.is_idle()),
        }
    });
    if let Some((timer, _)) = overdue {
        timer.stop(context);
        soon(context);
    } else if missing {
        soon(context);
    }
}
