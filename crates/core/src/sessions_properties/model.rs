//! A naive model of sessions: lists that are searched from the start. Nothing is dropped, and nothing is kept in order.
//!
//! Times are numbers: microseconds of the monotonic clock, milliseconds of the wall clock.

use crate::sessions::LossReason;

/// A lock and a token. Odd locks are in database 1, the others in database 0.
pub(super) type Name = (u8, u64);

/// Which connection was answered up to which event.
type Answered = (u64, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lost(u64, LossReason),
    Taken(u64, Option<u64>),
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) arrived: u64,
    /// When BLOCK is over.
    pub(super) block_ends: u64,
    /// When the server ends the wait, whatever BLOCK says, for each reason.
    pub(super) limits: [u64; 3],
    pub(super) is_judged: bool,
}

impl Poll {
    pub(super) fn ends(&self) -> u64 {
        let limits = self.limits.iter().fold(u64::MAX, |a, b| a.min(*b));
        limits.min(self.block_ends)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) database: i32,
    pub(super) timeout_ms: u64,
    pub(super) opened: u64,
    pub(super) has_ended: bool,
    /// All connections that polled it, and the one that opened it.
    pub(super) clients: Vec<u64>,
    pub(super) is_attached: bool,
    pub(super) is_away: bool,
    pub(super) poll: Option<Poll>,
    pub(super) heard: u64,
    pub(super) replied: u64,
    /// All there ever were.
    pub(super) events: Vec<(u8, Kind)>,
    pub(super) answered: Vec<Answered>,
    pub(super) acknowledged: usize,
}

impl Session {
    pub(super) fn client(&self) -> u64 {
        *self.clients.iter().max().unwrap()
    }

    pub(super) fn pending(&self) -> usize {
        self.events.len() - self.acknowledged
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) session: u64,
    pub(super) name: Name,
    pub(super) lease: u64,
    /// None: never.
    pub(super) end: Option<u64>,
    pub(super) due: u64,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) sessions: Vec<Session>,
    pub(super) grants: Vec<Grant>,
    /// The grants of closed sessions.
    pub(super) to_release: Vec<Grant>,
    /// When each stall was reported, and its length.
    pub(super) stalls: Vec<(u64, u64)>,
    pub(super) renewals: u64,
    pub(super) losses: u64,
    pub(super) silent: u64,
    pub(super) now: u64,
    pub(super) wall_micros: u64,
}

pub(super) const SECOND: u64 = 1_000_000;

impl Model {
    pub(super) fn wall(&self) -> u64 {
        self.wall_micros / 1000
    }

    /// How long ago that was, stalls not counted.
    pub(super) fn alive_since(&self, time: u64) -> u64 {
        let later = self.stalls.iter().filter(|(told, _)| *told > time);
        let stalled: u64 = later.map(|(_, length)| length).sum();
        (self.now - time).saturating_sub(stalled)
    }

    pub(super) fn live(&mut self, id: u64) -> Option<&mut Session> {
        let mut live = self
            .sessions
            .iter_mut()
            .filter(|session| !session.has_ended);
        live.find(|session| session.id == id)
    }

    pub(super) fn grants_of(&self, id: u64) -> Vec<Grant> {
        let of = self.grants.iter().filter(|grant| grant.session == id);
        of.copied().collect()
    }

    pub(super) fn find(&mut self, name: Name) -> Option<&mut Grant> {
        self.grants.iter_mut().find(|grant| grant.name == name)
    }

    pub(super) fn poll(
        &mut self,
        id: u64,
        database: i32,
        client: u64,
        block: u64,
    ) -> Result<Option<u64>, bool> {
        let now = self.now;
        let Some(session) = self.live(id).filter(|session| session.database == database) else {
            return Err(true);
        };
        let newest = session.client();
        if client < newest {
            return Err(false);
        }
        let displaced = session.poll.is_some();
        session.clients.push(client);
        let same = session.answered.iter().filter(|(of, _)| *of == client);
        let read = same.map(|(_, event)| *event).max().unwrap_or(0);
        session.acknowledged = session.acknowledged.max(read);
        (session.is_attached, session.is_away, session.heard) = (true, false, now);
        session.poll = Some(Poll {
            arrived: now,
            block_ends: now.saturating_add(block),
            limits: [u64::MAX; 3],
            is_judged: false,
        });
        Ok(displaced.then_some(newest))
    }

