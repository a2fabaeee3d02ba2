//! Orders from the view, and the updates that it receives.

use crate::snapshot::{Found, Id, Snapshot, What};

/// An order from the view for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) server: String,
    pub(crate) action: Action,
}

/// The action that an order asks of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read the queue of this lock, or the locks of this program.
    Look(What),
    /// Close the connection of this client, if it waits for the lock.
    Kill(Vec<u8>, i64),
    /// Delete the lock if its grant still has this token.
    Unlock(Vec<u8>, i64),
    /// End this session.
    End(i64),
}

/// An update for the view.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new snapshot.
    Snapshot(Snapshot),
    /// The queue of a lock, or the locks of a program.
    Found(Id, Found),
    /// The result of an order, as a message.
    Done(String),
}

impl Order {
    /// To look at this.
    pub(crate) fn look(id: &Id) -> Self {
        Self {
            server: id.server.clone(),
            action: Action::Look(id.what.clone()),
        }
    }
}
