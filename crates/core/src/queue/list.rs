//! Linked lists of calls over one table.

use super::WaiterId;

/// The first and last call of a list, and its length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    pub(super) first: Option<WaiterId>,
    pub(super) last: Option<WaiterId>,
    pub(super) length: usize,
}

/// A node's neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    pub(super) previous: Option<WaiterId>,
    pub(super) next: Option<WaiterId>,
}

impl List {
    /// Appends `id`; returns the links of its node.
    pub(super) fn append(&mut self, id: WaiterId) -> Links {
        let previous = self.last.replace(id);
        if previous.is_none() {
            self.first = Some(id);
        }
        self.length += 1;
        Links {
            previous,
            next: None,
        }
    }

    /// Removes the node that had these links.
    pub(super) fn remove(&mut self, removed: Links) {
        if removed.previous.is_none() {
            self.first = removed.next;
        }
        if removed.next.is_none() {
            self.last = removed.previous;
        }
        self.length -= 1;
    }
}
