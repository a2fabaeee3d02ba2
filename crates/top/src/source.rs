//! The servers behind the view: one, or all primaries of a cluster.

use crate::node::Node;
use crate::reply::{Held, Info, Waiter, bytes};
use crate::snapshot::{LockId, Snapshot};
use redis::{ConnectionAddr, ConnectionInfo, ConnectionLike, RedisResult, cmd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How often a cluster is asked for its primaries.
const TOPOLOGY_PERIOD: Duration = Duration::from_secs(5);

/// An order from the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Read the holder and the waiters of this lock.
    Look(LockId),
    /// Close the connection of a waiter.
    Kill { lock_id: LockId, client_id: i64 },
    /// Delete the lock if its grant still has this token.
    Unlock { lock_id: LockId, token: i64 },
}

/// An update for the view.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new snapshot.
    Snapshot(Snapshot),
    /// The holder and the waiters of a lock.
    Queue(LockId, Option<Held>, Vec<Waiter>),
    /// The result of an order, as a message.
    Done(String),
}

/// The servers.
pub(crate) struct Source {
    given: ConnectionInfo,
    nodes: Vec<Node>,
    asked: Option<Instant>,
}

impl Source {
    pub(crate) fn new(given: ConnectionInfo) -> Self {
        let nodes = vec![Node::new(given.clone())];
        Self {
            given,
            nodes,
            asked: None,
        }
    }

    /// Reads a snapshot periodically and carries out orders in between, until a channel is closed.
    pub(crate) fn serve(
        mut self,
        every: Duration,
        orders: &Receiver<Order>,
        updates: &Sender<Update>,
    ) {
        loop {
            if updates.send(Update::Snapshot(self.read())).is_err() {
                return;
            }
            let next = Instant::now() + every;
            loop {
                let left = next.saturating_duration_since(Instant::now());
                let order = match orders.recv_timeout(left) {
                    Ok(order) => order,
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if updates.send(self.follow(&order)).is_err() {
                    return;
                }
            }
        }
    }

    /// Reads all servers in parallel.
    pub(crate) fn read(&mut self) -> Snapshot {
        if self
            .asked
            .is_none_or(|asked| asked.elapsed() > TOPOLOGY_PERIOD)
        {
            self.asked = Some(Instant::now());
            self.find_primaries();
        }
        let mut snapshot = Snapshot::empty();
        thread::scope(|scope| {
            let start = |node| scope.spawn(|| Node::read(node));
            let started: Vec<_> = self.nodes.iter_mut().map(start).collect();
            for thread in started {
                let Ok((server, locks, hot)) = thread.join() else {
                    continue;
                };
                snapshot.servers.push(server);
                snapshot.locks.extend(locks);
                snapshot.hot.extend(hot);
            }
        });
        snapshot.at = Instant::now();
        snapshot
    }

    pub(crate) fn follow(&mut self, order: &Order) -> Update {
        let (Order::Look(lock_id) | Order::Kill { lock_id, .. } | Order::Unlock { lock_id, .. }) =
            order;
        let Some(node) = self
            .nodes
            .iter_mut()
            .find(|node| node.address == lock_id.server)
        else {
            return Update::Done(format!("{} is no primary any more", lock_id.server));
        };
        let result = match order {
            Order::Look(_) => node
                .queue(&lock_id.key)
                .map(|(held, waiters)| Update::Queue(lock_id.clone(), held, waiters)),
            Order::Kill { client_id, .. } => node.kill(&lock_id.key, *client_id).map(Update::Done),
            Order::Unlock { token, .. } => node.unlock(&lock_id.key, *token).map(Update::Done),
        };
        result.unwrap_or_else(|error| Update::Done(error.to_string()))
    }

    /// Finds the primaries with slots of a cluster, by any node that answers: the given one may be down. A
    /// server that is in no cluster stays as it is.
    fn find_primaries(&mut self) {
        let known = self.nodes.iter_mut().find_map(|node| primaries(node).ok());
        let found = known
            .unwrap_or_else(|| primaries(&mut Node::new(self.given.clone())).unwrap_or_default());
        if found.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.nodes);
        for (host, port) in found {
            let node = Node::new(
                self.given
                    .clone()
                    .set_addr(at(self.given.addr(), host, port)),
            );
            let same = before.iter().position(|old| old.address == node.address);
            self.nodes
                .push(same.map_or(node, |same| before.swap_remove(same)));
        }
    }
}

/// Another node of the cluster to which the given address leads, reached in the same way. One that does not know
/// its own host is the one that was asked.
fn at(given: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    let known = |asked: &String| {
        if host.is_empty() {
            asked.clone()
        } else {
            host.clone()
        }
    };
    match given {
        ConnectionAddr::TcpTls {
            host: asked,
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host: known(asked),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        ConnectionAddr::Tcp(asked, _) => ConnectionAddr::Tcp(known(asked), port),
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// The addresses of the primaries by this node's view; empty when it is in no cluster.
fn primaries(node: &mut Node) -> RedisResult<Vec<(String, u16)>> {
    node.with(|connection| {
        let info = Info::read(connection.req_command(cmd("INFO").arg("cluster"))?);
        if info.number("cluster_enabled") != Some(1) {
            return Ok(Vec::new());
        }
        let nodes = connection.req_command(cmd("CLUSTER").arg("NODES"))?;
        let text = bytes(nodes).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter_map(primary).collect())
    })
}

/// The address in a line of `CLUSTER NODES`, if it is a primary with slots.
fn primary(line: &str) -> Option<(String, u16)> {
    let mut fields = line.split_whitespace();
    let address = fields.nth(1)?.split('@').next()?;
    let mut flags = fields.next()?.split(',');
    let has_slots = fields.nth(5).is_some();
    let (host, port) = address.rsplit_once(':')?;
    (has_slots && flags.any(|flag| flag == "master"))
        .then_some((host.to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::primary;

    #[test]
    fn primaries_with_slots_are_found_in_the_list_of_nodes() {
        let line =
            |flags, rest| format!("07c3 127.0.0.1:7001@17001,name {flags} - 0 1 2 connected{rest}");
        let here = Some(("127.0.0.1".to_owned(), 7001));
        assert_eq!(primary(&line("myself,master", " 0-5460")), here);
        assert_eq!(primary(&line("master", " 0 2 [3->-07c4]")), here);
        assert_eq!(primary(&line("master", "")), None);
        assert_eq!(primary(&line("slave", "")), None);
        assert_eq!(primary(""), None);
    }
}
