//! What calls and events change in the grants of sessions.

use super::clock::Now;
use super::event::{EventKind, LossReason};
use super::grants::{GrantId, GrantName, SessionGrant};
use super::registry::Sessions;
use super::renewals::{again, third};
use super::session::SessionId;
use crate::{Deadline, Lease, Monotonic, OwnerBuf, Token};

impl Sessions {
    /// A call with `SESSION id` got or renewed this grant: it belongs to the session from now on. Another session that
    /// had it gets the event `taken`.
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
        if let Some(id) = self.grants.find(name) {
            let of = self.grants.get(id).map(|node| node.grant.session);
            if of == Some(session) {
                return self.changed(name, lease, deadline, now);
            }
            self.take(id, Some(session));
        }
        let grant = SessionGrant {
            session,
            lock_id: self.grants.lock_id(name.database, name.key),
            owner: owner.clone(),
            token: name.token,
            lease,
            deadline,
            id: 0,
        };
        self.add(grant, due(lease, deadline, now));
        self.hurry_poll(session, lease, now);
    }

    /// `SESSION 0` takes the grant out of its session, which gets the event `taken`.
    pub fn take_out(&mut self, name: GrantName<'_>) {
        if let Some(id) = self.find(name) {
            self.take(id, None);
        }
    }

    /// A call without SESSION, or with that of the grant, has re-entered or renewed it, or has released some holds: this
    /// is its lease now.
    pub fn changed(&mut self, name: GrantName<'_>, lease: Lease, deadline: Deadline, now: Now) {
        let Some(id) = self.find(name) else { return };
        let Some(node) = self.grants.get(id) else {
            return;
        };
        let before = &node.grant;
        let is_shorter = deadline < before.deadline || lease < before.lease;
        let session = before.session;
        self.set(id, lease, deadline, due(lease, deadline, now));
        if is_shorter {
            self.hurry_poll(session, lease, now);
        }
    }

    /// The token of a grant was raised.
    pub fn raised(&mut self, name: GrantName<'_>, to: Token) {
        if let Some(id) = self.find(name) {
            self.grants.raise(id, to);
        }
    }

    /// No lease of this lock ends later than at `end`: a cut by hand is made lasting.
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

    /// The last hold of a grant was released, by a call that names the session `by`. The grant's session gets the event
    /// `lost` if that is another.
    pub fn released(&mut self, name: GrantName<'_>, by: Option<SessionId>, now: Now) {
        let Some(id) = self.find(name) else { return };
        let session = self.grants.get(id).map(|node| node.grant.session);
        if by == session {
            self.remove(id);
        } else {
            self.lose(id, LossReason::Released, now);
        }
    }

    /// A blocked call gave back its grant, since its client is gone. That is no event.
    pub fn given_back(&mut self, name: GrantName<'_>) {
        if let Some(id) = self.find(name) {
            self.remove(id);
        }
    }

    /// A grant was lost. To be told before the lock is granted to anybody else.
    ///
    /// A grant whose known end has passed was lost by that, whatever `reason` says: an old server tells a module only
    /// that a key is gone.
    pub fn lost(&mut self, name: GrantName<'_>, reason: LossReason, now: Now) {
        if let Some(id) = self.grants.find(name) {
            self.lose(id, reason, now);
        }
    }

    /// All grants of a lock were lost.
    pub fn lost_lock(&mut self, database: i32, key: &[u8], reason: LossReason, now: Now) {
        for id in self.grants.of_lock(database, key) {
            self.lose(id, reason, now);
        }
    }

    /// All grants of a database were lost. O(n).
    pub fn lost_database(&mut self, database: i32, reason: LossReason, now: Now) {
        for id in self.grants.of_database(database) {
            self.lose(id, reason, now);
        }
    }

    /// All grants were lost. O(n).
    pub fn lost_all(&mut self, reason: LossReason, now: Now) {
        for database in self.grants.databases() {
            self.lost_database(database, reason, now);
        }
    }

    /// A grant whose lease has ended as far as is known, of any open session, the earliest first. The caller looks at the lock,
    /// and says [`lost`](Sessions::lost) or [`seen`](Sessions::seen).
    #[must_use]
    pub fn next_ended(&self, now: Now) -> Option<SessionGrant> {
        let (end, session) = self.orders.ends.first()?;
        // A lease that ends in a millisecond is held during it.
        if *end >= now.unix.millis() {
            return None;
        }
        let (_, id) = self.live(*session)?.ends.first()?;
        Some(self.grants.get(*id)?.grant.clone())
    }

    /// The earliest known end of a lease, in milliseconds since 1970.
    #[must_use]
    pub fn next_end_at(&self) -> Option<u64> {
        self.orders.ends.first().map(|(end, _)| *end)
    }

    /// The caller has looked at a grant, which stands with this deadline: PEXPIRE or PERSIST may have changed it. Its
    /// next renewal stays. A grant whose deadline has passed is lost.
    pub fn seen(&mut self, name: GrantName<'_>, deadline: Deadline, now: Now) {
        let Some(id) = self.find(name) else { return };
        let Some(node) = self.grants.get(id) else {
            return;
        };
        let (lease, before, due) = (node.grant.lease, node.grant.deadline, node.due);
        if deadline < Deadline::At(now.unix.millis()) {
            return self.lose(id, LossReason::Expired, now);
        }
        let due = match (before, deadline) {
            (_, Deadline::Never) => now.monotonic.plus(again(lease)),
            // A PERSIST is lifted: the third is counted anew.
            (Deadline::Never, Deadline::At(_)) => now.monotonic.plus(third(lease)),
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

    fn lose(&mut self, id: GrantId, reason: LossReason, now: Now) {
        if let Some(grant) = self.remove(id) {
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

/// When a grant is due whose lease starts now.
pub(super) fn due(lease: Lease, deadline: Deadline, now: Now) -> Monotonic {
    match deadline {
        Deadline::At(_) => now.monotonic.plus(third(lease)),
        Deadline::Never => now.monotonic.plus(again(lease)),
    }
}
