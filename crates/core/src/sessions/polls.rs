//! POLL: who may poll, when a POLL is answered, and with what.
//!
//! A POLL arrives by [`poll`](Sessions::poll). The caller renews the due grants of the session
//! ([`next_due_of`](Sessions::next_due_of)) and asks [`answer`](Sessions::answer), which gives the reply or lets the
//! POLL wait. [`next_poll`](Sessions::next_poll) names each session whose POLL is to be judged again.

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
    /// As long as the server lets it.
    Forever,
}

/// Why a POLL is refused. A refused POLL acknowledges nothing and is no sign of life.
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
    /// The session was away: all its calls are eligible again.
    pub was_away: bool,
    /// It waits. Otherwise the caller asks for the [`answer`](Sessions::answer).
    pub waits: bool,
}

/// The reply to a POLL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollReply {
    /// `sure-ms`.
    pub sure_ms: i64,
    /// How many grants the session has.
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
    /// The caller has judged it, and it waits.
    is_waiting: bool,
    /// Since when it is to be judged.
    awake: Option<Monotonic>,
}

impl Poll {
    /// A grant that is due at this time has joined, or its lease was shortened: the wait ends by then.
    pub(super) fn hurry(&mut self, due: Monotonic) {
        self.until = self.until.min(due);
    }

    pub(super) fn wake(&mut self) {
        self.awake.get_or_insert(self.arrived);
    }

    /// When the caller is to judge it.
    pub(super) fn answer_at(&self) -> Monotonic {
        self.awake.unwrap_or(self.until)
    }
}

impl Sessions {
    /// Whether a POLL would be accepted.
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

    /// A POLL arrives. It takes over from an older connection, attaches the session, and acknowledges the
    /// events of the earlier replies on its connection.
    ///
    /// # Errors
    ///
    /// [`PollRefusal::NoSession`] unless the session is open, of this user and in this database;
    /// [`PollRefusal::NewerConnection`] when a connection with a higher client id has polled it.
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
            // Due grants are renewed first.
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

    /// Judges the POLL of a session. The caller has renewed the due grants. `None` while the POLL waits, or if there is
    /// none.
    #[must_use]
    pub fn answer(&mut self, id: SessionId, now: Now) -> Option<PollReply> {
        self.file_grants();
        if self.update(id, |session| judge(session, now))?? {
            return None;
        }
        self.reply(id, MOST_EVENTS, now)
    }

    /// Answers the POLL of a session now, without a wait: in MULTI.
    #[must_use]
    pub fn answer_now(&mut self, id: SessionId, now: Now) -> Option<PollReply> {
        self.reply(id, MOST_EVENTS, now)
    }

    /// Answers the POLL of a session now, with no events: after `CLIENT UNBLOCK`.
    #[must_use]
    pub fn answer_empty(&mut self, id: SessionId, now: Now) -> Option<PollReply> {
        self.reply(id, 0, now)
    }

    /// The server has dropped the last reply to a POLL of this connection, which is still open. Its events are not
    /// answered, so the next POLL does not acknowledge them.
    pub fn unanswered(&mut self, client_id: u64) {
        let replied = |id: &SessionId| self.live(*id).map(|session| session.replied);
        let last = self.polled_by(client_id).into_iter().max_by_key(replied);
        if let Some(id) = last {
            self.update(id, |session| session.events.answer_again());
        }
    }

    /// A session whose POLL is to be judged, the longest overdue first. The caller renews the due grants of the session
    /// and calls [`answer`](Sessions::answer). If that takes too long it calls
    /// [`answer_later`](Sessions::answer_later).
    #[must_use]
    pub fn next_poll(&self, now: Now) -> Option<SessionId> {
        let (at, id) = self.orders.polls.first()?;
        (*at <= now.monotonic).then_some(*id)
    }

    /// Other sessions come first: this one has too many grants to renew.
    pub fn answer_later(&mut self, id: SessionId, now: Now) {
        self.update_poll(id, |poll| poll.awake = Some(now.monotonic));
    }

    /// When [`next_poll`](Sessions::next_poll) returns a session, if nothing happens until then.
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
            // Unreported events may be losses.
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

/// True when the POLL of a session waits; `None` if there is none.
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

/// For how long after the POLL was sent no lease of the session ends, in milliseconds; -1 when none ends by time.
/// `waited` is how long the POLL has waited.
///
/// After the wall clock was set back a lease may have more left than its length. The next renewal sets its end to one
/// lease from then, which is earlier. So no more than the length of the shortest lease is promised.
fn sure_ms(session: &Session, waited: Duration, now: Now) -> i64 {
    let (Some(end), Some((lease, _))) = (session.first_end(), session.leases.first_key_value())
    else {
        return -1;
    };
    if end < now.unix.millis() {
        // This lease is over, and the reply does not report the loss yet.
        return 0;
    }
    let end = end.min(lease.deadline_from(now.unix).millis());
    let left = end.saturating_mul(1000).saturating_sub(now.unix.micros());
    let sure = Duration::from_micros(left).saturating_add(waited);
    i64::try_from(sure.as_millis()).unwrap_or(i64::MAX)
}

/// How long a POLL waits at most from now on.
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
