//! A cluster of real nodes, and what can happen to one: slots that move, failovers, dead nodes.
//!
//! Nodes are numbered: first the primaries, then the replicas of the first primary, then those of
//! the second, and so on. A node keeps its number whatever it becomes.

use super::probe::{poll, within};
use super::talk::Expect;
use super::{Builder, Server};
use crate::cmd;
use crc::{CRC_16_XMODEM, Crc};
use std::time::{Duration, Instant};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;
/// How long a cluster may take to come to an agreement: a failover alone takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// After how long a node has given up a failover that did not come about, on a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(6);
/// How long a node is silent until others take it for dead, unless a setting says otherwise.
const NODE_TIMEOUT_MS: &str = "3000";

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

/// One line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    /// The node's id.
    pub id: String,
    /// Where clients find it.
    pub address: String,
    /// `myself`, `master`, `slave`, `fail`, …
    pub flags: Vec<String>,
    /// The id of the primary that it follows.
    pub primary: Option<String>,
    /// In which epoch it, or its primary, has taken what it serves.
    pub epoch: u64,
    /// What it serves.
    pub slots: Slots,
}

/// What a node thinks of another one.
#[derive(PartialEq, Eq)]
struct Picture {
    follows: Option<String>,
    epoch: u64,
    slots: Slots,
}

/// The first and the last slot of each range.
pub type Slots = Vec<(u16, u16)>;

