//! Which connections keep which grants.

use std::collections::BTreeSet;
use std::time::Duration;

use super::connection::Connection;
use super::grants::{ConnectionId, GrantId, GrantName, Grants, KeptGrant, Node};
use super::hearing::{Alive, Hearing, Now};
use super::lease::{again, left, third};
use super::of_lock::Due;
use crate::map::shrink_if_sparse;
use crate::{Deadline, Lease, Map, Monotonic};

/// What a client has sent in time may be read so much later.
pub(super) const READING: Duration = Duration::from_millis(300);
/// The kept grants of a server and the connections that keep them.
#[derive(Debug, Default)]
pub struct KeptGrants {
    pub(super) grants: Grants,
    pub(super) connections: Map<ConnectionId, Connection>,
    pub(super) clients: Map<u64, ConnectionId>,
    last_connection: ConnectionId,
    /// Connections that are forgotten, with grants that are not put away yet.
    pub(super) forgotten: Vec<ConnectionId>,
    /// How many grants are kept.
    pub(super) kept: usize,
    /// When to do something about a grant: renew it, mostly.
    pub(super) timers: BTreeSet<(Monotonic, GrantId)>,
    /// The ends of leases, in milliseconds since 1970.
    pub(super) ends: BTreeSet<(u64, GrantId)>,
    /// Nothing could be renewed when some grants came due.
    pub(super) held_up: bool,
    /// How far those that are late have been looked through, nearest end first.
    pub(super) late: Option<(u64, GrantId)>,
    /// How far the grants have been looked at in turn.
    pub(super) looked_at: (Monotonic, GrantId),
    /// When to ask about a connection.
    pub(super) asks: BTreeSet<(Alive, ConnectionId)>,
    pub(super) hearing: Hearing,
}

