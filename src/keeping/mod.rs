//! Kept leases: the server renews a grant while the connection that keeps it lives, and closes the
//! connection when the grant is lost.
//!
//! What is kept, and what is due, is in [`state`]. A command notes here what it changes ([`calls`]); events
//! tell what is lost ([`events`]); the event loop renews, asks who is silent and looks at leases that end
//! ([`work`]), for as long as anything is kept ([`follow`]). Each of them may close connections ([`close`]).

mod calls;
mod close;
mod events;
mod follow;
mod grant;
mod state;
mod timer;
mod work;

use crate::server::{self, Context, ServerEvent};

pub(crate) use calls::{
    ToKeep, any, given_back, is_kept, kept_by, leases_ended, note_change, renew_due,
    renew_due_if_allowed,
};
pub(crate) use events::lock_lost;
pub(crate) use state::kept;

/// Subscribes to the events by which grants are lost without a call about their key, and to the clock.
pub(crate) fn load(context: Context<'_>) {
    events::load(context);
    server::subscribe(context, ServerEvent::Cron, follow::cron);
    server::subscribe(context, ServerEvent::Configured, follow::settings_changed);
}
