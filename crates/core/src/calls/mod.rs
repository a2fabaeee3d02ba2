//! The calls that wait for locks, from joining a line until the reply is sent.
//!
//! One table contains every call, with its stage:
//!
//! ```text
//! waiting ──► granted ──► reply written ──► reply sent ──► (forgotten)
//!    │           └──────────────┴──────────────┴──► gives back ──► (forgotten)
//!    └──► (timed out, cancelled, refused, disconnected: forgotten)
//! ```
//!
//! * `join.rs` adds calls to lines and removes them.
//! * `passed_over.rs` lets calls keep their place while calls behind them are granted first.
//! * `unjudged.rs` finds calls that may be re-entries.
//! * `granted.rs` has the stages from the grant on.
//! * `ready.rs` finds the locks to open in the next tick.
//!
//! The indexes find calls by a lock (`lines`, `in_line`, `passed_over`), an owner (`owners`), a client (`clients`), a
//! session (`of_sessions`) or a time (`wait_ends`, `lease_ends`, `sent_ends`). They are ordered sets and maps in parts,
//! so that none of them ever grows all at once.

mod call;
mod give_back;
mod granted;
mod join;
mod line;
mod owners;
mod passed_over;
mod ready;
mod unjudged;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::sessions::SessionId;
use super::shards::Shards;
use super::{Deadline, Holds, Limit, LockId, Monotonic};
use granted::{OfClient, Pending};
use line::{Lengths, Line, Lines};
use owners::Owners;

pub use call::{Call, CallId, QueueWaits, Taken, Waiter};
pub use give_back::GiveBack;
pub use line::LineId;
pub use owners::OwnerWaits;
pub use passed_over::PassOverPlace;

/// All calls of a server that wait, or whose grant may still be given back. `A` is the data that the user of this crate
/// keeps with a call.
#[derive(Debug, Default)]
pub struct Calls<A = ()> {
    table: Shards<CallId, Box<Call<A>>>,
    lines: Lines,
    lengths: Lengths,
    /// The waiting calls that are not passed over, line by line in the order of joining.
    in_line: BTreeSet<(LineId, CallId)>,
    /// The waiting calls that are passed over.
    passed_over: BTreeSet<(LineId, CallId)>,
    /// The calls in line that were not judged with a grant of their owner, so that the owner may hold the lock already.
    unjudged: BTreeSet<(LineId, CallId)>,
    owners: Owners,
    /// Calls with limit 1 that are the first of their owner in their line. A call may be missing if no call with a
    /// wider limit is before it: then the first call of the line has limit 1.
    exclusive: BTreeSet<(LineId, CallId)>,
    clients: Shards<u64, OfClient>,
    /// The waiting calls of each session, line by line.
    of_sessions: BTreeSet<(SessionId, LineId, CallId)>,
    /// How many waiting calls each session has.
    session_counts: Shards<SessionId, usize>,
    /// The granted calls whose reply may not have been sent yet.
    pending: Vec<Pending>,
    wait_ends: BTreeSet<(Monotonic, CallId)>,
    /// The calls whose reply is sent, by the end of their lease.
    sent_ends: BTreeSet<(Deadline, CallId)>,
    /// The lines, by the recorded end of the lease that they wait for.
    lease_ends: BTreeSet<(u64, LineId)>,
    /// The locks with waiting calls, in the order of their turns. `last_turn` is the line that had the last turn, and
    /// `round_end` the last line of this round.
    turns: BTreeMap<LineId, LockId>,
    last_turn: LineId,
    round_end: LineId,
    /// The ready locks in the order of their events, along with locks that are no longer ready.
    ready_keys: VecDeque<LockId>,
    /// This many more locks are ready after `ready_keys`, in the order of their turns.
    all_ready: usize,
    waiting: usize,
    queued: usize,
    giving_back: usize,
    last_id: Option<CallId>,
}

