//! A primary with a replica and an append-only file, which must come to the same.

use redis::Connection;
use testbed::state::assert_same;
use testbed::{Expect, Server, run};

/// Dereferences to the primary.
pub(crate) struct Copies {
    primary: Server,
    replica: Server,
}

impl std::ops::Deref for Copies {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.primary
    }
}

impl Copies {
    #[track_caller]
    pub(crate) fn start() -> Self {
        let primary = Server::builder().config("appendonly", "yes").start();
        let replica = primary.replica();
        Self { primary, replica }
    }

    /// The same, where `a` holds `k`, and a connection.
    #[track_caller]
    pub(crate) fn held() -> (Self, Connection) {
        let copies = Self::start();
        let mut c = copies.connection();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        (copies, c)
    }

    /// Demands that the replica holds what the primary holds, and that a restart from the file
    /// alone brings it back.
    #[track_caller]
    pub(crate) fn agree(mut self) {
        self.replica_agrees();
        let before = self.primary.whole_state();
        drop(self.replica);
        self.primary.restart();
        assert_same(&before, &self.primary.whole_state(), "after a restart");
    }

    #[track_caller]
    pub(crate) fn replica_agrees(&self) {
        self.primary.wait_for_sync(&self.replica);
        let (ours, copied) = (self.primary.whole_state(), self.replica.whole_state());
        assert_same(&ours, &copied, "on the replica");
    }
}
