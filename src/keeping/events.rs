//! How grants are lost without a call: their key goes, the server stops being primary, a client
//! disconnects.

use redis_lock_core::UnixTime;

use super::close::{Cause, close};
use super::state::STATE;
use crate::server::{self, Context, Databases, ServerEvent};

pub(super) fn load(context: Context<'_>) {
    server::on_databases(databases_changed);
    // The handler of databases is called for these.
    server::subscribe(context, ServerEvent::Flushed, |_| {});
    server::subscribe(context, ServerEvent::Swapped, |_| {});
    server::subscribe(context, ServerEvent::RoleChanged, role_changed);
}

/// A key has lost its lock without a release. Called while the server removes it.
pub(crate) fn lock_lost(context: Context<'_>, database: i32, key: &[u8]) {
    if !STATE.is_busy() {
        return;
    }
    let now = UnixTime::from_micros(context.unix_micros_now());
    let (closed, has_ended) = STATE.with(context, |state| {
        let has_ended = state.grants.has_ended(database, key, now);
        (state.grants.lost_lock(database, key), has_ended)
    });
    // Who finds its own lease over ends nothing.
    let cause = if has_ended {
        Cause::Other
    } else {
        Cause::Command
    };
    close(context, closed, cause);
}

fn databases_changed(context: Context<'_>, databases: Databases) {
    if !STATE.is_busy() {
        return;
    }
    let closed = STATE.with(context, |state| match databases {
        Databases::All => state.grants.lost_all(),
        Databases::One(database) => state.grants.lost_database(database),
        Databases::Two(one, other) if one == other => Vec::new(),
        Databases::Two(one, other) => {
            let mut closed = state.grants.lost_database(one);
            closed.extend(state.grants.lost_database(other));
            closed
        }
    });
    close(context, closed, Cause::Command);
}

fn role_changed(context: Context<'_>) {
    if STATE.is_busy() && context.flags().replica() {
        let closed = STATE.with(context, |state| state.grants.lost_all());
        close(context, closed, Cause::Command);
    }
}

/// A client has disconnected: what it keeps is renewed no more.
pub(super) fn client_disconnected(context: Context<'_>) {
    STATE.if_busy(context, |state| {
        let client = context.client_id();
        state.grants.client_closed(client);
        state.close_sent.retain(|closing| *closing != client);
        state.close_unsent.retain(|closing| *closing != client);
    });
}
