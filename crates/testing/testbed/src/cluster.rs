//! A cluster of real nodes, and what can happen to one: slots that move, failovers, dead nodes.
//!
//! Nodes are numbered: first the primaries, then the replicas of the first primary, then those of
//! the second, and so on. A node keeps its number whatever it becomes.

mod slots;
mod view;

pub use slots::{SLOTS, Slots, slot};
pub use view::NodeLine;

use super::probe::{eventually, within};
use super::talk::Expect;
use super::{Builder, Server};
use crate::cmd;
use std::time::{Duration, Instant};

/// How long a cluster may take to come to an agreement: a failover alone takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// After how long a node has given up a failover that did not come about, on a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(6);
/// How long a node is silent until others take it for dead, unless a setting says otherwise.
const NODE_TIMEOUT_MS: &str = "3000";

/// Makes this node a cluster of its own, which serves all slots.
#[track_caller]
pub fn of_one(node: &Server) {
    let mut c = node.connection();
    cmd!(c, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1).okay();
    let mut state = || cmd!(c, "CLUSTER", "INFO").text();
    eventually(|| state().contains("cluster_state:ok"), "the cluster");
}

/// Nodes that know each other and serve all slots. They end with this guard.
pub struct Cluster {
    nodes: Vec<Server>,
}

/// How a replica takes over by `CLUSTER FAILOVER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// With its primary's help: nothing is lost.
    Agreed,
    /// `FORCE`: without asking its primary, but with the votes of the others.
    Forced,
    /// `TAKEOVER`: without asking anybody.
    Takeover,
}

impl Cluster {
    /// This many primaries, with about as many slots each, and so many replicas for each.
    #[track_caller]
    pub fn start(primaries: usize, replicas: usize) -> Self {
        Self::start_with(primaries, replicas, |settings| settings)
    }

    /// As [`Self::start`], with settings of its own for all nodes.
    #[track_caller]
    pub fn start_with(
        primaries: usize,
        replicas: usize,
        change: impl Fn(Builder) -> Builder,
    ) -> Self {
        let start = |_| {
            let settings = Server::builder()
                .config("cluster-enabled", "yes")
                .config("cluster-node-timeout", NODE_TIMEOUT_MS)
                .config("cluster-announce-ip", "127.0.0.1")
                .config("cluster-allow-replica-migration", "no");
            change(settings).start()
        };
        let nodes = (0..primaries * (1 + replicas)).map(start).collect();
        let cluster = Self { nodes };
        cluster.meet(primaries);
        let met = |view: &[NodeLine]| view.len() == cluster.nodes.len();
        cluster.wait_until(met, "all nodes to meet");
        let followers = primaries..cluster.nodes.len();
        for node in followers {
            let primary = cluster.id((node - primaries) / replicas);
            cluster.order(node, &["REPLICATE", &primary]);
        }
        cluster.wait_until_whole();
        cluster
    }

    /// Gives the primaries their slots, and introduces every node to all others: sooner done than
    /// gossip does it.
    #[track_caller]
    fn meet(&self, primaries: usize) {
        for node in 0..self.nodes.len() {
            if node < primaries {
                let start = |node: usize| usize::from(SLOTS) * node / primaries;
                let (first, last) = (start(node), start(node + 1) - 1);
                let range = [first, last].map(|slot| slot.to_string());
                self.order(node, &["ADDSLOTSRANGE", &range[0], &range[1]]);
            }
            self.order(node, &["SET-CONFIG-EPOCH", &(node + 1).to_string()]);
            for other in &self.nodes[..node] {
                self.order(node, &["MEET", "127.0.0.1", &other.port().to_string()]);
            }
        }
    }

    /// All nodes, by their numbers.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// All nodes, to restart or to kill them.
    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// A node.
    pub fn node(&self, node: usize) -> &Server {
        &self.nodes[node]
    }

    /// A node, to restart it or to kill it.
    pub fn node_mut(&mut self, node: usize) -> &mut Server {
        &mut self.nodes[node]
    }

    /// Where clients find a node.
    pub fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[node].port())
    }

    /// The id of a node that is up.
    #[track_caller]
    pub fn id(&self, node: usize) -> String {
        cmd!(self.nodes[node].connection(), "CLUSTER", "MYID").text()
    }

    /// Gives an order, `CLUSTER` and these words, which the node must take.
    #[track_caller]
    pub fn order(&self, node: usize, words: &[&str]) {
        let text = cmd!(self.nodes[node].connection(), "CLUSTER", words).text();
        assert_eq!(text, "OK", "node {node}: CLUSTER {}", words.join(" "));
    }

    /// Tells a replica to take over, and waits until it has.
    #[track_caller]
    pub fn fail_over(&self, replica: usize, how: Failover) {
        let words: &[&str] = match how {
            Failover::Agreed => &["FAILOVER"],
            Failover::Forced => &["FAILOVER", "FORCE"],
            Failover::Takeover => &["FAILOVER", "TAKEOVER"],
        };
        let mut order = redis::cmd("CLUSTER");
        order.arg(words);
        let mut given: Option<Instant> = None;
        let taken_over = || {
            if given.is_none_or(|at| at.elapsed() > GIVEN_UP) {
                given = Some(Instant::now());
                self.nodes[replica].ask(&order);
            }
            self.is_primary(replica)
        };
        within(PATIENCE, taken_over, "a replica to take over");
    }

    /// Waits until a node is a primary in its own eyes.
    #[track_caller]
    pub fn wait_until_primary(&self, node: usize) {
        within(PATIENCE, || self.is_primary(node), "a replica to take over");
    }
}
