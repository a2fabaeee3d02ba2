//! What calls and events change.

use super::grants::{GrantName, Node};
use super::hearing::Now;
use super::of_lock::Due;
use super::registry::KeptGrants;
use super::silence::Silence;
use crate::{Deadline, Lease, Token};

/// Which command asks to keep a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An acquire: of the silence of before and the new one, the longer counts.
    Acquire,
    /// A renewal: it sets the silence anew.
    Renew,
}

/// The connection that is to keep a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// Its client.
    pub client_id: u64,
    /// How long it may be silent.
    pub silence: Silence,
    /// Which command asks.
    pub asked: Asked,
}

impl KeptGrants {
    /// A connection keeps this grant from now on, after a call that got or renewed it. What comes back is
    /// the client to close: that of another connection which kept it.
    pub fn keep(
        &mut self,
        name: GrantName<'_>,
        keeper: Keeper,
        lease: Lease,
        deadline: Deadline,
        now: Now,
    ) -> Option<u64> {
        self.hearing.note(now, false);
        let mut silence = keeper.silence;
        let mut close = None;
        if let Some(id) = self.grants.find(name)
            && let Some(before) = self.remove(id)
            && self.is_known(before.connection)
        {
            if keeper.asked == Asked::Acquire {
                silence = silence.max(before.silence);
            }
            close = self
                .forget(before.connection, Some(keeper.client_id))
                .or_else(|| {
                    self.tidy(before.connection, Some(keeper.client_id));
                    None
                });
        }
        let connection = self.connect(keeper.client_id, now);
        let id = self.grants.insert(Node {
            lock_id: self.grants.lock_id(name.database, name.key),
            token: name.token,
            connection,
            lease,
            silence,
            deadline,
            in_ends: false,
            due: Due {
                timer: now.monotonic,
                is_held_up: false,
            },
            is_one_of_many: false,
        });
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.add(id, silence);
        }
        self.kept += 1;
        self.start_lease(id, lease, deadline, now);
        self.schedule_ask(connection);
        close
    }

    /// A kept grant has this lease and deadline now: it was renewed, by the server or by a call, or
    /// re-entered, or a release left holds.
    pub fn renewed(&mut self, name: GrantName<'_>, lease: Lease, deadline: Deadline, now: Now) {
        if let Some(id) = self.find(name) {
            self.start_lease(id, lease, deadline, now);
        }
    }

    /// The grant is kept no more, by `KEEP 0`. What comes back is the client to close: that of another
    /// connection than the caller's.
    pub fn end(&mut self, name: GrantName<'_>, caller: u64) -> Option<u64> {
        let id = self.find(name)?;
        let connection = self.remove(id)?.connection;
        let close = self.forget(connection, Some(caller));
        self.tidy(connection, None);
        close
    }

    /// The last hold of a grant was released: it is kept no more, and no connection is closed.
    pub fn released(&mut self, name: GrantName<'_>) {
        if let Some(id) = self.find(name)
            && let Some(node) = self.remove(id)
        {
            self.tidy(node.connection, None);
        }
    }

    /// A client that was to keep this grant was not told so: it keeps it no more, and is not closed.
    pub fn given_back(&mut self, name: GrantName<'_>, client_id: u64) {
        let keeper = self.get(name).map(|kept| kept.client_id);
        if keeper == Some(client_id) {
            self.released(name);
        }
    }

    /// The token of a grant was raised.
    pub fn raised(&mut self, name: GrantName<'_>, to: Token) {
        if let Some(id) = self.find(name) {
            self.grants.raise(id, to);
        }
    }

    /// A grant was lost. What comes back is the client to close.
    pub fn lost(&mut self, name: GrantName<'_>) -> Option<u64> {
        let id = self.find(name)?;
        self.lose(id)
    }

    /// All grants of a lock were lost: the clients to close.
    pub fn lost_lock(&mut self, database: i32, key: &[u8]) -> Vec<u64> {
        let ids = self.grants.of_lock(database, key);
        ids.into_iter().filter_map(|id| self.lose(id)).collect()
    }

    /// All grants of a database were lost: the clients to close.
    pub fn lost_database(&mut self, database: i32) -> Vec<u64> {
        let ids = self.grants.of_database(database);
        ids.into_iter().filter_map(|id| self.lose(id)).collect()
    }

    /// All grants were lost: the clients to close.
    pub fn lost_all(&mut self) -> Vec<u64> {
        let all: Vec<_> = self.clients.values().copied().collect();
        all.into_iter()
            .filter_map(|connection| self.forget(connection, None))
            .collect()
    }

    /// A client is gone: nothing is renewed for it any more.
    pub fn client_closed(&mut self, client_id: u64) {
        if let Some(connection) = self.clients.get(&client_id) {
            self.forget(*connection, None);
        }
    }
}
