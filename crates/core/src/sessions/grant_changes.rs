//! Grants join sessions, change, leave and are lost.

use super::clock::Now;
use super::event::{EventKind, LossReason};
use super::grants::{GrantId, GrantName, SessionGrant};
use super::registry::Sessions;
use super::renewals::{again, third};
use super::session::SessionId;
use crate::{Deadline, Lease, OwnerBuf, Token};

impl Sessions {
    /// Puts a grant into a session, after a call with `SESSION id`. The session that had it before gets the
    /// event `taken`.
    pub fn join(
        &mut self,
        session: SessionId,
        name: GrantName<'_>,
        owner: &OwnerBuf,
        lease: Lease,
        deadline: Deadline,
        now: Now,
    ) {
        if self.live(session).is_none() {
            return;
        }
        let (lock_id, present) = self.grants.locate(name);
        match present {
            Some((_, of)) if of == session => return self.changed(name, lease, deadline, now),
            Some((id, _)) => self.take(id, Some(session)),
            None => {}
        }
        let grant = SessionGrant {
            session,
            lock_id,
            owner: owner.clone(),
            token: name.token,
            lease,
            deadline,
            id: 0,
        };
        self.add(grant, now.plus(third(lease)));
    }

    /// Takes a grant out of its session (`SESSION 0`), which gets the event `taken`.
    pub fn take_out(&mut self, name: GrantName<'_>) {
        if let Some((id, _)) = self.find(name) {
            self.take(id, None);
        }
    }

    /// Records the lease of a grant after a call that leaves it in its session: a re-entry, a renewal, or a
    /// release that leaves holds.
    pub fn changed(&mut self, name: GrantName<'_>, lease: Lease, deadline: Deadline, now: Now) {
        let Some((id, session)) = self.find(name) else {
            return;
        };
        let Some(node) = self.grants.get(id) else {
            return;
        };
        let before = &node.grant;
        let is_shorter = deadline < before.deadline || lease < before.lease;
        let due = now.plus(third(lease));
        self.set(id, lease, deadline, due);
        if is_shorter {
            self.update_poll(session, |poll| poll.hurry(due));
        }
    }

    /// Records the raised token of a grant.
    pub fn raised(&mut self, name: GrantName<'_>, to: Token) {
        if let Some((id, _)) = self.find(name) {
            self.grants.raise(id, to);
        }
    }

    /// Ends all leases of this lock at `end` at the latest: a PEXPIRE by hand becomes permanent. O(h).
    pub fn cap_ends(&mut self, database: i32, key: &[u8], end: u64) {
        for id in self.grants.of_lock(database, key) {
            if let Some(node) = self.grants.get(id)
                && node.grant.deadline > Deadline::At(end)
            {
                let (lease, due) = (node.grant.lease, node.due);
                self.set(id, lease, Deadline::At(end), due);
            }
        }
    }

    /// Removes a grant whose last hold was released. `by` is the session that the call named. If the grant
    /// belongs to another one, that one gets the event `lost`.
    pub fn released(&mut self, name: GrantName<'_>, by: Option<SessionId>, now: Now) {
        let Some((id, session)) = self.find(name) else {
            return;
        };
        if by == Some(session) {
            self.remove(id);
        } else {
            self.lose(id, LossReason::Released, now);
        }
    }

    /// Removes a grant that a blocked call gave back because its client has disconnected. This raises no event.
    pub fn given_back(&mut self, name: GrantName<'_>) {
        if let Some((id, _)) = self.find(name) {
            self.remove(id);
        }
    }

    /// Removes a grant that was lost. Call this before the lock is granted to anybody else.
    ///
    /// If the end of the lease has passed, the reason is [`LossReason::Expired`] and `reason` is ignored: Redis
    /// 7.0 does not report why a key was removed.
    pub fn lost(&mut self, name: GrantName<'_>, reason: LossReason, now: Now) {
        if let Some((id, _)) = self.grants.find(name) {
            self.lose(id, reason, now);
        }
    }

    /// Removes all grants of a lock, which were lost.
    pub fn lost_lock(&mut self, database: i32, key: &[u8], reason: LossReason, now: Now) {
        for id in self.grants.of_lock(database, key) {
            self.lose(id, reason, now);
        }
    }

    /// The grant whose lease ended first, of all open sessions. The caller looks at the lock and calls
    /// [`lost`](Sessions::lost) or [`seen`](Sessions::seen). Until then the answer stays the same.
    #[must_use]
    pub fn next_ended(&mut self, now: Now) -> Option<SessionGrant> {
        self.file_grants();
        let (end, session) = self.orders.ends.first()?;
        // The lock is held during the last millisecond of its lease.
        if *end >= now.unix.millis() {
            return None;
        }
        let (_, id) = self.live(*session)?.ends.first()?;
        Some(self.grants.get(*id)?.grant.clone())
    }

    /// The earliest known end of a lease, in milliseconds since 1970.
    #[must_use]
    pub fn next_end_at(&self) -> Option<u64> {
        let ends = self.unfiled().filter_map(|node| match node.grant.deadline {
            Deadline::At(end) => Some(end),
            Deadline::Never => None,
        });
        ends.chain(self.orders.ends.first().map(|(end, _)| *end))
            .min()
    }

    /// Records the deadline that the caller found, which a PEXPIRE or PERSIST may have changed. The next
    /// renewal is not moved. A grant whose deadline has passed is lost.
    pub fn seen(&mut self, name: GrantName<'_>, deadline: Deadline, now: Now) {
        let Some((id, _)) = self.find(name) else {
            return;
        };
        let Some(node) = self.grants.get(id) else {
            return;
        };
        let (lease, before, due) = (node.grant.lease, node.grant.deadline, node.due);
        if deadline < Deadline::At(now.unix.millis()) {
            return self.lose(id, LossReason::Expired, now);
        }
        let due = match (before, deadline) {
            (_, Deadline::Never) => now.plus(again(lease)),
            // A PERSIST was undone: a third of the lease is counted from now.
            (Deadline::Never, Deadline::At(_)) => now.plus(third(lease)),
            (Deadline::At(_), Deadline::At(_)) => due,
        };
        self.set(id, lease, deadline, due);
    }

    fn take(&mut self, id: GrantId, to: Option<SessionId>) {
        if let Some(grant) = self.remove(id) {
            let kind = EventKind::Taken {
                token: grant.token,
                session: to,
            };
            self.report(grant.session, &grant.lock_id.key, &grant.owner, kind);
        }
    }

    pub(super) fn lose(&mut self, id: GrantId, reason: LossReason, now: Now) {
        if let Some(grant) = self.remove(id) {
            let reason = self.flushed.reason_of(&grant).unwrap_or(reason);
            let has_ended = grant.deadline < Deadline::At(now.unix.millis());
            let reason = if has_ended {
                LossReason::Expired
            } else {
                reason
            };
            let kind = EventKind::Lost {
                token: grant.token,
                reason,
            };
            self.report(grant.session, &grant.lock_id.key, &grant.owner, kind);
        }
    }
}