    /// The reply to a POLL after what was due is renewed: `sure-ms`, grants, and the numbers of the first and
    /// the last event.
    pub(super) fn answer(&mut self, id: u64) -> Option<(i64, usize, Vec<usize>)> {
        let (now, wall) = (self.now, self.wall());
        let ends: Vec<_> = self
            .grants_of(id)
            .iter()
            .filter_map(|grant| grant.end)
            .collect();
        let session = self.live(id)?;
        let pending = session.pending();
        let half = session.timeout_ms * 1000 / 2;
        let poll = session.poll.as_mut()?;
        if pending == 0 && poll.ends() > now {
            if !poll.is_judged {
                let shortest = ends.iter().map(|end| end.saturating_sub(wall)).min();
                let third = shortest.map_or(u64::MAX - now, |left| (left * 1000 / 3).max(100_000));
                poll.limits[0] = now + 15 * SECOND;
                poll.limits[1] = now + half;
                poll.limits[2] = poll.limits[2].min(now + third);
                poll.is_judged = true;
            }
            return None;
        }
        self.reply(id, 1000)
    }

    pub(super) fn reply(&mut self, id: u64, most: usize) -> Option<(i64, usize, Vec<usize>)> {
        let (now, wall, wall_micros) = (self.now, self.wall(), self.wall_micros);
        let grants = self.grants_of(id);
        let session = self.live(id)?;
        let poll = session.poll.take()?;
        (session.heard, session.replied) = (now, now);
        let last = session.events.len().min(session.acknowledged + most);
        let client = session.client();
        session.answered.push((client, last));
        let ends: Vec<_> = grants.iter().filter_map(|grant| grant.end).collect();
        // Those of renewals that come at once.
        let renewed = grants.iter().filter(|grant| grant.end.is_some());
        let renewed = renewed.map(|grant| wall + grant.lease).min();
        let sure = if last < session.events.len() || ends.iter().any(|end| *end < wall) {
            0
        } else if let Some(first) = ends.iter().copied().chain(renewed).min() {
            let left = (first * 1000).saturating_sub(wall_micros);
            i64::try_from((now - poll.arrived + left) / 1000).unwrap()
        } else {
            -1
        };
        let events = (session.acknowledged + 1..=last).collect();
        Some((sure, grants.len(), events))
    }

    /// The sessions whose POLL is to be judged.
    pub(super) fn polls(&self) -> Vec<u64> {
        let live = self.sessions.iter().filter(|session| !session.has_ended);
        let judge = live.filter(|session| {
            let poll = session.poll;
            poll.is_some_and(|poll| {
                !poll.is_judged || session.pending() > 0 || poll.ends() <= self.now
            })
        });
        judge.map(|session| session.id).collect()
    }

    pub(super) fn report(&mut self, id: u64, lock: u8, kind: Kind) {
        if let Some(session) = self.live(id) {
            session.events.push((lock, kind));
        }
    }

    pub(super) fn join(&mut self, id: u64, name: Name, lease: u64, end: Option<u64>) {
        let now = self.now;
        let Some(before) = self.find(name).map(|grant| grant.session) else {
            self.to_release.retain(|grant| grant.name != name);
            return self.add(id, name, lease, end);
        };
        if before == id {
            return self.changed(name, lease, end);
        }
        self.grants.retain(|grant| grant.name != name);
        self.report(before, name.0, Kind::Taken(name.1, Some(id)));
        assert!(now >= self.now);
        self.add(id, name, lease, end);
    }

    fn add(&mut self, session: u64, name: Name, lease: u64, end: Option<u64>) {
        let due = self.due(lease);
        self.grants.push(Grant {
            session,
            name,
            lease,
            end,
            due,
        });
        self.hurry(session, lease);
    }

    fn hurry(&mut self, session: u64, lease: u64) {
        let ends = self.now + lease * 1000 / 3;
        if let Some(poll) = self.live(session).and_then(|session| session.poll.as_mut()) {
            poll.limits[2] = poll.limits[2].min(ends);
        }
    }

