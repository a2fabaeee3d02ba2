//! The servers behind the view: one, or all primaries of a cluster.

use crate::node::Node;
use crate::order::{Action, Order, Update};
use crate::snapshot::{Id, Snapshot};
use redis::{Cmd, Value};
use redis_lock_tool::{ClusterNode, Link, Target, cluster_nodes, command, lines, number, text};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How often the primaries of a cluster are read.
const TOPOLOGY_PERIOD: Duration = Duration::from_secs(5);

/// The servers.
pub(crate) struct Source {
    given: Target,
    pub(crate) nodes: Vec<Node>,
    asked: Option<Instant>,
}

impl Source {
    pub(crate) fn new(given: Target) -> Self {
        let nodes = vec![Node::new(&given)];
        Self {
            given,
            nodes,
            asked: None,
        }
    }

    /// Reads snapshots periodically and carries out orders in between, until a channel is closed.
    pub(crate) fn serve(
        mut self,
        every: Duration,
        orders: &Receiver<Order>,
        updates: &Sender<Update>,
    ) {
        let mut next = Instant::now();
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let update = match orders.recv_timeout(left) {
                Ok(order) => self.follow(&order),
                Err(RecvTimeoutError::Timeout) => {
                    let snapshot = self.read();
                    next = Instant::now() + every;
                    Update::Snapshot(snapshot)
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if updates.send(update).is_err() {
                return;
            }
        }
    }

    /// Reads all servers in parallel.
    pub(crate) fn read(&mut self) -> Snapshot {
        let age = self.asked.map(|asked| asked.elapsed());
        if age.is_none_or(|age| age > TOPOLOGY_PERIOD) {
            self.asked = Some(Instant::now());
            self.find_primaries();
        }
        thread::scope(|scope| {
            let start = |node| scope.spawn(|| Node::read(node));
            let started: Vec<_> = self.nodes.iter_mut().map(start).collect();
            let servers = started.into_iter().filter_map(|thread| thread.join().ok());
            Snapshot::of(servers.collect())
        })
    }

    pub(crate) fn follow(&mut self, order: &Order) -> Update {
        let Order { server, action } = order;
        let Some(node) = self.nodes.iter_mut().find(|node| node.address == *server) else {
            return Update::Done(format!("{server} is no longer a primary"));
        };
        let update = match action {
            Action::Look(what) => node.look(what).map(|found| {
                let (server, what) = (server.clone(), what.clone());
                Update::Found(Id { server, what }, found)
            }),
            Action::Kill(key, client) => node.kill(key, *client).map(Update::Done),
            Action::Unlock(key, token) => node.unlock(key, *token).map(Update::Done),
            Action::End(session) => node.end(*session).map(Update::Done),
        };
        update.unwrap_or_else(Update::Done)
    }

    /// Finds the primaries of a cluster that have slots, from any node that answers, because the given node may be
    /// down. Does nothing for a server without a cluster.
    pub(crate) fn find_primaries(&mut self) {
        let mut links = self.nodes.iter_mut().map(|node| &mut node.link);
        let known = links.find_map(|link| primaries(link).ok());
        let found = known
            .or_else(|| primaries(&mut self.given.link()).ok())
            .unwrap_or_default();
        if found.is_empty() {
            return;
        }
        let mut before = std::mem::take(&mut self.nodes);
        for found in found {
            let node = Node::new(&self.given.at(&found.host, found.port));
            let same = before.iter().position(|old| old.address == node.address);
            self.nodes
                .push(same.map_or(node, |same| before.swap_remove(same)));
        }
    }
}

/// The primaries with slots in the view of a node; empty if it is not in a cluster.
fn primaries(link: &mut Link) -> Result<Vec<ClusterNode>, String> {
    let mut told = |command: &Cmd| Ok::<_, String>(text(&link.ask(command)?.unwrap_or(Value::Nil)));
    if number(&lines(&told(&command("INFO cluster"))?), "cluster_enabled") != Some(1) {
        return Ok(Vec::new());
    }
    let mut nodes = cluster_nodes(&told(&command("CLUSTER NODES"))?);
    nodes.retain(|node| node.has_slots);
    Ok(nodes)
}
