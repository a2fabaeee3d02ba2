//! Locks kept by one server at a time: which one a call about a key goes to, and by which connection.

mod call_error;
pub(crate) mod calls;
mod cancel;
mod cluster;
pub(crate) mod commands;
mod direct;
mod keeper;
mod line;
mod link;
mod node;
mod pool;
mod rescue;
mod sentinel;
mod slots;
mod takeover;
mod waiting;

pub(crate) use call_error::CallError;
pub(crate) use calls::{Answered, SentTo};
pub(crate) use cancel::Pending;
pub(crate) use cluster::Cluster;
pub(crate) use direct::{Direct, Times};
pub(crate) use keeper::Keeper;
pub(crate) use line::Own;
pub(crate) use link::Link;
pub(crate) use node::{Common, Node};
pub(crate) use rescue::release_rest;
pub(crate) use sentinel::Sentinel;

use std::sync::Arc;

/// The way to the server that keeps a lock.
pub(crate) enum Route {
    /// Always the same one.
    Single(Arc<Node>),
    /// The primary that the Sentinels name.
    Sentinel(Box<Sentinel>),
    /// The node of the cluster that serves the key.
    Cluster(Box<Cluster>),
}

impl Route {
    /// The server that has the key, as far as is known.
    pub(crate) async fn node(&self, key: &[u8]) -> Result<Arc<Node>, CallError> {
        match self {
            Self::Single(node) => Ok(Arc::clone(node)),
            Self::Sentinel(sentinel) => sentinel.primary().await,
            Self::Cluster(cluster) => cluster.node(key).await,
        }
    }

    /// Where the answer [`CallError::Ask`] leads, for one call.
    pub(crate) fn asked_to(&self, said_by: &Node, address: &str) -> Result<Arc<Node>, CallError> {
        match self {
            Self::Cluster(cluster) => cluster.at(&cluster::full_address(said_by, address)),
            Self::Single(_) | Self::Sentinel(_) => Err(CallError::silence()),
        }
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        match self {
            Self::Single(node) => node.close(),
            Self::Sentinel(sentinel) => sentinel.close(),
            Self::Cluster(cluster) => cluster.close(),
        }
    }

    /// Takes note of what a failure says about where the key is.
    pub(crate) fn learn(&self, key: &[u8], node: &Node, error: CallError) -> CallError {
        match (self, &error) {
            (Self::Sentinel(sentinel), CallError::Broken(_) | CallError::Passing(_)) => {
                sentinel.forget();
            }
            (Self::Cluster(cluster), CallError::Moved(address, _)) => {
                cluster.has_moved(key, node, address);
            }
            (Self::Cluster(cluster), CallError::Broken(_) | CallError::Passing(_)) => {
                cluster.forget();
            }
            _ => {}
        }
        error
    }

    /// Whether it is known by now that another server is the right one. A server that has lost a slot
    /// tells those who wait for a key of it.
    pub(crate) async fn has_left(&self, node: &Node) -> bool {
        match self {
            Self::Sentinel(sentinel) => sentinel.has_left(node).await,
            Self::Single(_) | Self::Cluster(_) => false,
        }
    }
}
