//! The servers behind the view: one, or all primaries of a cluster.

use crate::node::Node;
use crate::snapshot::{Claim, Held, LockId, ProgramId, Snapshot};
use redis::{Value, cmd};
use redis_lock_tool::{ClusterNode, Target, Waiter, cluster_nodes, command, lines, number, text};
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
    /// Read what this program holds and waits for.
    LookAtProgram(ProgramId),
    /// Close the connection of a waiter.
    Kill { lock_id: LockId, client_id: i64 },
    /// Delete the lock if its grant still has this token.
    Unlock { lock_id: LockId, token: i64 },
    /// End the session of a program.
    End(ProgramId),
}

/// An update for the view.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A new snapshot.
    Snapshot(Snapshot),
    /// The holder and the waiters of a lock.
    Queue(LockId, Option<Held>, Vec<Waiter>),
    /// The locks that a program holds or waits for; none: it has ended.
    Claims(ProgramId, Option<Vec<Claim>>),
    /// The result of an order, as a message.
    Done(String),
}

/// The servers.
pub(crate) struct Source {
    given: Target,
    pub(crate) nodes: Vec<Node>,
    asked: Option<Instant>,
}

impl Order {
    fn server(&self) -> &str {
        match self {
            Self::Look(lock_id) | Self::Kill { lock_id, .. } | Self::Unlock { lock_id, .. } => {
                &lock_id.server
            }
            Self::LookAtProgram(id) | Self::End(id) => &id.server,
        }
    }
}

impl Source {
    pub(crate) fn new(given: Target) -> Self {
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
                let Ok(findings) = thread.join() else {
                    continue;
                };
                snapshot.servers.push(findings.server);
                snapshot.locks.extend(findings.locks);
                snapshot.hot.extend(findings.hot);
                snapshot.programs.extend(findings.programs);
            }
        });
        snapshot.at = Instant::now();
        snapshot
    }

    pub(crate) fn follow(&mut self, order: &Order) -> Update {
        let server = order.server();
        let Some(node) = self.nodes.iter_mut().find(|node| node.address == server) else {
            return Update::Done(format!("{server} is no primary any more"));
        };
        let result = match order {
            Order::Look(lock_id) => node
                .queue(&lock_id.key)
                .map(|(held, waiters)| Update::Queue(lock_id.clone(), held, waiters)),
            Order::LookAtProgram(id) => node
                .claims(id.session)
                .map(|claims| Update::Claims(id.clone(), claims)),
            Order::Kill { lock_id, client_id } => {
                node.kill(&lock_id.key, *client_id).map(Update::Done)
            }
            Order::Unlock { lock_id, token } => node.unlock(&lock_id.key, *token).map(Update::Done),
            Order::End(id) => node.end(id.session).map(Update::Done),
        };
        result.unwrap_or_else(Update::Done)
    }

    /// Finds the primaries with slots of a cluster, by any node that answers: the given one may be down. A
    /// server that is in no cluster stays as it is.
    pub(crate) fn find_primaries(&mut self) {
        let known = self.nodes.iter_mut().find_map(|node| primaries(node).ok());
        let found = known
            .unwrap_or_else(|| primaries(&mut Node::new(self.given.clone())).unwrap_or_default());
        if found.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.nodes);
        for found in found {
            let node = Node::new(self.given.at(&found.host, found.port));
            let same = before.iter().position(|old| old.address == node.address);
            self.nodes
                .push(same.map_or(node, |same| before.swap_remove(same)));
        }
    }
}

/// The primaries with slots by this node's view; empty when it is in no cluster.
fn primaries(node: &mut Node) -> Result<Vec<ClusterNode>, String> {
    let told = |answer: Result<Value, String>| answer.map(|value| text(&value));
    node.with(|link| {
        let info = told(link.ask(cmd("INFO").arg("cluster"))?);
        if number(&lines(&info.unwrap_or_default()), "cluster_enabled") != Some(1) {
            return Ok(Vec::new());
        }
        let nodes = told(link.ask(&command("CLUSTER NODES"))?);
        let mut nodes = cluster_nodes(&nodes.unwrap_or_default());
        nodes.retain(|node| node.has_slots);
        Ok(nodes)
    })
}
