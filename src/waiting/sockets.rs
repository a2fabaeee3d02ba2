//! The sockets of those who wait, as far as the server was asked for them.

use redis_lock_core::{Map, Monotonic, WaiterId};

use crate::server::Socket;

/// The sockets of calls that wait, or whose grant is pending.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Those that were asked for. A socket is its client's for as long as that is connected: it is
    /// forgotten when the call has its answer or its client is gone.
    pub(super) known: Map<WaiterId, Socket>,
    /// How many clients the last question was about, and when the iteration began in which it was asked.
    pub(super) asked: (usize, Monotonic),
}

impl Sockets {
    /// A call has its answer, or its client is gone.
    pub(super) fn end(&mut self, id: WaiterId) {
        if !self.known.is_empty() {
            self.known.remove(&id);
        }
    }

    /// Nobody waits.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
