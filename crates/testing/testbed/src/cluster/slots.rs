//! The slot of a key, and slots that move.

use super::Cluster;
use crate::cmd;
use crate::talk::Expect;
use crc::{CRC_16_XMODEM, Crc};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;
/// The first and the last slot of each range.
pub type Slots = Vec<(u16, u16)>;

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
    /// `CLUSTER SETSLOT slot state other` on a node.
    #[track_caller]
    pub fn set_slot(&self, node: usize, slot: u16, state: &str, other: usize) {
        let (slot, other) = (slot.to_string(), self.id(other));
        self.order(node, &["SETSLOT", &slot, state, &other]);
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
}
