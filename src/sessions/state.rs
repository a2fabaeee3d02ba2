//! The open sessions and the waiting POLLs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis_lock_core::sessions::{Now, SessionId, Sessions};
use redis_lock_core::{Map, Monotonic, Set, UnixTime, shrink_if_sparse};

use super::answer::Poll;
use crate::locks::monotonic;
use crate::server::{Blocked, Context, GilCell, Timer};

pub(super) static STATE: Shared = Shared {
    state: GilCell::new(None),
    any: AtomicBool::new(false),
    any_grants: AtomicBool::new(false),
};

/// A longer time between two uses of the state is a stall of the server. While a session is open, a timer uses the
/// state twice as often.
const STALL: Duration = Duration::from_millis(100);

/// The state, which is created at its first use, and the flags that every command reads without borrowing it.
pub(super) struct Shared {
    state: GilCell<Option<State>>,
    /// True if a session is open, or an ended one has left grants or POLLs.
    any: AtomicBool,
    /// True if a session has grants, or a closed one has left grants to release.
    any_grants: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) sessions: Sessions,
    /// The clients that are blocked in a POLL, until they are answered.
    pub(super) polls: Map<SessionId, (u64, Blocked<Poll>)>,
    /// The session that each of these clients polls.
    polled_by: Map<u64, SessionId>,
    /// Sessions that ended when the server became a replica, and whose POLLs may still wait.
    pub(super) to_refuse: Vec<SessionId>,
    /// The sessions whose connection was checked in the current period, and when the period began.
    pub(super) checked: (Set<SessionId>, Monotonic),
    /// True if the server refused writes at the last attempt to renew or release grants.
    pub(super) writes_blocked: bool,
    time: LastUse,
    /// True while the timer's work runs. The work arms the timer when it ends.
    pub(super) at_work: bool,
    /// The timer, and when it is due.
    pub(super) timer: Option<(Timer, Monotonic)>,
    pub(super) follows: Follows,
    /// True if a POLL is answered at the end of this iteration.
    pub(super) has_answers: bool,
}

/// The server events that the module is subscribed to.
#[derive(Default)]
pub(super) struct Follows {
    /// Removals of keys.
    pub(super) removals: bool,
    /// Ends of iterations of the event loop.
    pub(super) iterations: bool,
}

/// The last use of the state.
#[derive(Default)]
struct LastUse {
    at: Monotonic,
    /// True if writes were paused at the last tick of the timer.
    paused: bool,
}

impl State {
    /// Adds a client that begins to wait in a POLL.
    pub(super) fn add_poll(&mut self, id: SessionId, client: u64, blocked: Blocked<Poll>) {
        self.polls.insert(id, (client, blocked));
        self.polled_by.insert(client, id);
    }

    /// The session whose POLL this client waits in.
    pub(super) fn polled_by(&self, client: u64) -> Option<SessionId> {
        self.polled_by.get(&client).copied()
    }

    /// Removes and returns the client that waits in the POLL of a session.
    pub(super) fn take_poll(&mut self, id: SessionId) -> Option<Blocked<Poll>> {
        let (client, blocked) = self.polls.remove(&id)?;
        shrink_if_sparse(&mut self.polls);
        self.polled_by.remove(&client);
        shrink_if_sparse(&mut self.polled_by);
        Some(blocked)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.sessions.is_idle() && self.polls.is_empty()
    }

    /// Records a use of the state. A stall or a pause since the last use does not count as silence of programs. Returns
    /// true after a stall.
    fn record_time(&mut self, now: Now, paused: bool) -> bool {
        let before = std::mem::replace(&mut self.time.at, now.monotonic);
        let gap = now.monotonic.since(before);
        let stalled = gap > STALL && before != Monotonic::default();
        if stalled || paused {
            self.sessions.stalled(gap);
        }
        stalled
    }
}

impl Shared {
    /// Runs `body` with the state. `body` must not call the server, whose events may use the state too.
    pub(super) fn with<R>(&self, proof: Context<'_>, body: impl FnOnce(&mut State) -> R) -> R {
        self.state.with(proof, |state| {
            let state = state.get_or_insert_default();
            let result = body(state);
            let sessions = &state.sessions;
            let any_grants = sessions.counts().grants > 0 || sessions.has_to_release();
            self.any.store(!state.is_idle(), Ordering::Relaxed);
            self.any_grants.store(any_grants, Ordering::Relaxed);
            result
        })
    }

    /// Like [`Shared::with`], with the current time.
    pub(super) fn with_time<R>(
        &self,
        context: Context<'_>,
        body: impl FnOnce(&mut State, Now) -> R,
    ) -> R {
        let now = this_moment(context);
        self.with(context, |state| {
            state.record_time(now, state.time.paused);
            body(state, now)
        })
    }

    /// Records a tick of the timer, and whether writes are paused. Returns true after a stall.
    pub(super) fn tick(&self, context: Context<'_>, paused: bool) -> bool {
        let now = this_moment(context);
        self.with(context, |state| {
            let was_paused = std::mem::replace(&mut state.time.paused, paused);
            state.record_time(now, paused || was_paused)
        })
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub(super) fn any_grants(&self) -> bool {
        self.any_grants.load(Ordering::Relaxed)
    }
}

/// The current time by both clocks.
pub(super) fn this_moment(context: Context<'_>) -> Now {
    Now {
        monotonic: monotonic(),
        unix: UnixTime::from_micros(context.unix_micros_now()),
    }
}
