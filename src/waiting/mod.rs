//! Waiting in line: who waits, and the one way in which a lock goes from one owner to the next.
//!
//! Whatever may have freed a lock only notes its key. [`mod@serve`] looks at what such a key holds now,
//! and grants it to whoever is next: from the event loop ([`mod@tick`]), or inside a command that finds
//! the lock free or frees it. A grant is pending until its reply is sent ([`wait`]); a caller that
//! is gone by then gives it back.

mod answer;
mod cluster_nodes;
mod events;
mod join;
mod lock;
mod peer;
mod redirection;
mod serve;
mod sockets;
mod stall_detector;
mod state;
mod tick;
mod timer;
mod wait;

use crate::server::Context;
use state::STATE;

pub(crate) use events::lock_lost;
pub(crate) use join::{cancel, join, ongoing_waits, queue_sizes, waiters, waiting};
pub(crate) use lock::{Lock, look};

/// Starts to listen to what happens to locks and clients.
pub(crate) fn load(context: Context<'_>) {
    events::load(context);
    timer::load(context, tick::tick);
}

/// The caller asks for a lock: whether the reply before was sent cannot be found out any more. Called
/// first, whatever comes of it.
pub(crate) fn forget_unconfirmed(context: Context<'_>) {
    STATE.forget_unconfirmed(context);
}