impl NodeLine {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let id = fields.next()?.to_owned();
        let address = fields.next()?.split('@').next()?.to_owned();
        let flags = fields.next()?.split(',').map(str::to_owned).collect();
        let primary = Some(fields.next()?)
            .filter(|id| *id != "-")
            .map(str::to_owned);
        let range = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?)) // no slot on its way: `[1->-id]`
        };
        Some(Self {
            id,
            address,
            flags,
            primary,
            epoch: fields.nth(2)?.parse().ok()?,
            slots: fields.skip(1).filter_map(range).collect(),
        })
    }

    /// Whether the node has this flag.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|has| has == flag)
    }

    /// Whether the node serves this slot.
    pub fn serves(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// The slot of a key: that of the part in its first pair of braces, where that is not empty.
pub fn slot(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    let hashed = tag.unwrap_or(key).as_bytes();
    Crc::<u16>::new(&CRC_16_XMODEM).checksum(hashed) % SLOTS
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
        cluster.wait_until(
            |view| view.len() == cluster.nodes.len(),
            "all nodes to meet",
        );
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
                self.order(
                    node,
                    &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()],
                );
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

    /// What a node knows of the cluster; none where it is down or does not answer.
    pub fn view(&self, node: usize) -> Option<Vec<NodeLine>> {
        let text = self.nodes[node]
            .ask(redis::cmd("CLUSTER").arg("NODES"))?
            .text();
        text.lines().map(NodeLine::parse).collect()
    }

    fn nodes_as_told_by(&self, node: usize) -> String {
        let told = self.nodes[node].ask(redis::cmd("CLUSTER").arg("NODES"));
        let told = told.map_or_else(|| "no answer\n".to_owned(), Expect::text);
        format!("{}:\n{told}\n", self.address(node))
    }

    /// The node that serves a slot, in the eyes of another one.
    pub fn serves_in_view_of(&self, viewer: usize, slot: u16) -> Option<usize> {
        let view = self.view(viewer)?;
        let line = view.iter().find(|line| line.serves(slot))?;
        (0..self.nodes.len()).find(|node| self.address(*node) == line.address)
    }

    /// The node that serves a slot in its own eyes.
    #[track_caller]
    pub fn serves(&self, slot: u16) -> usize {
        let claims = |node: &usize| self.serves_in_view_of(*node, slot) == Some(*node);
        let serving = (0..self.nodes.len()).find(claims);
        serving.unwrap_or_else(|| panic!("no node serves slot {slot}"))
    }

    /// The nodes that follow this one, in its own eyes.
    #[track_caller]
    pub fn replicas_of(&self, node: usize) -> Vec<usize> {
        let id = self.id(node);
        let view = self.view(node).expect("the view of a node that is up");
        let follows = |address: String| {
            let mut lines = view.iter();
            lines.any(|line| line.address == address && line.primary.as_ref() == Some(&id))
        };
        (0..self.nodes.len())
            .filter(|other| follows(self.address(*other)))
            .collect()
    }

    /// Whether a node is a primary in its own eyes.
    pub fn is_primary(&self, node: usize) -> bool {
        self.view(node).is_some_and(|view| {
            let mut lines = view.iter();
            lines.any(|line| line.is("myself") && line.is("master"))
        })
    }

    /// Gives an order, `CLUSTER` and these words, which the node must take.
    #[track_caller]
    pub fn order(&self, node: usize, words: &[&str]) {
        let text = cmd!(self.nodes[node].connection(), "CLUSTER", words).text();
        assert_eq!(text, "OK", "node {node}: CLUSTER {}", words.join(" "));
    }

    /// `CLUSTER SETSLOT slot state other` on a node.
    #[track_caller]
    pub fn set_slot(&self, node: usize, slot: u16, state: &str, other: usize) {
        self.order(
            node,
            &["SETSLOT", &slot.to_string(), state, &self.id(other)],
        );
    }

    /// `CLUSTER SETSLOT slot STABLE` on a node.
    #[track_caller]
    pub fn set_stable(&self, node: usize, slot: u16) {
        self.order(node, &["SETSLOT", &slot.to_string(), "STABLE"]);
    }

    /// The first step of moving a slot: from now on each node sends callers to the other one for
    /// keys that it does not have.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        self.set_slot(to, slot, "IMPORTING", from);
        self.set_slot(from, slot, "MIGRATING", to);
    }

    /// The second step: moves the keys that are there. Gives how many.
    #[track_caller]
    pub fn carry_keys(&self, slot: u16, from: usize, to: usize) -> usize {
        let mut c = self.nodes[from].connection();
        let mut carried = 0;
        loop {
            let keys = cmd!(c, "CLUSTER", "GETKEYSINSLOT", slot, 100).items();
            if keys.is_empty() {
                return carried;
            }
            let keys: Vec<_> = keys.into_iter().map(Expect::bytes).collect();
            let port = self.nodes[to].port();
            // A key may have gone in between: `NOKEY` where all have.
            cmd!(c, "MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", keys).text();
            carried += keys.len();
        }
    }

    /// The last step: every primary is told the new node, the new one itself first.
    #[track_caller]
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        self.set_slot(to, slot, "NODE", to);
        self.set_slot(from, slot, "NODE", to);
        for node in 0..self.nodes.len() {
            if node != from && node != to && self.is_primary(node) {
                self.set_slot(node, slot, "NODE", to);
            }
        }
    }

    /// Moves a slot with its keys, step by step.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        self.carry_keys(slot, from, to);
        self.end_move(slot, from, to);
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

    /// Waits until all nodes that are up agree on who they are, whom they follow and what they
    /// serve since when, and each of them serves and has the link to its primary.
    #[track_caller]
    pub fn wait_until_whole(&self) {
        let up: Vec<_> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].is_up())
            .collect();
        let agree = || {
            let mut pictures = up.iter().map(|viewer| self.picture(*viewer, &up));
            let first = pictures.next().flatten();
            first.is_some() && pictures.all(|picture| picture == first)
        };
        let agreed = poll(PATIENCE, || agree().then_some(()));
        if agreed.is_none() {
            let views = up.iter().map(|node| self.nodes_as_told_by(*node));
            panic!("the nodes do not agree:\n{}", views.collect::<String>());
        }
        for node in up {
            within(PATIENCE, || self.is_content(node), "a node to be content");
        }
    }

    /// What a node thinks of these, in turn. None where it does not answer, does not know one of
    /// them or takes it for dead, or where two have the same epoch, of which one will take another.
    fn picture(&self, viewer: usize, nodes: &[usize]) -> Option<Vec<Picture>> {
        const UNSOUND: [&str; 4] = ["fail", "fail?", "handshake", "noaddr"];
        let view = self.view(viewer)?;
        let look = |node: &usize| {
            let address = self.address(*node);
            let line = view.iter().find(|line| line.address == address)?;
            let sound = !UNSOUND.iter().any(|flag| line.is(flag));
            sound.then(|| Picture {
                follows: line.primary.clone(),
                epoch: line.epoch,
                slots: line.slots.clone(),
            })
        };
        let pictures: Vec<_> = nodes.iter().map(look).collect::<Option<_>>()?;
        let primaries = pictures.iter().filter(|picture| picture.follows.is_none());
        let mut epochs: Vec<_> = primaries.map(|picture| picture.epoch).collect();
        epochs.sort_unstable();
        epochs
            .windows(2)
            .all(|pair| pair[0] < pair[1])
            .then_some(pictures)
    }

    fn is_content(&self, node: usize) -> bool {
        let tells = |command: &redis::Cmd, wanted: bool, line: &str| {
            let answer = self.nodes[node].ask(command);
            answer.is_some_and(|info| info.text().lines().any(|has| has == line) == wanted)
        };
        tells(redis::cmd("CLUSTER").arg("INFO"), true, "cluster_state:ok")
            && tells(
                redis::cmd("INFO").arg("replication"),
                false,
                "master_link_status:down",
            )
    }

    /// Waits until this holds of the view of each node that is up.
    #[track_caller]
    pub fn wait_until(&self, holds: impl Fn(&[NodeLine]) -> bool, what: &str) {
        for (node, server) in self.nodes.iter().enumerate() {
            let seen = || self.view(node).is_some_and(|view| holds(&view));
            if server.is_up() {
                within(PATIENCE, seen, what);
            }
        }
    }
}