impl KeptGrants {
    /// Nothing is kept.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many grants are kept.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.kept
    }

    /// True when nothing is kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.kept == 0
    }

    /// True when there is nothing to put away either: no clock need be told.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.grants.len() == 0
    }

    /// A kept grant.
    #[must_use]
    pub fn get(&self, name: GrantName<'_>) -> Option<KeptGrant> {
        self.kept(self.find(name)?)
    }

    /// Puts away up to so many grants of connections that are forgotten; true when more are left.
    pub fn sweep(&mut self, max: usize) -> bool {
        let mut left = max;
        while let Some(connection) = self.forgotten.last().copied() {
            let next = self.connections.get(&connection);
            match next.and_then(|connection| connection.grants.first()) {
                Some(_) if left == 0 => return true,
                Some(id) => {
                    left -= 1;
                    self.remove(*id);
                }
                None => {
                    self.connections.remove(&connection);
                    self.forgotten.pop();
                    shrink_if_sparse(&mut self.connections);
                }
            }
        }
        false
    }

    /// The grant, if it is kept.
    pub(super) fn find(&self, name: GrantName<'_>) -> Option<GrantId> {
        let id = self.grants.find(name)?;
        self.is_kept(id).then_some(id)
    }

    pub(super) fn is_kept(&self, id: GrantId) -> bool {
        let node = self.grants.get(id);
        node.is_some_and(|node| self.is_known(node.connection))
    }

    pub(super) fn is_known(&self, connection: ConnectionId) -> bool {
        let connection = self.connections.get(&connection);
        connection.is_some_and(|connection| !connection.is_forgotten)
    }

    pub(super) fn kept(&self, id: GrantId) -> Option<KeptGrant> {
        let node = self.grants.get(id)?;
        Some(KeptGrant {
            lock_id: node.lock_id.clone(),
            token: node.token,
            lease: node.lease,
            client_id: self.connections.get(&node.connection)?.client_id,
            silence: node.silence,
        })
    }

    /// The grant is lost, and with it the connection.
    pub(super) fn lose(&mut self, id: GrantId) -> Option<u64> {
        let connection = self.grants.get(id)?.connection;
        self.forget(connection, None)
    }

    /// Takes a grant out of everything.
    pub(super) fn remove(&mut self, id: GrantId) -> Option<Node> {
        let node = self.grants.remove(id)?;
        self.timers.remove(&(node.due.timer, id));
        if let Deadline::At(end) = node.deadline {
            self.ends.remove(&(end, id));
        }
        if let Some(connection) = self.connections.get_mut(&node.connection) {
            connection.remove(id, node.silence);
            if !connection.is_forgotten {
                self.kept -= 1;
            }
        }
        Some(node)
    }

    /// Forgets a connection that is known and is not this client's; the client to close.
    pub(super) fn forget(&mut self, id: ConnectionId, but: Option<u64>) -> Option<u64> {
        let connection = self.connections.get_mut(&id)?;
        let client_id = connection.client_id;
        if connection.is_forgotten || Some(client_id) == but {
            return None;
        }
        connection.is_forgotten = true;
        self.kept -= connection.grants.len();
        if let Some(at) = connection.ask_at.take() {
            self.asks.remove(&(at, id));
        }
        self.clients.remove(&client_id);
        shrink_if_sparse(&mut self.clients);
        self.forgotten.push(id);
        Some(client_id)
    }

    pub(super) fn connection_of(&self, client_id: u64) -> Option<ConnectionId> {
        self.clients.get(&client_id).copied()
    }

    /// The connection of this client, heard now.
    pub(super) fn connect(&mut self, client_id: u64, now: Now) -> ConnectionId {
        let heard = self.hearing.alive(now.monotonic);
        if let Some(id) = self.clients.get(&client_id) {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.heard = connection.heard.max(heard);
            }
            return *id;
        }
        self.last_connection += 1;
        let id = self.last_connection;
        let connection = Connection::new(client_id, heard);
        self.connections.insert(id, connection);
        self.clients.insert(client_id, id);
        id
    }

    /// After a grant less: a connection without grants is no more, unless it is this client's; else its
    /// shortest silence may be another.
    pub(super) fn tidy(&mut self, id: ConnectionId, but: Option<u64>) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if connection.grants.is_empty() {
            self.forget(id, but);
        } else if !connection.is_forgotten {
            self.schedule_ask(id);
        }
    }

    /// A lease begins, or goes on, with this deadline. Where a part of it has passed already, a third has
    /// passed the sooner.
    pub(super) fn start_lease(&mut self, id: GrantId, lease: Lease, deadline: Deadline, now: Now) {
        self.set_end(id, deadline);
        let third = third(lease);
        let wait = match deadline {
            Deadline::At(_) => left(deadline, now).saturating_sub(third * 2).min(third),
            Deadline::Never => again(lease),
        };
        if let Some(node) = self.grants.get_mut(id) {
            node.lease = lease;
        }
        self.set_due(id, now.monotonic.plus(wait), false);
    }

    pub(super) fn set_end(&mut self, id: GrantId, deadline: Deadline) {
        let Some(node) = self.grants.get_mut(id) else {
            return;
        };
        if node.in_ends && node.deadline == deadline {
            return;
        }
        if let Deadline::At(end) = std::mem::replace(&mut node.deadline, deadline) {
            self.ends.remove(&(end, id));
        }
        node.in_ends = matches!(deadline, Deadline::At(_));
        if let Deadline::At(end) = deadline {
            self.ends.insert((end, id));
        }
    }

    /// When to do something about a grant, and whether it is held up.
    pub(super) fn set_due(&mut self, id: GrantId, timer: Monotonic, is_held_up: bool) {
        let due = Due { timer, is_held_up };
        if let Some(before) = self.grants.set_due(id, due) {
            if before.timer != timer {
                self.timers.remove(&(before.timer, id));
            }
            self.timers.insert((timer, id));
        }
    }

    /// Asks about a connection when its silence can have run out.
    pub(super) fn schedule_ask(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(silence) = connection.silence() else {
            return;
        };
        let at = connection.heard.plus(silence.length() + READING);
        if let Some(before) = connection.ask_at.replace(at) {
            self.asks.remove(&(before, id));
        }
        self.asks.insert((at, id));
    }
}
