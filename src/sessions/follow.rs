//! The events that are followed only while a session is open, because each costs every command a little.

use super::state::STATE;
use super::timer;
use crate::server::{self, Context};

/// A session was opened.
pub(super) fn begin(context: Context<'_>) {
    let follows = STATE.with(context, |state| std::mem::replace(&mut state.follows, true));
    if !follows {
        server::follow_removals(context, true);
    }
    timer::arm(context);
}

/// Ten times a second.
pub(super) fn cron(context: Context<'_>) {
    if STATE.any() {
        timer::check_overdue(context);
    } else if STATE.with(context, |state| std::mem::take(&mut state.follows)) {
        server::follow_removals(context, false);
    }
}
