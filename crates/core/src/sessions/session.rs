//! One session.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::event::Events;
use super::grants::GrantId;
use super::orders::Filed;
use super::polls::Poll;
use crate::{Deadline, Lease, Monotonic};

/// A session ends this much later than its timeout, because the server may not have read a POLL yet that was sent in
/// time.
const READ_MARGIN: Duration = Duration::from_millis(500);
/// A program becomes away when it has not polled for this long after a reply.
const AWAY_AFTER: Duration = Duration::from_secs(1);

/// A session's id: 1 to 2^53 - 1, so that a double holds it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// The highest id, 2^53 - 1.
    pub const MAX: Self = Self((1 << 53) - 1);
    pub(super) const MIN: Self = Self(1);

    /// The id with this number; `None` for zero and above [`SessionId::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 || number > Self::MAX.0 {
            None
        } else {
            Some(Self(number))
        }
    }

    /// The id as a number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// How long a program may fail to poll: one second to one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimeout {
    millis: u64,
}

impl SessionTimeout {
    /// The timeout of OPEN without TIMEOUT.
    pub const DEFAULT: Self = Self { millis: 30_000 };

    /// A timeout of `millis` milliseconds; `None` below one second and above one day.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Option<Self> {
        if millis < 1000 || millis > 24 * 60 * 60 * 1000 {
            None
        } else {
            Some(Self { millis })
        }
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.millis
    }

    pub(super) const fn length(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

/// Whether a session is open, or what is left to do for its grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// The session was closed, and its grants have to be released.
    Releasing,
    /// The session has ended by silence, and its grants have to be forgotten.
    Forgotten,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) user: Box<[u8]>,
    pub(super) database: i32,
    pub(super) name: Box<[u8]>,
    pub(super) timeout: SessionTimeout,
    pub(super) opened: Monotonic,
    pub(super) state: State,
    /// The newest connection that polled.
    pub(super) client_id: u64,
    /// True while the polling connection is open and has the session's user and database.
    pub(super) is_attached: bool,
    pub(super) poll: Option<Poll>,
    /// The last sign of life, on the clock without stalls.
    pub(super) heard: Monotonic,
    /// When OPEN or a POLL was last answered, on the clock without stalls.
    pub(super) replied: Monotonic,
    /// True while the program may be dead or frozen, so that its calls are passed over.
    pub(super) is_away: bool,
    pub(super) events: Events,
    /// The number of its grants.
    pub(super) grants: usize,
    /// The filed grants, by the time of the next renewal.
    pub(super) due: BTreeSet<(Monotonic, GrantId)>,
    /// The filed grants whose lease ends by time, by that end in milliseconds since 1970.
    pub(super) ends: BTreeSet<(u64, GrantId)>,
    /// How many of the grants in `ends` remember each lease.
    pub(super) leases: BTreeMap<Lease, usize>,
    /// The place in the orders of sessions.
    pub(super) filed: Filed,
}

impl Session {
    pub(super) fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Returns true if the session belongs to this user and database.
    pub(super) fn belongs_to(&self, user: &[u8], database: i32) -> bool {
        *self.user == *user && self.database == database
    }

    pub(super) fn first_due(&self) -> Option<Monotonic> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn first_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Adds a grant to the orders.
    pub(super) fn add(
        &mut self,
        id: GrantId,
        (lease, deadline): (Lease, Deadline),
        due: Monotonic,
    ) {
        self.due.insert((due, id));
        if let Deadline::At(end) = deadline {
            self.ends.insert((end, id));
            *self.leases.entry(lease).or_default() += 1;
        }
    }

    /// Removes a grant from the orders.
    pub(super) fn remove(
        &mut self,
        id: GrantId,
        (lease, deadline): (Lease, Deadline),
        due: Monotonic,
    ) {
        self.due.remove(&(due, id));
        if let Deadline::At(end) = deadline {
            self.ends.remove(&(end, id));
            if let Entry::Occupied(mut count) = self.leases.entry(lease) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// When the session ends by silence, if it is not heard from until then.
    pub(super) fn silent_at(&self) -> Monotonic {
        self.heard.plus(self.timeout.length() + READ_MARGIN)
    }

    /// When the program becomes away, if it does not poll until then.
    pub(super) fn away_at(&self) -> Monotonic {
        self.replied.plus(AWAY_AFTER + Duration::from_micros(1))
    }

    /// The place that the session should have in the orders of sessions.
    pub(super) fn to_file(&self) -> Filed {
        if !self.is_live() {
            return Filed::default();
        }
        let timeout = if self.poll.is_some() {
            // A waiting POLL is a sign of life until its connection closes.
            None
        } else if self.is_away {
            Some(self.silent_at())
        } else {
            Some(self.away_at().min(self.silent_at()))
        };
        Filed {
            due: self.first_due().filter(|_| self.is_attached),
            end: self.first_end(),
            timeout,
            poll: self.poll.as_ref().map(Poll::answer_at),
        }
    }
}
