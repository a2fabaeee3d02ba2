//! Waiting calls, and the only way for a command to change a lock ([`Lock`]).
//!
//! An event that may have freed a lock only marks its key as ready ([`events`]). [`mod@serve`] then opens the key and
//! grants the lock to the next call. It runs in a tick of the event loop ([`mod@tick`]), or in a command that frees the
//! lock or finds it free. A grant is pending until its reply is sent ([`wait`]). If the client disconnects before that,
//! the grant is given back.

mod answer;
mod cluster_redirect;
mod deadlock;
mod disconnect_check;
mod ended;
mod events;
mod give_back;
mod join;
mod judge;
mod line;
mod lock;
mod pass_over;
mod presence_changes;
mod refuse;
mod serve;
mod session_end;
mod stall_detector;
mod state;
mod tick;
mod timer;
mod turn;
mod wait;

use redis_lock_core::Deadline;
use redis_lock_core::sessions::SessionGrant;
#[cfg(test)]
use redis_lock_core::{Limit, Monotonic, Owner, OwnerBuf, Waiter, sessions::SessionId};

use crate::server::Context;
use state::STATE;

pub(crate) use events::lock_lost;
pub(crate) use join::{WaitOptions, cancel, join};
pub(crate) use line::{ongoing_waits, queue_sizes, waiters, waiting};
pub(crate) use lock::{Lock, open_for_read, view};
pub(crate) use pass_over::session_presence_changed;
pub(crate) use refuse::client_of;
pub(crate) use session_end::{release_of_session, session_ended, waiting_of};

/// Subscribes to the events of locks, and sets up the timer.
pub(crate) fn load(context: Context<'_>) {
    events::load(context);
    timer::load(context, tick::tick);
}

/// Forgets the sent grant of the calling client. Each acquire calls this first, because the server reports whether a
/// reply is unsent only for a client's last command.
pub(crate) fn forget_sent(context: Context<'_>) {
    STATE.forget_sent(context);
}

/// Records that the server renewed a grant of a session. `ends` are its old and new deadlines.
pub(crate) fn grant_renewed(
    context: Context<'_>,
    grant: &SessionGrant,
    ends: (Deadline, Deadline),
) {
    STATE.renewed(context, grant, ends);
}

/// A waiter with limit 1 and no timeout, for tests.
#[cfg(test)]
fn test_waiter(session: Option<SessionId>, client_id: Option<u64>) -> Waiter {
    Waiter {
        owner: OwnerBuf::from(Owner::new(b"ann").expect("a short name")),
        lease: None,
        holds: None,
        limit: Limit::ONE,
        session,
        names_limit: false,
        client_id,
        since: Monotonic(0),
        until: None,
    }
}
