//! A connection that keeps grants.

use std::collections::{BTreeMap, BTreeSet};

use super::grants::GrantId;
use super::hearing::Alive;
use super::silence::Silence;

/// A connection and what it keeps.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client_id: u64,
    pub(super) grants: BTreeSet<GrantId>,
    /// How many of the grants bear each silence.
    silences: BTreeMap<Silence, usize>,
    /// No sign of it came later than this.
    pub(super) heard: Alive,
    /// When to ask the server for that note.
    pub(super) ask_at: Option<Alive>,
    /// Its client is closed, or is to be: what it kept is put away.
    pub(super) is_forgotten: bool,
}

impl Connection {
    pub(super) fn new(client_id: u64, heard: Alive) -> Self {
        Self {
            client_id,
            grants: BTreeSet::new(),
            silences: BTreeMap::new(),
            heard,
            ask_at: None,
            is_forgotten: false,
        }
    }

    /// The shortest of the silences.
    pub(super) fn silence(&self) -> Option<Silence> {
        self.silences.keys().next().copied()
    }

    pub(super) fn add(&mut self, id: GrantId, silence: Silence) {
        if self.grants.insert(id) {
            *self.silences.entry(silence).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, id: GrantId, silence: Silence) {
        if !self.grants.remove(&id) {
            return;
        }
        if let Some(count) = self.silences.get_mut(&silence) {
            *count -= 1;
            if *count == 0 {
                self.silences.remove(&silence);
            }
        }
    }
}
