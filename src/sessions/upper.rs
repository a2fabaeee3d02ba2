//! Calls from the session layer up into the waiting layer, which it cannot use directly.

use std::sync::OnceLock;

use redis_lock_core::Deadline;
use redis_lock_core::sessions::{SessionGrant, SessionId};

use crate::server::Context;

/// The functions of the waiting layer.
#[derive(Clone, Copy)]
pub(crate) struct Upper {
    /// Releases all holds of a grant of a closed session. Its database must be selected.
    pub(crate) release: fn(Context<'_>, &SessionGrant),
    /// Ends the waits of a session that has ended.
    pub(crate) ended: fn(Context<'_>, SessionId),
    /// Updates the calls of a session after its program has gone away or polls again.
    pub(crate) presence_changed: fn(Context<'_>, SessionId),
    /// Records that the server renewed a grant. The deadlines are the old and the new one.
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

pub(super) fn presence_changed(context: Context<'_>, id: SessionId) {
    if let Some(upper) = UPPER.get() {
        (upper.presence_changed)(context, id);
    }
}

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
