//! The alarm clock of the rounds.
//!
//! The server's timers follow the wall clock, which may be set back; its cron does not, and starts
//! a round that is overdue by a clock that nobody sets.

use std::sync::OnceLock;
use std::time::Duration;

use super::state::STATE;
use crate::locks::monotonic;
use crate::server::{self, Context, Moment};

/// While somebody waits a round comes at least this often: nothing tells a module that a lease was
/// shortened from outside, or that writes are possible again.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(8);
/// How late a round may be before the cron takes it that the wall clock was set
/// back. Little: this and the time between two crons are what a wait may be late by.
const OVERDUE: Duration = Duration::from_millis(2);

static ROUND: OnceLock<fn(Context<'_>)> = OnceLock::new();

/// Sets what a round is, and starts to watch over the alarm.
pub(super) fn load(context: Context<'_>, round: fn(Context<'_>)) {
    ROUND.get_or_init(|| round);
    server::subscribe(context, Moment::Cron, catch_up);
}

/// A round as soon as the server is back in its event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Duration::ZERO);
}

/// A round when what could not be done now may be possible.
pub(super) fn later(context: Context<'_>) {
    arm(context, LONGEST_PAUSE);
}

/// A round after `delay`, or earlier where one is due.
pub(super) fn arm(context: Context<'_>, delay: Duration) {
    let due = monotonic().plus(delay);
    let before = STATE.with(context, |state| match state.timer {
        Some((_, armed)) if armed <= due => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(before) = before else { return };
    if let Some((timer, _)) = before {
        timer.stop(context);
    }
    let timer = server::call_later(context, delay, ring);
    STATE.with(context, |state| state.timer = Some((timer, due)));
}

fn ring(context: Context<'_>) {
    // Gone by now, and not to be stopped any more.
    STATE.with(context, |state| state.timer = None);
    if let Some(round) = ROUND.get() {
        round(context);
    }
}

fn catch_up(context: Context<'_>) {
    let (stalled, missing) = STATE.with(context, |state| match state.timer {
        Some((_, due)) if monotonic().since(due) > OVERDUE => (state.timer.take(), false),
        Some(_) => (None, false),
        None => (None, !state.idle()),
    });
    if let Some((timer, _)) = stalled {
        timer.stop(context);
        soon(context);
    } else if missing {
        soon(context);
    }
}
