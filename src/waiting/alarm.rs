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

/// What lies between two rounds at the least. A timer that is due at once would ring before the server
/// has looked at its clients.
const BREATH: Duration = Duration::from_millis(1);

/// Does what is due, and tells when the next round is, if one is.
pub(super) type Round = fn(Context<'_>) -> Option<Duration>;

static ROUND: OnceLock<Round> = OnceLock::new();

/// Sets what a round is, and starts to watch over the alarm.
pub(super) fn load(context: Context<'_>, round: Round) {
    ROUND.get_or_init(|| round);
    server::subscribe(context, Moment::Cron, catch_up);
}

/// A round as soon as the server is back in its event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Duration::ZERO);
}

/// A round when this wait is over.
pub(super) fn within(context: Context<'_>, wait: Option<Duration>) {
    arm(
        context,
        wait.map_or(LONGEST_PAUSE, |wait| wait.min(LONGEST_PAUSE)),
    );
}

/// A round when what could not be done now may be possible.
pub(super) fn later(context: Context<'_>) {
    arm(context, LONGEST_PAUSE);
}

/// A round after `delay`, or earlier where one is due. Not from within a round: what it leaves to do
/// is done in the next one anyway.
pub(super) fn arm(context: Context<'_>, delay: Duration) {
    let due = monotonic().plus(delay);
    let before = STATE.with(context, |state| match state.timer {
        Some((_, armed)) if armed <= due => Err(()),
        _ if state.in_round => Err(()),
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
    STATE.with(context, |state| {
        state.timer = None;
        state.in_round = true;
    });
    let next = ROUND.get().and_then(|round| round(context));
    STATE.with(context, |state| state.in_round = false);
    if let Some(delay) = next {
        arm(context, delay.max(BREATH));
    }
}

fn catch_up(context: Context<'_>) {
    let (stalled, missing) = STATE.with(context, |state| {
        // No round is under way here; one may have ended by a fault.
        state.in_round = false;
        match state.timer {
            Some((_, due)) if monotonic().since(due) > OVERDUE => (state.timer.take(), false),
            Some(_) => (None, false),
            None => (None, !state.idle()),
        }
    });
    if let Some((timer, _)) = stalled {
        timer.stop(context);
        soon(context);
    } else if missing {
        soon(context);
    }
}
