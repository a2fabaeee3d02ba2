//! Calls from sessions up into the waiting layer: a session ends, its program disconnects, freezes or polls again, or a
//! grant is renewed or released.

use std::sync::OnceLock;

use redis_lock_core::Deadline;
use redis_lock_core::sessions::{SessionGrant, SessionId};

use crate::server::Context;

/// The functions of the layer above.
#[derive(Clone, Copy)]
pub(crate) struct Upper {
    /// Releases a grant of a closed session, with all its holds. Its database is selected.
    pub(crate) release: fn(Context<'_>, &SessionGrant),
    /// Ends the waits of a session that has ended.
    pub(crate) ended: fn(Context<'_>, SessionId),
    /// The program of a session has disconnected or frozen, so its calls are passed over from now on; or it polls
    /// again.
    pub(crate) presence_changed: fn(Context<'_>, SessionId),
    /// The lease of a grant is renewed: its end before and afterwards.
    pub(crate) renewed: fn(Context<'_>, &SessionGrant, (Deadline, Deadline)),
}

static UPPER: OnceLock<Upper> = OnceLock::new();

pub(super) fn load(upper: Upper) {
    UPPER.get_or_init(|| upper);
}

pub(super) fn release(context: Context<'_>, grant: &SessionGrant) {
    if let Some(upper) = UPPER.get()
        && context.select_database(grant.lock_id.database)
    {
        (upper.release)(context, grant);
    }
}

/// The program of this session has disconnected or frozen, or polls again.
pub(super) fn presence_changed(context: Context<'_>, id: SessionId) {
    if let Some(upper) = UPPER.get() {
        (upper.presence_changed)(context, id);
    }
}

/// The lease of this grant is renewed.
pub(super) fn renewed(context: Context<'_>, grant: &SessionGrant, ends: (Deadline, Deadline)) {
    if let Some(upper) = UPPER.get() {
        (upper.renewed)(context, grant, ends);
    }
}

pub(super) fn end_waits(context: Context<'_>, id: SessionId) {
    if let Some(upper) = UPPER.get() {
        (upper.ended)(context, id);
    }
}
