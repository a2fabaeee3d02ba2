//! The sockets of waiting clients, as far as they were queried.

use redis_lock_core::{Map, Monotonic, WaiterId};

use crate::server::Socket;

/// The sockets of the calls that wait or have a pending grant.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// The sockets that were queried. A socket belongs to its client only while that is connected, so it is
    /// removed when the call is answered or the client disconnects.
    pub(super) known: Map<WaiterId, Socket>,
    /// The number of clients in the last query, and when its iteration of the event loop began.
    pub(super) last_query: (usize, Monotonic),
}

impl Sockets {
    /// A call was answered, or its client has disconnected.
    pub(super) fn end(&mut self, id: WaiterId) {
        if !self.known.is_empty() {
            self.known.remove(&id);
        }
    }

    /// Removes all: nobody waits.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
