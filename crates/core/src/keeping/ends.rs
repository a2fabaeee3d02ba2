//! The ends of kept leases, by the wall clock.

use super::grants::{GrantName, KeptGrant};
use super::hearing::Now;
use super::lease::{again, left, short_at, third};
use super::registry::KeptGrants;
use crate::{Deadline, UnixTime};

impl KeptGrants {
    /// The earliest end of a kept lease that is known, in milliseconds since 1970.
    #[must_use]
    pub fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// True when the lease of a kept grant of this lock has ended, as far as is known.
    #[must_use]
    pub fn has_ended(&self, database: i32, key: &[u8], now: UnixTime) -> bool {
        let ids = self.grants.of_lock(database, key);
        ids.into_iter().any(|id| {
            let node = self.grants.get(id);
            node.is_some_and(|node| node.deadline < Deadline::At(now.millis()))
        })
    }

    /// Takes a kept grant whose lease has ended, as far as is known. The caller looks at the lock, and
    /// says [`seen`](KeptGrants::seen) where the grant stands and [`lost`](KeptGrants::lost) where it does
    /// not.
    pub fn take_ended(&mut self, now: UnixTime) -> Option<KeptGrant> {
        while let Some((end, id)) = self.ends.first().copied() {
            // A lease that ends at a time is held at it.
            if end >= now.millis() {
                return None;
            }
            self.ends.pop_first();
            if let Some(node) = self.grants.get_mut(id) {
                node.in_ends = false;
            }
            if self.is_kept(id) {
                return self.kept(id);
            }
        }
        None
    }

    /// The caller has looked at a grant, and it stands with this deadline. Nothing has changed it but
    /// perhaps a `PEXPIRE` or `PERSIST` by hand, and it is renewed when it would have been. What comes
    /// back is the client to close, where the deadline has passed.
    pub fn seen(&mut self, name: GrantName<'_>, deadline: Deadline, now: Now) -> Option<u64> {
        let id = self.find(name)?;
        let nothing_is_renewed = self.held_up;
        if deadline < Deadline::At(now.unix.millis()) {
            return self.lose(id);
        }
        let node = self.grants.get(id)?;
        let (before, lease, before_it) = (node.deadline, node.lease, node.due.timer);
        let is_held_up = node.due.is_held_up && deadline != Deadline::Never;
        self.set_end(id, deadline);
        let timer = match (before, deadline) {
            (Deadline::At(_), Deadline::Never) => now.monotonic.plus(again(lease)),
            // A PERSIST is lifted: the third is counted anew, if that is not too late.
            (Deadline::Never, Deadline::At(_)) => {
                let wait = third(lease).min(left(deadline, now) / 2);
                now.monotonic.plus(wait)
            }
            _ if is_held_up && nothing_is_renewed => short_at(lease, deadline, now),
            _ if is_held_up => before_it.min(short_at(lease, deadline, now)),
            _ => before_it,
        };
        self.set_due(id, timer, is_held_up);
        None
    }

    /// No lease of this lock ends later than this: a cut by hand is made lasting.
    pub fn cut(&mut self, database: i32, key: &[u8], at: u64) {
        for id in self.grants.of_lock(database, key) {
            if let Some(node) = self.grants.get(id)
                && node.deadline > Deadline::At(at)
            {
                self.set_end(id, Deadline::At(at));
            }
        }
    }

    /// The next grant to look at, of all in turn. The caller answers as for
    /// [`take_ended`](KeptGrants::take_ended).
    pub fn next_to_look_at(&mut self) -> Option<KeptGrant> {
        let (time, id) = self.looked_at;
        let next = self.timers.range((time, id + 1)..).next();
        let next = next.or_else(|| self.timers.first()).copied()?;
        self.looked_at = next;
        let (_, id) = next;
        if self.is_kept(id) {
            self.kept(id)
        } else {
            None
        }
    }
}
