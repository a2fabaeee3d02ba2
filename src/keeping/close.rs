//! Closing a connection: how its client hears that a grant is lost.
//!
//! A client is closed at once, and what it was to be answered is dropped. But not while its own command
//! runs: the rest of that would run with other rights.

use super::state::STATE;
use crate::server::{Context, MemoryLimit};
use crate::statistics::{Counter, count};

/// What ended the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The command that is running, perhaps: a client that ended its own grant gets its whole reply.
    Command,
    /// Time, or what happened to the server: the client gets no reply any more.
    Other,
}

/// Closes these clients, whose grants are lost.
pub(super) fn close(context: Context<'_>, clients: Vec<u64>, cause: Cause) {
    if clients.is_empty() {
        return;
    }
    let removing = match cause {
        Cause::Command => context.removing(&clients),
        Cause::Other => Vec::new(),
    };
    let running = if cause == Cause::Other || may_evict(context) {
        context.running(&clients)
    } else {
        Vec::new()
    };
    for client in clients {
        count(Counter::KeptCloses);
        if removing.contains(&client) {
            STATE.with(context, |state| state.close_sent.push(client));
        } else if running.contains(&client) {
            STATE.with(context, |state| state.close_unsent.push(client));
        } else {
            context.close_client(client);
        }
    }
}

/// True when any command can remove any key: the server evicts before it runs one, also one that it refuses then.
fn may_evict(context: Context<'_>) -> bool {
    MemoryLimit::now(context).is_none_or(|limit| limit.bytes > 0 && limit.evicts())
}

/// At the end of an iteration of the event loop, before any reply is sent.
pub(super) fn close_unsent(context: Context<'_>) {
    let clients = STATE.if_busy(context, |state| std::mem::take(&mut state.close_unsent));
    for client in clients {
        context.close_client(client);
    }
}

/// At the begin of an iteration, when what could be sent is sent.
pub(super) fn close_sent(context: Context<'_>) {
    let clients = STATE.if_busy(context, |state| state.close_sent.clone());
    if clients.is_empty() {
        return;
    }
    let sent = context.all_sent(&clients);
    let known = context.idle_seconds(&clients).unwrap_or_default();
    for client in &sent {
        context.close_client(*client);
    }
    STATE.with(context, |state| {
        state.close_sent.retain(|client| {
            !sent.contains(client) && known.iter().any(|(known, _)| known == client)
        });
    });
}
