//! Replicas of a server.

use super::probe::eventually;
use super::{Builder, Server};

impl Server {
    /// A second server that replicates this one, linked and in step.
    #[must_use]
    #[track_caller]
    pub fn replica(&self) -> Server {
        self.replica_with(|settings| settings)
    }

    /// As [`Self::replica`], with settings of its own.
    #[must_use]
    #[track_caller]
    pub fn replica_with(&self, change: impl FnOnce(Builder) -> Builder) -> Server {
        let primary = format!("127.0.0.1 {}", self.port());
        let replica = change(Server::builder().config("replicaof", &primary)).start();
        self.wait_for_sync(&replica);
        replica
    }

    /// Waits until this replica has its link to its primary.
    #[track_caller]
    pub fn wait_for_link(&self) {
        let link = || self.info_field("replication", "master_link_status");
        eventually(|| link() == "up", "the replica's link to be up");
    }

    /// Waits until this server is a `master` or a `slave`.
    #[track_caller]
    pub fn wait_for_role(&self, role: &str) {
        let has_role = || self.info_field("replication", "role") == role;
        eventually(has_role, "the change of roles");
    }

    /// Waits until the replica has taken everything that this primary has written so far.
    #[track_caller]
    pub fn wait_for_sync(&self, replica: &Server) {
        replica.wait_for_link();
        let offset = |server: &Server, field: &str| server.number("replication", field);
        let written = offset(self, "master_repl_offset");
        let reached = || offset(replica, "slave_repl_offset") >= written;
        eventually(reached, "the replica to reach its primary's offset");
    }
}
