//! The nodes' views of each other, and when they agree.

use super::{Cluster, PATIENCE, Slots};
use crate::probe::{poll, within};
use crate::talk::{Expect, line};

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
    /// The slots that it serves.
    pub slots: Slots,
}

/// A node's view of another one.
#[derive(PartialEq, Eq)]
struct Picture {
    follows: Option<String>,
    epoch: u64,
    slots: Slots,
}

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

impl Cluster {
    /// A node's view of the cluster; none if it is down or does not answer.
    pub fn view(&self, node: usize) -> Option<Vec<NodeLine>> {
        let text = self.view_as_told(node)?;
        text.lines().map(NodeLine::parse).collect()
    }

    fn view_as_told(&self, node: usize) -> Option<String> {
        let answer = self.nodes[node].ask(redis::cmd("CLUSTER").arg("NODES"));
        answer.map(Expect::text)
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
            let views = up.iter().map(|node| {
                let told = self.view_as_told(*node);
                let told = told.as_deref().unwrap_or("no answer\n");
                format!("{}:\n{told}\n", self.address(*node))
            });
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
        let info = line("INFO replication");
        tells(&line("CLUSTER INFO"), true, "cluster_state:ok")
            && tells(&info, false, "master_link_status:down")
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
