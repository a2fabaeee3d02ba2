//! The servers of a run: one, a primary with replicas, or a cluster.

mod alone;
mod followed;
mod guarded;
mod node;
mod pair;
mod sharded;

pub(crate) use alone::Alone;
pub(crate) use followed::Followed;
pub(crate) use guarded::Guarded;
pub(crate) use node::Node;
pub(crate) use pair::Pair;
pub(crate) use sharded::Sharded;

use crate::run::Run;
use history::Call;
use testbed::Proxy;
use testbed::Server;

/// Servers, and where to find a key.
pub(crate) trait Deployment: Send + Sync {
    /// Where they are.
    fn nodes(&self) -> &[Node];

    /// Does something with the process of one.
    fn with_server(&self, node: usize, act: &mut dyn FnMut(&mut Server));

    /// Where to ask first for a key; the answer may be a redirection or `READONLY`.
    fn home(&self, key: &str) -> usize;

    /// A redirection has told that this node serves the key.
    fn learn(&self, _key: &str, _node: usize) {}

    /// The proxy that some clients come by.
    fn proxy(&self) -> Option<&Proxy> {
        None
    }

    /// Kills a server.
    fn kill(&self, node: usize) {
        self.with_server(node, &mut Server::kill9);
        self.nodes()[node].has_died();
    }

    /// Starts one that was killed.
    fn restart(&self, node: usize) {
        self.with_server(node, &mut Server::restart);
    }

    /// Sets the servers' wall clock so many seconds from the machine's.
    fn set_clock(&self, _seconds: i64) {}

    /// A primary hands its role over in good order.
    fn hand_over(&self, _key: &str) {}

    /// Takes the primary of a key away, and waits until another server is in its place and all are
    /// well again. `before` is called when what is granted from then on may be lost.
    fn lose_primary(&self, _key: &str, _how: Loss, _before: &dyn Fn()) {}

    /// Demands that all servers hold the same; whether there are any that should.
    fn compare(&self) -> bool {
        false
    }

    /// Demands what must hold when all clients have ended, who made these calls.
    fn check(&self, _run: &Run, _calls: &[Call]) {}

    /// Moves a key's slot to another node; whether it went.
    fn move_slot(&self, _key: &str, _how: Transfer) -> bool {
        false
    }
}

/// How a primary is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its process is killed. Its replicas may lag behind when that happens.
    Killed,
    /// It hangs until another has taken its place, and then continues for a moment.
    Hangs,
}

/// How a slot moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Key by key, by `MIGRATE`.
    Keys,
    /// Whole, by `CLUSTER MIGRATESLOTS`.
    Whole,
}
