//! The events that are followed: most of them only while a session is open.

use super::state::STATE;
use super::{losses, timer};
use crate::server::{self, Context, ServerEvent};

pub(super) fn load(context: Context<'_>) {
    server::subscribe(context, ServerEvent::Cron, cron);
}

/// A session was opened.
pub(super) fn begin(context: Context<'_>) {
    let follows = STATE.with(context, |state| std::mem::replace(&mut state.follows, true));
    if !follows {
        server::subscribe(
            context,
            ServerEvent::ClientDisconnected,
            losses::client_disconnected,
        );
        server::follow_removals(context, true);
    }
    timer::arm(context);
}

/// Ten times a second.
fn cron(context: Context<'_>) {
    if STATE.any() {
        timer::check_overdue(context);
        return;
    }
    let followed = STATE.with(context, |state| std::mem::take(&mut state.follows));
    if followed {
        server::unsubscribe(
            context,
            ServerEvent::ClientDisconnected,
            losses::client_disconnected,
        );
        server::follow_removals(context, false);
    }
}
