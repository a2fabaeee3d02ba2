//! Which grants are to be renewed.
//!
//! A grant is due when a third of its remembered lease has passed. While writes are blocked, the caller does
//! not ask, and due grants stay due. Afterwards, and after a stall, the nearest end comes first.

use std::collections::BTreeSet;
use std::time::Duration;

use super::clock::Now;
use super::grants::{GrantId, Node, SessionGrant};
use super::registry::Sessions;
use super::session::SessionId;
use crate::{Deadline, Lease, Monotonic};

/// When a grant is later than this, the nearest end comes first.
const LATE: Duration = Duration::from_millis(50);
/// How long late grants are taken in the order of their ends, before a new search includes those that became due
/// meanwhile.
const ROUND: Duration = Duration::from_millis(200);
/// How many grants one search looks at.
const AT_A_TIME: usize = 1024;

/// True for a lease that a grant in a session can have: a second or more.
#[must_use]
pub const fn can_renew(lease: Lease) -> bool {
    lease.millis() >= 1000
}

pub(super) fn third(lease: Lease) -> Duration {
    Duration::from_millis(lease.millis()) / 3
}

/// When to look again at a lease without an end, or after a failed renewal.
pub(super) fn again(lease: Lease) -> Duration {
    let often = Duration::from_millis(lease.millis()) / 30;
    often.clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// A walk through the grants of all late sessions by their ends.
#[derive(Debug)]
pub(super) struct Late {
    until: Monotonic,
    /// The next grant to look at of each session.
    next: BTreeSet<(u64, GrantId, SessionId)>,
}

impl Sessions {
    /// A due grant of an attached session. Until the caller answers, it stays due. The caller looks at the lock
    /// and calls
    ///
    /// * [`renewed`](Sessions::renewed) when it has renewed the grant;
    /// * [`seen`](Sessions::seen) when the lease has no end, or a PERSIST was lifted;
    /// * [`lost`](Sessions::lost) when the grant has ended;
    /// * [`not_renewed`](Sessions::not_renewed) when this lock may not be written now.
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

    /// As [`next_due`](Sessions::next_due), for one session. Call this before its POLL is answered.
    #[must_use]
    pub fn next_due_of(&mut self, session: SessionId, now: Now) -> Option<SessionGrant> {
        self.file_grants();
        let (at, id) = self.live(session)?.due.first()?;
        if *at > now.monotonic {
            return None;
        }
        self.grant(*id)
    }

    /// True when a command on this lock may have something to renew or to release first.
    #[must_use]
    pub fn has_due_of_lock(&self, database: i32, key: &[u8], now: Now) -> bool {
        let lock = self.grants.lock(database, key);
        lock.is_some_and(|lock| {
            let releasing = self.releasing.iter().copied();
            lock.first_due(now.monotonic).is_some() || lock.of_sessions(releasing).is_some()
        })
    }

    /// As [`next_due`](Sessions::next_due), for one lock. Call this before each LOCK command on it.
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
            // The next call must not search through thousands of detached grants again.
            if !self.grants.lock_mut(database, key)?.park(due, id) {
                return None;
            }
        }
    }

    /// The server has renewed a grant, which has this deadline now.
    pub fn renewed(&mut self, grant: &SessionGrant, deadline: Deadline, now: Now) {
        self.set(
            grant.id,
            grant.lease,
            deadline,
            now.plus(third(grant.lease)),
        );
        self.counts.renewals += 1;
    }

    /// A grant that is due cannot be renewed now. It is due again a little later.
    pub fn not_renewed(&mut self, grant: &SessionGrant, now: Now) {
        let due = now.plus(again(grant.lease));
        self.set(grant.id, grant.lease, grant.deadline, due);
    }

    /// When a grant is due next.
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

    /// The late grant whose lease ends first, if it is found among the next [`AT_A_TIME`].
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
                // The session's next grant takes its place.
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
