//! POLL: who may poll a session, when a POLL is answered, and the reply.
//!
//! The caller reports a POLL with [`poll`](Sessions::poll), renews the due grants of the session
//! ([`next_due_of`](Sessions::next_due_of)) and calls [`answer`](Sessions::answer), which returns the reply or lets the
//! POLL wait. [`next_poll`](Sessions::next_poll) returns each session whose POLL has to be judged again.

use std::time::Duration;

use super::clock::Now;
use super::event::Event;
use super::registry::Sessions;
use super::session::{Session, SessionId};
use crate::Monotonic;

/// The maximum number of events in a reply.
const MOST_EVENTS: usize = 1000;
/// The longest wait of a POLL.
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// A short lease ends no wait earlier than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// How long a POLL may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Not at all.
    No,
    /// At most this long.
    For(Duration),
    /// As long as the server allows.
    Forever,
}

/// Why a POLL is refused. A refused POLL acknowledges no events and does not count as a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollRefusal {
    /// `NOSESSION`.
    NoSession,
    /// `UNBLOCKED`: a newer connection polls the session.
    NewerConnection,
}

/// A POLL that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Polled {
    /// An older connection, whose waiting POLL the caller answers with `UNBLOCKED`.
    pub displaced: Option<u64>,
    /// True if the session was away. All its calls are eligible again.
    pub was_away: bool,
    /// True if the POLL waits. Otherwise the caller calls [`answer`](Sessions::answer).
    pub waits: bool,
}

/// The reply to a POLL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollReply {
    /// `sure-ms`.
    pub sure_ms: i64,
    /// The number of the session's grants.
    pub grants: usize,
    /// The events, oldest first.
    pub events: Vec<Event>,
}

/// A POLL that is not answered yet.
#[derive(Debug)]
pub(super) struct Poll {
    arrived: Monotonic,
    /// When its wait ends.
    until: Monotonic,
    /// True once the POLL was judged and has to wait.
    is_waiting: bool,
    /// Since when the POLL has to be judged again.
    awake: Option<Monotonic>,
}

impl Poll {
    /// Ends the wait at this time at the latest, because a grant that is due then has joined or was shortened.
    pub(super) fn hurry(&mut self, due: Monotonic) {
        self.until = self.until.min(due);
    }

    pub(super) fn wake(&mut self) {
        self.awake.get_or_insert(self.arrived);
    }

    /// When the caller has to judge the POLL.
    pub(super) fn answer_at(&self) -> Monotonic {
        self.awake.unwrap_or(self.until)
    }
}

impl Sessions {
    /// Checks whether a POLL would be accepted.
    ///
    /// # Errors
    ///
    /// As for [`poll`](Sessions::poll).
    pub fn may_poll(
        &self,
        id: SessionId,
        user: &[u8],
        database: i32,
        client_id: u64,
    ) -> Result<(), PollRefusal> {
        let session = self.live(id);
        let session = session.filter(|session| session.belongs_to(user, database));
        let newest = session.ok_or(PollRefusal::NoSession)?.client_id;
        if client_id < newest {
            Err(PollRefusal::NewerConnection)
        } else {
            Ok(())
        }
    }

    /// Accepts a POLL: takes over from an older connection, attaches the session, and acknowledges the events of
    /// earlier replies on the same connection.
    ///
    /// # Errors
    ///
    /// [`PollRefusal::NoSession`] unless the session is open and belongs to this user and database;
    /// [`PollRefusal::NewerConnection`] if a connection with a higher client id has polled it.
    pub fn poll(
        &mut self,
        id: SessionId,
        user: &[u8],
        database: i32,
        client_id: u64,
        block: Block,
        now: Now,
    ) -> Result<Polled, PollRefusal> {
        self.may_poll(id, user, database, client_id)?;
        self.file_grants();
        let alive = self.alive(now);
        let until = match block {
            Block::No => now.monotonic,
            Block::For(length) => now.plus(length),
            Block::Forever => Monotonic(u64::MAX),
        };
        let poll = Poll {
            arrived: now.monotonic,
            until,
            is_waiting: false,
            awake: Some(now.monotonic),
        };
        let polled = self.update(id, |session| {
            let older = std::mem::replace(&mut session.client_id, client_id);
            if client_id == older {
                session.events.acknowledge();
            } else {
                session.events.answer_again();
            }
            session.heard = alive;
            let was_attached = std::mem::replace(&mut session.is_attached, true);
            let was_away = std::mem::replace(&mut session.is_away, false);
            let displaced = session.poll.replace(poll).map(|_| older);
            // If grants are due, the caller renews them before the POLL is judged.
            let has_due = session.first_due().is_some_and(|due| due <= now.monotonic);
            let waits = !has_due && judge(session, now) == Some(true);
            (
                older,
                was_attached,
                Polled {
                    displaced,
                    was_away,
                    waits,
                },
            )
        });
        let (older, was_attached, polled) = polled.ok_or(PollRefusal::NoSession)?;
        if client_id != older || !was_attached {
            self.clients.remove(&(older, id));
            self.clients.insert((client_id, id));
        }
        self.counts.detached -= usize::from(!was_attached);
        Ok(polled)
    }

