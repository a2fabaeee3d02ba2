//! When kept grants are renewed.
//!
//! A grant is due when a third of its lease has passed. Where nothing may be renewed, it is looked at
//! again when only a third is left.
//!
//! Those that are late after a stall or a hold-up are found nearest end first: the order of ends is looked
//! through once. All else is taken in the order in which it came due.

use std::time::Duration;

use super::grants::{GrantId, GrantName, KeptGrant};
use super::hearing::Now;
use super::lease::{again, is_short, short_at};
use super::registry::KeptGrants;
use crate::{Deadline, Monotonic};

/// Who is later than this is late: those whose lease ends first go first.
const LATE: Duration = Duration::from_millis(50);
/// How many grants are looked through at a time.
const AT_A_TIME: usize = 1024;

impl KeptGrants {
    /// Takes a grant that is due: to be renewed, or, where its lease has no end (`PERSIST`), only to be
    /// looked at. The caller looks at the lock, and says
    ///
    /// * [`renewed`](KeptGrants::renewed) when it has renewed it;
    /// * [`seen`](KeptGrants::seen) when its lease has no end;
    /// * [`lost`](KeptGrants::lost) when the grant does not stand any more;
    /// * [`cannot_renew`](KeptGrants::cannot_renew) when this lock may not be written now.
    ///
    /// Where it says nothing, the grant is due again a little later.
    pub fn take_due(&mut self, now: Now) -> Option<KeptGrant> {
        let is_late = |(at, _): &(Monotonic, GrantId)| now.monotonic.since(*at) > LATE;
        let was_held_up = std::mem::take(&mut self.held_up);
        if was_held_up {
            self.late = Some((0, 0));
        } else if self.timers.first().is_some_and(is_late) {
            self.late.get_or_insert((0, 0));
        }
        if let Some(from) = self.late {
            let mut looked_through = 0;
            let mut found = None;
            let mut last = None;
            for (end, id) in self.ends.range(from..).take(AT_A_TIME) {
                looked_through += 1;
                last = Some((*end, *id + 1));
                if self.is_due(*id, now) {
                    found = Some(*id);
                    break;
                }
            }
            self.late = last.filter(|_| found.is_some() || looked_through == AT_A_TIME);
            if let Some(id) = found {
                return self.take(id, now);
            }
        }
        for _ in 0..AT_A_TIME {
            let (at, id) = self.timers.first().copied()?;
            if at > now.monotonic {
                return None;
            }
            if self.is_kept(id) {
                return self.take(id, now);
            }
            self.remove(id);
        }
        None
    }

    /// A grant that is due, if any is, to try whether it may be renewed. Nothing changes: where nothing may
    /// be renewed, [`take_short`](KeptGrants::take_short) comes next.
    #[must_use]
    pub fn to_try(&self, now: Now) -> Option<KeptGrant> {
        let is_due = |id: &GrantId| self.is_due(*id, now);
        let was_held_up = self.held_up || self.late.is_some();
        let nearest = if was_held_up {
            let ends = self.ends.iter().take(AT_A_TIME);
            ends.map(|(_, id)| *id).find(is_due)
        } else {
            None
        };
        let due = nearest.or_else(|| {
            let timers = self.timers.iter().take(AT_A_TIME);
            let passed = timers.take_while(|(at, _)| *at <= now.monotonic);
            passed.map(|(_, id)| *id).find(is_due)
        });
        self.kept(due?)
    }

    /// While nothing may be renewed: takes a due grant of which, as far as is known, less than a third of
    /// the lease is left. The caller looks at the lock, and says
    /// [`cannot_renew`](KeptGrants::cannot_renew), or [`lost`](KeptGrants::lost) when the grant does not
    /// stand any more.
    pub fn take_short(&mut self, now: Now) -> Option<KeptGrant> {
        for _ in 0..AT_A_TIME {
            let (at, id) = self.timers.first().copied()?;
            if at > now.monotonic {
                return None;
            }
            if !self.is_kept(id) {
                self.remove(id);
                continue;
            }
            let node = self.grants.get(id)?;
            let (lease, deadline) = (node.lease, node.deadline);
            let again = now.monotonic.plus(again(lease));
            if !node.in_ends {
                self.set_due(id, again, node.due.is_held_up);
                continue;
            }
            self.held_up = true;
            if is_short(lease, deadline, now) {
                self.set_due(id, again, true);
                return self.kept(id);
            }
            self.set_due(id, short_at(lease, deadline, now), true);
        }
        None
    }

    /// A due grant with this deadline cannot be renewed now. What comes back is the client to close, where
    /// less than a third of the lease is left.
    pub fn cannot_renew(
        &mut self,
        name: GrantName<'_>,
        deadline: Deadline,
        now: Now,
    ) -> Option<u64> {
        let id = self.find(name)?;
        self.set_end(id, deadline);
        let nothing_is_renewed = self.held_up;
        let lease = self.grants.get(id)?.lease;
        if is_short(lease, deadline, now) {
            return self.lose(id);
        }
        let short_at = short_at(lease, deadline, now);
        let again = now.monotonic.plus(again(lease));
        let timer = if nothing_is_renewed {
            short_at
        } else {
            again.min(short_at)
        };
        self.set_due(id, timer, deadline != Deadline::Never);
        None
    }

    /// The kept grants of this lock that are due: they are renewed before a command on the lock. The
    /// caller answers as for [`take_due`](KeptGrants::take_due).
    #[must_use]
    pub fn due_of(&self, database: i32, key: &[u8], now: Now) -> Vec<KeptGrant> {
        let due = self.grants.due_of(database, key, now.monotonic);
        due.filter(|id| self.is_kept(*id))
            .filter_map(|id| self.kept(id))
            .collect()
    }

    /// True when [`due_of`](KeptGrants::due_of) has any.
    #[must_use]
    pub fn has_due_of(&self, database: i32, key: &[u8], now: Now) -> bool {
        let mut due = self.grants.due_of(database, key, now.monotonic);
        due.any(|id| self.is_kept(id))
    }

    /// When a grant is due next, if nothing changes.
    #[must_use]
    pub fn next_due(&self) -> Option<Monotonic> {
        if self.held_up || self.late.is_some() {
            return Some(Monotonic(0));
        }
        self.timers.first().map(|(at, _)| *at)
    }

    /// While nothing may be renewed: when to ask [`take_short`](KeptGrants::take_short) next.
    #[must_use]
    pub fn next_short(&self) -> Option<Monotonic> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn is_due(&self, id: GrantId, now: Now) -> bool {
        let Some(node) = self.grants.get(id) else {
            return false;
        };
        node.due.since() <= now.monotonic && self.is_known(node.connection)
    }

    fn take(&mut self, id: GrantId, now: Now) -> Option<KeptGrant> {
        let again = again(self.grants.get(id)?.lease);
        self.set_due(id, now.monotonic.plus(again), false);
        self.kept(id)
    }
}
