//! Records that grants join sessions, change, leave their session or are lost.

use super::clock::Now;
use super::event::{EventKind, LossReason};
use super::grants::{GrantId, GrantName, SessionGrant};
use super::registry::Sessions;
use super::renewals::{again, third};
use super::session::SessionId;
use crate::{Deadline, Lease, OwnerBuf, Token};

impl Sessions {
    /// Puts a grant into a session, after a call with `SESSION id`. The session that had the grant before gets the
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

    /// Shortens the leases of a lock to end at `end` at the latest, after a change has applied an administrator's
    /// PEXPIRE. O(h).
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

    /// Removes a grant whose last hold was released. `by` is the session that the call names. If the grant belongs to
    /// another session, that session gets the event `lost`.
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

    /// Removes a lost grant. Call this before the lock is granted to another owner.
    ///
    /// If the lease has ended, the reason is always [`LossReason::Expired`], because Redis 7.0 does not report why a
    /// key was removed.
    pub fn lost(&mut self, name: GrantName<'_>, reason: LossReason, now: Now) {
        if let Some((id, _)) = self.grants.find(name) {
            self.lose(id, reason, now);
        }
    }

    /// Removes all grants of a lost lock.
    pub fn lost_lock(&mut self, database: i32, key: &[u8], reason: LossReason, now: Now) {
        for id in self.grants.of_lock(database, key) {
            self.lose(id, reason, now);
        }
    }

    /// The grant whose recorded lease ended first, of all open sessions. The caller checks the lock and calls
    /// [`lost`](Sessions::lost) or [`seen`](Sessions::seen). Until then this returns the same grant.
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

    /// The earliest recorded end of a lease, in milliseconds since 1970.
    #[must_use]
    pub fn next_end_at(&self) -> Option<u64> {
        let ends = self.unfiled().filter_map(|node| match node.grant.deadline {
            Deadline::At(end) => Some(end),
            Deadline::Never => None,
        });
        ends.chain(self.orders.ends.first().map(|(end, _)| *end))
            .min()
    }

    /// Records the deadline that the caller found in the lock, which a PEXPIRE or PERSIST may have changed. A grant
    /// whose deadline has passed is lost. The time of the next renewal stays, unless the deadline is or was `Never`.
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
            // A PERSIST was lifted, so a third of the lease is counted from now.
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