    /// When a lease that begins now is renewed, or looked at again.
    pub(super) fn due(&self, lease: u64) -> u64 {
        self.now + lease * 1000 / 3
    }

    pub(super) fn again(&self, lease: u64) -> u64 {
        self.now + (lease * 1000 / 30).clamp(SECOND / 100, SECOND)
    }

    pub(super) fn changed(&mut self, name: Name, lease: u64, end: Option<u64>) {
        let due = self.due(lease);
        let Some(grant) = self.find(name) else { return };
        let before = (grant.end.unwrap_or(u64::MAX), grant.lease);
        (grant.lease, grant.end, grant.due) = (lease, end, due);
        let session = grant.session;
        if end.unwrap_or(u64::MAX) < before.0 || lease < before.1 {
            self.hurry(session, lease);
        }
    }

    pub(super) fn take_out(&mut self, name: Name) {
        if let Some(grant) = self.find(name).copied() {
            self.grants.retain(|grant| grant.name != name);
            self.report(grant.session, name.0, Kind::Taken(name.1, None));
        }
    }

    /// The grants of which this is true are lost.
    pub(super) fn lose(&mut self, reason: LossReason, is_lost: impl Fn(&Grant) -> bool) {
        let mut lost: Vec<_> = self
            .grants
            .iter()
            .filter(|grant| is_lost(grant))
            .copied()
            .collect();
        lost.sort_by_key(|grant| grant.name);
        self.grants.retain(|grant| !is_lost(grant));
        self.to_release.retain(|grant| !is_lost(grant));
        let wall = self.wall();
        for grant in lost {
            let has_ended = grant.end.is_some_and(|end| end < wall);
            let reason = if has_ended {
                LossReason::Expired
            } else {
                reason
            };
            self.losses += 1;
            self.report(
                grant.session,
                grant.name.0,
                Kind::Lost(grant.name.1, reason),
            );
        }
    }

    /// The sessions that were not away before.
    pub(super) fn leave(&mut self, client: u64, is_read: bool) -> Vec<u64> {
        let now = self.now;
        let mut away = Vec::new();
        for session in &mut self.sessions {
            if session.has_ended || !session.is_attached || session.client() != client {
                continue;
            }
            if !session.is_away {
                away.push(session.id);
            }
            session.is_away = true;
            if is_read {
                session.is_attached = false;
                session.poll = None;
                session.heard = now;
            }
        }
        away
    }

    /// Whether the session was away before; None if it is not open.
    pub(super) fn detach(&mut self, id: u64) -> Option<bool> {
        let session = self.live(id)?;
        if session.is_attached {
            (session.is_attached, session.poll) = (false, None);
        }
        Some(std::mem::replace(&mut session.is_away, true))
    }

    /// The grants of a session that ends.
    pub(super) fn end(&mut self, id: u64) -> Vec<Grant> {
        let grants = self.grants_of(id);
        self.grants.retain(|grant| grant.session != id);
        if let Some(session) = self.live(id) {
            session.has_ended = true;
        }
        grants
    }

    /// The sessions that have ended by silence, and those that are away since a second after the last reply.
    pub(super) fn timeouts(&self) -> (Vec<u64>, Vec<u64>) {
        let quiet = self
            .sessions
            .iter()
            .filter(|session| !session.has_ended && session.poll.is_none());
        let quiet: Vec<_> = quiet.collect();
        let is_silent = |session: &&&Session| {
            self.alive_since(session.heard) >= session.timeout_ms * 1000 + SECOND / 2
        };
        let is_away = |session: &&&Session| {
            !session.is_away && !is_silent(session) && self.alive_since(session.replied) > SECOND
        };
        let silent = quiet.iter().filter(is_silent).map(|session| session.id);
        let away = quiet.iter().filter(is_away).map(|session| session.id);
        (silent.collect(), away.collect())
    }

    /// The renewals that are due in attached sessions.
    pub(super) fn is_due(&self, grant: &Grant) -> bool {
        let mut sessions = self.sessions.iter();
        let of = sessions.find(|session| session.id == grant.session);
        grant.due <= self.now && of.is_some_and(|of| of.is_attached)
    }
}
