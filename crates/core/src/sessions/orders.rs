//! The orders of sessions: by next renewal, next end of a lease, timeout and POLL.

use std::collections::BTreeSet;

use super::session::{Session, SessionId};
use crate::Monotonic;

/// The place of a session in each order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filed {
    /// The next renewal; `None` while the session is detached.
    pub(super) due: Option<Monotonic>,
    /// The next end of a lease.
    pub(super) end: Option<u64>,
    /// When the session becomes away or ends by silence, on the clock without stalls.
    pub(super) timeout: Option<Monotonic>,
    /// When to judge its POLL.
    pub(super) poll: Option<Monotonic>,
}

#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) due: BTreeSet<(Monotonic, SessionId)>,
    pub(super) ends: BTreeSet<(u64, SessionId)>,
    pub(super) timeouts: BTreeSet<(Monotonic, SessionId)>,
    pub(super) polls: BTreeSet<(Monotonic, SessionId)>,
}

impl Orders {
    /// Moves a session to its place in the orders after a change.
    pub(super) fn file(&mut self, id: SessionId, session: &mut Session) {
        let after = session.to_file();
        if after == session.filed {
            return;
        }
        let before = std::mem::replace(&mut session.filed, after);
        file(&mut self.due, before.due, after.due, id);
        file(&mut self.ends, before.end, after.end, id);
        file(&mut self.timeouts, before.timeout, after.timeout, id);
        file(&mut self.polls, before.poll, after.poll, id);
    }
}

fn file<T: Copy + Ord>(
    order: &mut BTreeSet<(T, SessionId)>,
    before: Option<T>,
    after: Option<T>,
    id: SessionId,
) {
    if before == after {
        return;
    }
    if let Some(before) = before {
        order.remove(&(before, id));
    }
    if let Some(after) = after {
        order.insert((after, id));
    }
}
