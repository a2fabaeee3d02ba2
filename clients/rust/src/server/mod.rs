//! Which server a call about a key goes to, and by which connection.

mod call_error;
mod calls;
mod cancel;
mod cluster;
pub(crate) mod commands;
mod direct;
mod node;
mod sentinel;
mod slots;

pub(crate) use call_error::CallError;
pub(crate) use calls::Answered;
pub(crate) use cancel::Pending;
pub(crate) use cluster::Cluster;
pub(crate) use direct::Direct;
pub(crate) use node::{Link, Node};
pub(crate) use sentinel::Sentinel;

use redis::{Cmd, Value};
use std::sync::Arc;

/// The way to the server that keeps a lock.
pub(crate) enum Route {
    /// Always the same one.
    Single(Arc<Node>),
    /// The primary that the Sentinels name.
    Sentinel(Sentinel),
    /// The node of the cluster that serves the key.
    Cluster(Cluster),
}

/// A connection to the server that keeps a lock, as far as is known.
#[derive(Clone)]
pub(crate) struct Path {
    pub(crate) node: Arc<Node>,
    pub(crate) link: Link,
    /// The cluster is moving the key: the call is to be announced by `ASKING`.
    asking: bool,
}

impl Route {
    /// The connection for calls that do not wait.
    pub(crate) async fn shared(&self, key: &[u8]) -> Result<Path, CallError> {
        let node = self.node(key).await?;
        match node.shared().await {
            Ok(link) => Ok(Path::new(node, link)),
            Err(error) => Err(self.learn(key, &node, error)),
        }
    }

    /// A connection of the caller's own, for a call that waits.
    pub(crate) async fn own(&self, key: &[u8]) -> Result<Path, CallError> {
        let node = self.node(key).await?;
        match node.own().await {
            Ok(link) => Ok(Path::new(node, link)),
            Err(error) => Err(self.learn(key, &node, error)),
        }
    }

    /// Where the answer [`CallError::Ask`] leads, for one call.
    pub(crate) async fn asking(&self, said_by: &Node, address: &str) -> Result<Path, CallError> {
        let Self::Cluster(cluster) = self else {
            return Err(CallError::silence());
        };
        let node = cluster.at(&cluster::full_address(said_by, address))?;
        // Of its own, so that no other call comes between `ASKING` and the one that it is for.
        let link = node.own().await?;
        Ok(Path {
            node,
            link,
            asking: true,
        })
    }

    /// Takes note of what a failure says about where the key is.
    pub(crate) fn learn(&self, key: &[u8], node: &Node, error: CallError) -> CallError {
        match (self, &error) {
            (Self::Sentinel(sentinel), CallError::Broken(_) | CallError::NotHere(_)) => {
                sentinel.forget();
            }
            (Self::Cluster(cluster), CallError::Moved(address, _)) => {
                cluster.has_moved(key, node, address);
            }
            (Self::Cluster(cluster), CallError::Broken(_) | CallError::NotHere(_)) => {
                cluster.forget();
            }
            _ => {}
        }
        error
    }

    /// Whether a call about the key is still at the right server, and that server answers.
    pub(crate) async fn is_right(&self, node: &Node) -> bool {
        let moved = match self {
            Self::Sentinel(sentinel) => {
                let primary = sentinel.ask().await;
                primary.is_ok_and(|primary| primary.address() != node.address())
            }
            // A server that has lost a slot tells those who wait for a key of it.
            Self::Single(_) | Self::Cluster(_) => false,
        };
        !moved && node.is_alive().await
    }

    async fn node(&self, key: &[u8]) -> Result<Arc<Node>, CallError> {
        match self {
            Self::Single(node) => Ok(Arc::clone(node)),
            Self::Sentinel(sentinel) => sentinel.primary().await,
            Self::Cluster(cluster) => cluster.node(key).await,
        }
    }
}

impl Path {
    fn new(node: Arc<Node>, link: Link) -> Self {
        Self {
            node,
            link,
            asking: false,
        }
    }

    /// Sends a call that does not wait.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, CallError> {
        if self.asking {
            self.node.call_on(&self.link, &redis::cmd("ASKING")).await?;
        }
        self.node.call_on(&self.link, command).await
    }

    /// Sends a call and waits for the answer, however long it takes.
    pub(crate) async fn wait(&self, command: &Cmd) -> Result<Value, CallError> {
        if self.asking {
            self.node.call_on(&self.link, &redis::cmd("ASKING")).await?;
        }
        self.link.send(command).await
    }
}
