//! What is remembered of those who wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::answer::Wait;
use crate::core::{Flights, GiveBack, Map, Monotonic, Place, Queues, Set, WaiterId, Watch};
use crate::locks::monotonic;
use crate::server::{Blocked, Context, GilCell, Handle, Timer, User};
use crate::statistics::{self, WaitEnd};

pub(super) static STATE: Waiting = Waiting {
    state: GilCell::new(None),
    busy: AtomicBool::new(false),
};

/// The state, made when it is first used.
pub(super) struct Waiting {
    state: GilCell<Option<State>>,
    /// Whether the state was other than idle when it was last used: the one thing that every command
    /// asks, most of them to find that there is nothing to do.
    busy: AtomicBool,
}

impl Waiting {
    /// Runs `body` with the state; it must not call the server.
    pub(super) fn with<R>(&self, proof: Context<'_>, body: impl FnOnce(&mut State) -> R) -> R {
        self.busy.store(true, Ordering::Relaxed);
        self.state.with(proof, |state| {
            let state = state.get_or_insert_default();
            let result = body(state);
            self.busy.store(!state.idle(), Ordering::Relaxed);
            result
        })
    }

    /// As [`Waiting::with`]; not run, and the default of its result, while nobody waits and nothing is
    /// owed.
    pub(super) fn if_busy<R: Default>(
        &self,
        proof: Context<'_>,
        body: impl FnOnce(&mut State) -> R,
    ) -> R {
        if self.busy.load(Ordering::Relaxed) {
            self.with(proof, body)
        } else {
            R::default()
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    pub(super) queues: Queues,
    /// Grants whose reply is not written yet.
    pub(super) flights: Flights,
    /// When the leases end that somebody waits for.
    pub(super) watch: Watch,
    /// The clients that wait.
    pub(super) blocked: Map<WaiterId, Blocked<Wait>>,
    /// Their users, where they are to be asked for their rights again.
    pub(super) users: Map<WaiterId, User>,
    /// Those, and the ones whose grant is on its way.
    pub(super) handles: Map<Handle, WaiterId>,
    /// Grants whose reply is written, but may not be sent: the calls by their client.
    pub(super) landing: Map<u64, WaiterId>,
    /// The server tells when such a reply is sent, and when a client is gone.
    pub(super) follows_clients: bool,
    /// Locks that may have become free.
    pub(super) marked: Set<Place>,
    /// Locks that rounds have yet to look at, in the order of their news.
    pub(super) due: VecDeque<Place>,
    /// A round is under way, which arms the next one itself.
    pub(super) in_round: bool,
    /// What callers that are gone have yet to give back.
    pub(super) give_backs: Vec<GiveBack>,
    /// The next round, and when it is due.
    pub(super) timer: Option<(Timer, Monotonic)>,
}

impl State {
    /// Takes a call that waits out of its queue.
    pub(super) fn leave(
        &mut self,
        context: Context<'_>,
        id: WaiterId,
        end: WaitEnd,
    ) -> Option<Blocked<Wait>> {
        let (place, waiter) = self.queues.leave(id)?;
        statistics::wait_ended(context, monotonic(), &place, waiter.since, end);
        if self.queues.waiting(place.database, &place.key) == 0 {
            self.watch.let_go(&place);
            self.marked.remove(&place);
        }
        self.users.remove(&id);
        let blocked = self.blocked.remove(&id)?;
        self.handles.remove(&blocked.handle());
        Some(blocked)
    }

    /// A round has left something for the next one.
    pub(super) fn has_work(&self) -> bool {
        !self.due.is_empty() || !self.give_backs.is_empty()
    }

    /// Nothing to do, now or later.
    pub(super) fn idle(&self) -> bool {
        self.queues.is_empty()
            && self.flights.is_empty()
            && self.marked.is_empty()
            && !self.has_work()
    }
}

pub(super) fn place_of(database: i32, key: &[u8]) -> Place {
    Place {
        database,
        key: Arc::from(key),
    }
}
