//! Detects lost grants and lost sessions: a key is removed, a database is flushed, the server becomes a replica, or a
//! client disconnects.

use redis_lock_core::sessions::LossReason;

use super::state::STATE;
use super::upper::presence_changed;
use super::{timer, work};
use crate::server::{self, Context, Databases, Removal, ServerEvent, Text};

pub(super) fn load(context: Context<'_>) {
    server::on_databases(databases_changed);
    // The server calls `databases_changed` only for events that the module subscribes to.
    server::subscribe(context, ServerEvent::Flushed, |_| {});
    server::subscribe(context, ServerEvent::Swapped, |_| {});
    server::subscribe(context, ServerEvent::RoleChanged, role_changed);
    server::subscribe(
        context,
        ServerEvent::ClientDisconnected,
        client_disconnected,
    );
}

/// Reports the grants of a key that is gone as lost. The server may call this while it is still removing the key.
pub(crate) fn lock_lost(context: Context<'_>, database: i32, key: &[u8]) {
    if !STATE.any_grants() {
        return;
    }
    let removal = server::last_removal();
    STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        let reason = match removal {
            Some(Removal::Expiry) => LossReason::Expired,
            Some(Removal::Eviction) => LossReason::Evicted,
            Some(Removal::Command) | None => LossReason::Deleted,
        };
        sessions.lost_lock(database, key, reason, now);
    });
    timer::arm(context);
}

/// Reports the grants as lost that a user has overwritten with `LOCK._APPLY`.
pub(crate) fn lock_overwritten(context: Context<'_>, name: Text<'_>) {
    if !STATE.any_grants() {
        return;
    }
    let (database, key) = (context.database(), name.bytes());
    let grants = STATE.with(context, |state| {
        state.sessions.grants_of_lock(database, key)
    });
    for grant in grants {
        work::check_grant(context, &grant, LossReason::Deleted);
    }
    timer::arm(context);
}

fn databases_changed(context: Context<'_>, databases: Databases) {
    if !STATE.any_grants() {
        return;
    }
    STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        match databases {
            Databases::All => sessions.flushed(None, LossReason::Flushed),
            Databases::One(database) => sessions.flushed(Some(database), LossReason::Flushed),
            Databases::Two(one, other) if one == other => {}
            Databases::Two(one, other) => {
                sessions.flushed(Some(one), LossReason::Deleted);
                sessions.flushed(Some(other), LossReason::Deleted);
            }
        }
        sessions.report_flushed(work::FLUSHED_AT_ONCE, now);
    });
    timer::arm(context);
}

fn role_changed(context: Context<'_>) {
    if STATE.any() && context.flags().replica() {
        // Most servers unblock the waiting POLLs themselves. The timer answers the rest.
        STATE.with(context, |state| {
            state.sessions.end_all();
            state.to_refuse = state.polls.keys().copied().collect();
        });
        timer::soon(context);
    }
}

/// Detaches the sessions that a disconnected client polled.
fn client_disconnected(context: Context<'_>) {
    if STATE.any() {
        let client = context.client_id();
        let detached = STATE.with_time(context, |state, now| {
            state.sessions.disconnected(client, now)
        });
        for id in detached {
            presence_changed(context, id);
        }
    }
}