impl<A> Calls<A> {
    /// Returns true if no call waits, no grant is pending and there are no give-backs.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.pending.is_empty()
    }

    /// The number of waiting calls.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// The number of waiting calls that are queued, so that they block no client.
    #[must_use]
    pub const fn queued(&self) -> usize {
        self.queued
    }

    /// Returns true if no call waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The number of calls that wait for this lock.
    #[must_use]
    pub fn waiting(&self, database: i32, key: &[u8]) -> usize {
        self.lines.get(database, key).map_or(0, |line| line.waiting)
    }

    /// The call with this id.
    #[must_use]
    pub fn get(&self, id: CallId) -> Option<&Call<A>> {
        self.table.get(&id).map(|call| &**call)
    }

    /// The data that is kept with a call.
    pub fn attached_mut(&mut self, id: CallId) -> Option<&mut A> {
        self.table.get_mut(&id).map(|call| &mut call.attached)
    }

    /// The first call in the line of a lock.
    #[must_use]
    pub fn first(&self, database: i32, key: &[u8]) -> Option<CallId> {
        self.first_of_line(self.lines.get(database, key)?)
    }

    /// The first call in the line of a lock that is not passed over. No new call is granted the lock before it.
    #[must_use]
    pub fn first_eligible(&self, database: i32, key: &[u8]) -> Option<CallId> {
        self.lines.get(database, key)?.first_eligible
    }

    /// The first call in the line of a lock that is passed over.
    #[must_use]
    pub fn first_passed_over(&self, database: i32, key: &[u8]) -> Option<CallId> {
        let line = self.lines.get(database, key)?.id;
        of_line(&self.passed_over, line).next()
    }

    /// The first call of this owner in the line of a lock.
    #[must_use]
    pub fn first_of(&self, database: i32, key: &[u8], owner: &[u8]) -> Option<CallId> {
        let line = self.lines.get(database, key)?.id;
        self.owners.first_of(owner, line)
    }

    /// The first call of this owner in the line of a lock that is not passed over.
    #[must_use]
    pub fn first_eligible_of(&self, database: i32, key: &[u8], owner: &[u8]) -> Option<CallId> {
        let line = self.lines.get(database, key)?.id;
        self.owners.first_eligible_of(owner, line)
    }

    /// The queued call with this session, owner and hold count in the line of a lock, which a new call with the same
    /// values repeats.
    #[must_use]
    pub fn repeated(
        &self,
        database: i32,
        key: &[u8],
        owner: &[u8],
        (session, holds): (SessionId, Holds),
    ) -> Option<CallId> {
        let line = self.lines.get(database, key)?.id;
        self.owners.all_of(owner, line).find(|id| {
            self.get(*id).is_some_and(|Call { waiter, .. }| {
                let is_same = waiter.session == Some(session) && waiter.holds == Some(holds);
                is_same && waiter.is_queued()
            })
        })
    }

    /// An upper bound for the number of calls before a waiting call.
    #[must_use]
    pub fn place(&self, id: CallId) -> Option<usize> {
        let call = self.get(id).filter(|call| call.is_waiting())?;
        let LockId { database, key } = &call.lock_id;
        let others = self.waiting(*database, key).saturating_sub(1);
        Some(call.place.min(others))
    }

    /// Which locks this owner waits for, in all databases.
    #[must_use]
    pub fn waits_of(&self, owner: &[u8]) -> OwnerWaits {
        self.owners.waits_of(owner)
    }

    /// The first call in the line of a lock that has limit 1 and is the first of its owner there, if it is before this
    /// call. With `None`, if it is before a new call.
    #[must_use]
    pub fn first_exclusive(
        &self,
        database: i32,
        key: &[u8],
        before: Option<CallId>,
    ) -> Option<CallId> {
        let line = self.lines.get(database, key)?;
        let head = self.first_of_line(line)?;
        let first = if self.get(head)?.waiter.limit == Limit::ONE {
            head
        } else {
            of_line(&self.exclusive, line.id).next()?
        };
        before.is_none_or(|before| first < before).then_some(first)
    }

    /// The calls that wait for a lock, in the order of the line.
    pub fn iter(&self, database: i32, key: &[u8]) -> impl Iterator<Item = (CallId, &Call<A>)> {
        let line = self.lines.get(database, key).into_iter();
        let ids = line.flat_map(|line| {
            let mut eligible = of_line(&self.in_line, line.id).peekable();
            let mut passed_over = of_line(&self.passed_over, line.id).peekable();
            std::iter::from_fn(move || match (eligible.peek(), passed_over.peek()) {
                (Some(one), Some(other)) if other < one => passed_over.next(),
                (None, _) => passed_over.next(),
                _ => eligible.next(),
            })
        });
        ids.filter_map(|id| Some((id, self.get(id)?)))
    }

    /// The waiting calls of a session, line by line in the order of joining.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = CallId> {
        let first = (session, LineId::FIRST, CallId::FIRST);
        let calls = self.of_sessions.range(first..=last_of(session));
        calls.map(|(_, _, id)| *id)
    }

    /// How many calls of a session wait.
    #[must_use]
    pub fn waiting_of_session(&self, session: SessionId) -> usize {
        self.session_counts.get(&session).copied().unwrap_or(0)
    }

    /// True when a call of this session waits for a lock.
    #[must_use]
    pub fn session_waits(&self, session: SessionId, database: i32, key: &[u8]) -> bool {
        self.lines.get(database, key).is_some_and(|line| {
            let calls = (session, line.id, CallId::FIRST)..=(session, line.id, CallId::LAST);
            self.of_sessions.range(calls).next().is_some()
        })
    }

    /// The sessions with waiting calls.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        let first = self.of_sessions.first().map(|(session, _, _)| *session);
        first
            .into_iter()
            .flat_map(|first| self.sessions_from(first))
    }

    /// This session, then the sessions with waiting calls and higher ids.
    pub fn sessions_from(&self, first: SessionId) -> impl Iterator<Item = SessionId> {
        std::iter::successors(Some(first), move |session| {
            let calls = (Bound::Excluded(last_of(*session)), Bound::Unbounded);
            let (next, _, _) = self.of_sessions.range(calls).next()?;
            Some(*next)
        })
    }

    /// The call whose wait times out first, and when.
    #[must_use]
    pub fn next_wait_end(&self) -> Option<(Monotonic, CallId)> {
        self.wait_ends.first().copied()
    }

    /// The length of the longest line.
    #[must_use]
    pub const fn max_waiting(&self) -> usize {
        self.lengths.longest()
    }

    /// The current waits for each key of a database.
    pub fn waits(&self, database: i32) -> impl Iterator<Item = (&Arc<[u8]>, QueueWaits)> {
        let lines = self.lines.iter();
        let lines = lines.filter(move |line| line.lock_id.database == database);
        lines.filter_map(|line| {
            let first = self.get(self.first_of_line(line)?)?;
            let waits = QueueWaits {
                count: line.waiting,
                since_sum: line.since_sum,
                first_since: first.waiter.since,
            };
            Some((&line.lock_id.key, waits))
        })
    }
}

impl<A> Calls<A> {
    fn first_of_line(&self, line: &Line) -> Option<CallId> {
        if self.passed_over.is_empty() {
            return line.first_eligible;
        }
        let passed_over = of_line(&self.passed_over, line.id).next();
        line.first_eligible.into_iter().chain(passed_over).min()
    }
}

/// The upper bound of this session's entries in `of_sessions`.
const fn last_of(session: SessionId) -> (SessionId, LineId, CallId) {
    (session, LineId::LAST, CallId::LAST)
}

/// The calls of one line.
fn of_line(calls: &BTreeSet<(LineId, CallId)>, line: LineId) -> impl Iterator<Item = CallId> {
    let calls = calls.range((line, CallId::FIRST)..);
    let calls = calls.take_while(move |(of, _)| *of == line);
    calls.map(|(_, id)| *id)
}

#[cfg(any(test, fuzzing))]
mod checks;
#[cfg(test)]
mod passed_over_tests;
#[cfg(test)]
mod ready_tests;
#[cfg(test)]
mod tests;
