//! A primary with a replica and an append-only file, which must come to the same.

use crate::state::assert_same;
use crate::{Expect, Server, run};
use redis::Connection;

/// Dereferences to the primary.
pub struct Copies {
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
    /// Both, and a connection to the primary.
    #[track_caller]
    pub fn started() -> (Self, Connection) {
        let (primary, c) = Server::builder().config("appendonly", "yes").started();
        let replica = primary.replica();
        (Self { primary, replica }, c)
    }

    /// The same, where `a` holds `k`.
    #[track_caller]
    pub fn held() -> (Self, Connection) {
        let (copies, mut c) = Self::started();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        (copies, c)
    }

    /// Demands that the replica holds what the primary holds, and that a restart from the file
    /// alone brings it back.
    #[track_caller]
    pub fn agree(mut self) {
        self.replica_agrees();
        let before = self.primary.whole_state();
        drop(self.replica);
        self.primary.restart();
        assert_same(&before, &self.primary.whole_state(), "after a restart");
    }

    /// Demands that the replica holds what the primary holds.
    #[track_caller]
    pub fn replica_agrees(&self) {
        self.primary.wait_for_sync(&self.replica);
        let (ours, copied) = (self.primary.whole_state(), self.replica.whole_state());
        assert_same(&ours, &copied, "on the replica");
    }
}