    /// Judges the POLL of a session, whose due grants the caller has renewed. Returns `None` if the POLL waits, or if
    /// there is none.
    #[must_use]
    pub fn answer(&mut self, id: SessionId, now: Now) -> Option<PollReply> {
        self.file_grants();
        if self.update(id, |session| judge(session, now))?? {
            return None;
        }
        self.reply(id, MOST_EVENTS, now)
    }

    /// Answers the POLL of a session at once, even without events. For MULTI, where a POLL cannot wait.
    #[must_use]
    pub fn answer_now(&mut self, id: SessionId, now: Now) -> Option<PollReply> {
        self.reply(id, MOST_EVENTS, now)
    }

    /// Answers the POLL of a session at once, without its events. For `CLIENT UNBLOCK`.
    #[must_use]
    pub fn answer_empty(&mut self, id: SessionId, now: Now) -> Option<PollReply> {
        self.reply(id, 0, now)
    }

    /// Records that the server has dropped the last reply to a POLL of this connection, which is still open. So the
    /// next POLL must not acknowledge the events of that reply.
    pub fn unanswered(&mut self, client_id: u64) {
        let replied = |id: &SessionId| self.live(*id).map(|session| session.replied);
        let last = self.polled_by(client_id).into_iter().max_by_key(replied);
        if let Some(id) = last {
            self.update(id, |session| session.events.answer_again());
        }
    }

    /// The session whose POLL is longest overdue to be judged. The caller renews the due grants of the session and
    /// calls [`answer`](Sessions::answer), or [`answer_later`](Sessions::answer_later) if that takes too long.
    #[must_use]
    pub fn next_poll(&self, now: Now) -> Option<SessionId> {
        let (at, id) = self.orders.polls.first()?;
        (*at <= now.monotonic).then_some(*id)
    }

    /// Lets other sessions go first, because this one has too many grants to renew.
    pub fn answer_later(&mut self, id: SessionId, now: Now) {
        self.update_poll(id, |poll| poll.awake = Some(now.monotonic));
    }

    /// When [`next_poll`](Sessions::next_poll) returns a session next, if nothing happens until then.
    #[must_use]
    pub fn next_poll_at(&self) -> Option<Monotonic> {
        self.orders.polls.first().map(|(at, _)| *at)
    }

    pub(super) fn update_poll(&mut self, id: SessionId, change: impl FnOnce(&mut Poll)) {
        self.update(id, |session| session.poll.as_mut().map(change));
    }

    fn reply(&mut self, id: SessionId, max: usize, now: Now) -> Option<PollReply> {
        self.file_grants();
        let (alive, has_flushed) = (self.alive(now), self.has_flushed());
        let reply = self.update(id, |session| {
            let poll = session.poll.take()?;
            (session.heard, session.replied) = (alive, alive);
            let events = session.events.answer(max);
            // The events that are left may be losses, so nothing can be promised.
            let sure_ms = if has_flushed || events.len() < session.events.len() {
                0
            } else {
                sure_ms(session, now.monotonic.since(poll.arrived), now)
            };
            Some(PollReply {
                sure_ms,
                grants: session.grants,
                events,
            })
        });
        reply?
    }
}

/// Judges the POLL of a session. Returns true if it waits, and `None` if there is no POLL.
fn judge(session: &mut Session, now: Now) -> Option<bool> {
    let is_quiet = session.events.len() == 0;
    let longest = longest_wait(session, now);
    let poll = session.poll.as_mut()?;
    if !is_quiet || poll.until <= now.monotonic {
        return Some(false);
    }
    if !std::mem::replace(&mut poll.is_waiting, true) {
        poll.until = poll.until.min(now.plus(longest));
    }
    poll.awake = None;
    Some(true)
}

/// How long after the POLL was sent no lease of the session ends, in milliseconds; -1 if no lease ends by time.
/// `waited` is how long the POLL has waited.
///
/// Never more than the shortest lease. After a backward step of the wall clock more than a whole lease may be left, but
/// the next renewal shortens that to one lease.
fn sure_ms(session: &Session, waited: Duration, now: Now) -> i64 {
    let (Some(end), Some((lease, _))) = (session.first_end(), session.leases.first_key_value())
    else {
        return -1;
    };
    if end < now.unix.millis() {
        // A lease has ended whose loss this reply does not report yet.
        return 0;
    }
    let end = end.min(lease.deadline_from(now.unix).millis());
    let left = end.saturating_mul(1000).saturating_sub(now.unix.micros());
    let sure = Duration::from_micros(left).saturating_add(waited);
    i64::try_from(sure.as_millis()).unwrap_or(i64::MAX)
}

/// How much longer a POLL may wait.
fn longest_wait(session: &Session, now: Now) -> Duration {
    let longest = LONGEST_WAIT.min(session.timeout.length() / 2);
    match session.first_end() {
        None => longest,
        Some(end) => {
            let left = end.saturating_sub(now.unix.millis());
            let third = Duration::from_millis(left) / 3;
            longest.min(third.max(SHORTEST_WAIT))
        }
    }
}
