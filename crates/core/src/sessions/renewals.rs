//! Finds the grants to renew.
//!
//! A grant is due when a third of its remembered lease has passed. While the server refuses writes, the caller does not
//! ask for due grants, and they stay due. Afterwards, and after a stall, the grants are renewed in the order of their
//! ends.

use std::collections::BTreeSet;
use std::time::Duration;

use super::clock::Now;
use super::grants::{GrantId, Node, SessionGrant};
use super::registry::Sessions;
use super::session::SessionId;
use crate::{Deadline, Lease, Monotonic};

/// If a renewal is later than this, grants are renewed in the order of their ends.
const LATE: Duration = Duration::from_millis(50);
/// How long one walk through late grants lasts. A new walk then includes grants that have become due meanwhile.
const ROUND: Duration = Duration::from_millis(200);
/// How many grants one search checks.
const AT_A_TIME: usize = 1024;

/// Returns true for a lease that a grant in a session may have, which is a second or more.
#[must_use]
pub const fn can_renew(lease: Lease) -> bool {
    lease.millis() >= 1000
}

pub(super) fn third(lease: Lease) -> Duration {
    Duration::from_millis(lease.millis()) / 3
}

/// How long to wait before a lease without an end is checked again, or a failed renewal is tried again.
pub(super) fn again(lease: Lease) -> Duration {
    let often = Duration::from_millis(lease.millis()) / 30;
    often.clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// A walk through the grants of all late sessions by their ends.
#[derive(Debug)]
pub(super) struct Late {
    until: Monotonic,
    /// The next grant of each session.
    next: BTreeSet<(u64, GrantId, SessionId)>,
}

impl Sessions {
    /// A due grant of an attached session. The grant stays due until the caller has opened the lock and called one of
    /// these:
    ///
    /// * [`renewed`](Sessions::renewed) if it has renewed the grant;
    /// * [`seen`](Sessions::seen) if the lease has no end, or a PERSIST was lifted;
    /// * [`lost`](Sessions::lost) if the grant has ended;
    /// * [`not_renewed`](Sessions::not_renewed) if this lock cannot be written now.
    #[must_use]
    pub fn next_due(&mut self, now: Now) -> Option<SessionGrant> {
        self.file_grants();
        let (first, session) = *self.orders.due.first()?;
        if first > now.monotonic {
            return None;
        }
        let late = self.late.as_ref();
        if late.is_none_or(|late| late.until <= now.monotonic) {
            let is_late = now.monotonic.since(first) > LATE;
            self.late = is_late.then(|| self.start_late(now));
        }
        let id = match self.next_late(now) {
            Some(id) => id,
            None => self.live(session)?.due.first()?.1,
        };
        self.grant(id)
    }

    /// Like [`next_due`](Sessions::next_due), but for one session. Call this before its POLL is answered.
    #[must_use]
    pub fn next_due_of(&mut self, session: SessionId, now: Now) -> Option<SessionGrant> {
        self.file_grants();
        let (at, id) = self.live(session)?.due.first()?;
        if *at > now.monotonic {
            return None;
        }
        self.grant(*id)
    }

    /// Returns true if a command on this lock may have to renew or release grants first.
    #[must_use]
    pub fn has_due_of_lock(&self, database: i32, key: &[u8], now: Now) -> bool {
        let lock = self.grants.lock(database, key);
        lock.is_some_and(|lock| {
            let releasing = self.releasing.iter().copied();
            lock.first_due(now.monotonic).is_some() || lock.of_sessions(releasing).is_some()
        })
    }

    /// Like [`next_due`](Sessions::next_due), but for one lock. Call this before each LOCK command on the lock.
    #[must_use]
    pub fn next_due_of_lock(
        &mut self,
        database: i32,
        key: &[u8],
        now: Now,
    ) -> Option<SessionGrant> {
        loop {
            let lock = self.grants.lock(database, key)?;
            let (due, id) = lock.first_due(now.monotonic)?;
            let of = self.grants.get(id)?.grant.session;
            if self.live(of).is_some_and(|of| of.is_attached) {
                return self.grant(id);
            }
            // The session is detached. Remove its grant from the order, so that the next command does not search
            // through thousands of such grants again.
            if !self.grants.lock_mut(database, key)?.park(due, id) {
                return None;
            }
        }
    }

    /// Records that the server has renewed a grant, which now has this deadline.
    pub fn renewed(&mut self, grant: &SessionGrant, deadline: Deadline, now: Now) {
        self.set(
            grant.id,
            grant.lease,
            deadline,
            now.plus(third(grant.lease)),
        );
        self.counts.renewals += 1;
    }

    /// Records that a due grant cannot be renewed now. It is due again a little later.
    pub fn not_renewed(&mut self, grant: &SessionGrant, now: Now) {
        let due = now.plus(again(grant.lease));
        self.set(grant.id, grant.lease, grant.deadline, due);
    }

    /// When the next grant is due.
    #[must_use]
    pub fn next_due_at(&self) -> Option<Monotonic> {
        let is_attached = |node: &&Node| {
            let session = self.live(node.grant.session);
            session.is_some_and(|session| session.is_attached)
        };
        let unfiled = self.unfiled().filter(is_attached).map(|node| node.due);
        let first = self.orders.due.first().map(|(at, _)| *at);
        unfiled.chain(first).min()
    }

    fn start_late(&self, now: Now) -> Late {
        let due = self.orders.due.range(..=(now.monotonic, SessionId::MAX));
        let first = |(_, id): &(Monotonic, SessionId)| {
            let (end, grant) = self.live(*id)?.ends.first()?;
            Some((*end, *grant, *id))
        };
        Late {
            until: now.plus(ROUND),
            next: due.filter_map(first).collect(),
        }
    }

    /// The late grant whose lease ends first, if the search finds one among the next [`AT_A_TIME`] grants.
    fn next_late(&mut self, now: Now) -> Option<GrantId> {
        let mut late = self.late.take()?;
        let mut found = None;
        for _ in 0..AT_A_TIME {
            let Some((end, id, session)) = late.next.pop_first() else {
                break;
            };
            let Some(of) = self.live(session).filter(|of| of.is_attached) else {
                continue;
            };
            if of.first_due().is_some_and(|at| at <= now.monotonic)
                && let Some((next_end, next_id)) = of.ends.range((end, id + 1)..).next()
            {
                // The next grant of the session replaces this one in the walk.
                late.next.insert((*next_end, *next_id, session));
            }
            let node = self.grants.get(id);
            if node.is_some_and(|node| node.grant.session == session && node.due <= now.monotonic) {
                found = Some(id);
                break;
            }
        }
        self.late = Some(late);
        found
    }
}
