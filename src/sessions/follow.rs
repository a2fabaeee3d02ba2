//! Server events that the module follows only while sessions are open, because they cost a little in every command or
//! iteration of the event loop.

use super::state::STATE;
use super::{timer, work};
use crate::server::{self, Context, ServerEvent};

/// Starts to follow removals of keys when a session is opened.
pub(super) fn begin(context: Context<'_>) {
    let follows = STATE.with(context, |state| {
        std::mem::replace(&mut state.follows.removals, true)
    });
    if !follows {
        server::follow_removals(context, true);
    }
    timer::arm(context);
}

/// Arranges to answer waiting POLLs at the end of this iteration of the event loop, with all events of the iteration. A
/// timer instead would cost as much as the call itself.
pub(super) fn answer_at_end(context: Context<'_>) {
    let follows = STATE.with(context, |state| {
        state.has_answers = true;
        std::mem::replace(&mut state.follows.iterations, true)
    });
    if !follows {
        server::subscribe(context, ServerEvent::LoopIterationEnds, iteration_ends);
    }
}

fn iteration_ends(context: Context<'_>) {
    if STATE.with(context, |state| std::mem::take(&mut state.has_answers)) {
        work::answer_quiet_polls(context);
    }
}

/// Restarts an overdue timer, and unsubscribes when no session is left. The server calls this ten times a second.
pub(super) fn cron(context: Context<'_>) {
    if STATE.any() {
        timer::check_overdue(context);
        return;
    }
    let (removals, iterations) = STATE.with(context, |state| {
        let removals = std::mem::take(&mut state.follows.removals);
        (removals, std::mem::take(&mut state.follows.iterations))
    });
    if removals {
        server::follow_removals(context, false);
    }
    if iterations {
        server::unsubscribe(context, ServerEvent::LoopIterationEnds, iteration_ends);
    }
}
