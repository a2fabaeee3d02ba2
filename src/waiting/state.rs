//! What is remembered of those who wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::{
    Flights, GiveBacks, Map, Monotonic, Place, Queues, Set, Told, UnixTime, WaiterId, Watch,
    give_room_back,
};

use super::answer::Wait;
use super::leaving::Rota;
use super::sockets::Sockets;
use super::turns::Turns;
use crate::locks::{monotonic, now};
use crate::server::{Blocked, Context, GilCell, Handle, Timer, User};
use crate::statistics::{self, WaitEnd};

pub(super) static STATE: Waiting = Waiting {
    state: GilCell::new(None),
    busy: AtomicBool::new(false),
    told: AtomicBool::new(false),
    landing: AtomicBool::new(false),
    turns: Turns::new(),
};

/// The state, made when it is first used.
pub(super) struct Waiting {
    state: GilCell<Option<State>>,
    /// Whether the state was other than idle when it was last used: the one thing that every command
    /// asks, most of them to find that there is nothing to do.
    busy: AtomicBool,
    /// Whether grants were told of which nothing more was heard.
    told: AtomicBool,
    /// Whether replies were written of which it is not known that they are sent.
    landing: AtomicBool,
    /// The turns of the event loop, while they are followed.
    pub(super) turns: Turns,
}

impl Waiting {
    /// Runs `body` with the state; it must not call the server.
    pub(super) fn with<R>(&self, proof: Context<'_>, body: impl FnOnce(&mut State) -> R) -> R {
        self.busy.store(true, Ordering::Relaxed);
        self.state.with(proof, |state| {
            let state = state.get_or_insert_default();
            let result = body(state);
            self.busy.store(!state.idle(), Ordering::Relaxed);
            self.told.store(!state.told.is_empty(), Ordering::Relaxed);
            self.landing
                .store(!state.landing.is_empty(), Ordering::Relaxed);
            result
        })
    }

    /// Every reply that was written is sent, or as much of it as its client takes.
    pub(super) fn land(&self, context: Context<'_>) {
        if self.landing.load(Ordering::Relaxed) {
            self.with(context, |state| state.land(|| now(context)));
        }
    }

    /// The caller asks for a lock: whether what it was told before was sent cannot be found out any
    /// more.
    pub(super) fn hear(&self, context: Context<'_>) {
        if self.told.load(Ordering::Relaxed) {
            self.with(context, |state| state.told.remove(&context.client_id()));
        }
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

/// So many grants that were told are not worth to be looked through.
const FEW: usize = 64;

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
    /// Grants whose reply is sent, or lies behind other output of its client: by client, until it says
    /// more, the lease ends or it is gone.
    pub(super) told: Map<u64, Told>,
    /// How many of those there may be before the ones whose lease is over are looked for.
    pub(super) most_told: usize,
    /// How many clients that are gone the server was asked about of late, and since when.
    pub(super) questions: (u32, Monotonic),
    /// The sockets of the calls that wait or whose grant is on its way.
    pub(super) sockets: Sockets,
    /// The server tells when a turn of its event loop begins.
    pub(super) follows_turns: bool,
    /// The server tells when a client is gone.
    pub(super) follows_clients: bool,
    /// Locks that may have become free.
    pub(super) marked: Set<Place>,
    /// Locks that rounds have yet to look at, in the order of their news.
    pub(super) due: VecDeque<Place>,
    /// Which of the locks that are looked at may have left.
    pub(super) rota: Rota,
    /// A round is under way, which arms the next one itself.
    pub(super) in_round: bool,
    /// What callers that are gone have yet to give back.
    pub(super) give_backs: GiveBacks,
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
        self.leave_at(context, monotonic(), id, end)
    }

    /// As [`State::leave`], where it is known what time it is.
    pub(super) fn leave_at(
        &mut self,
        context: Context<'_>,
        now: Monotonic,
        id: WaiterId,
        end: WaitEnd,
    ) -> Option<Blocked<Wait>> {
        let (place, waiter) = self.queues.leave(id)?;
        statistics::wait_ended(context, now, &place, waiter.since, end);
        if self.queues.waiting(place.database, &place.key) == 0 {
            self.watch.let_go(&place);
            self.marked.remove(&place);
        }
        if !self.users.is_empty() {
            self.users.remove(&id);
            give_room_back(&mut self.users);
        }
        let blocked = self.blocked.remove(&id)?;
        give_room_back(&mut self.blocked);
        // What is granted goes by its handle until it is told.
        if end != WaitEnd::Granted {
            self.sockets.end(id);
            self.forget(blocked.handle());
        }
        Some(blocked)
    }

    /// A client is not blocked any more, or is about to be answered; its call.
    pub(super) fn forget(&mut self, handle: Handle) -> Option<WaiterId> {
        let id = self.handles.remove(&handle);
        give_room_back(&mut self.handles);
        id
    }

    /// The client of a call is gone: whether something was on its way to it, to be given back now.
    pub(super) fn lose(&mut self, id: WaiterId) -> bool {
        self.sockets.end(id);
        let lost = self.flights.lose(id);
        let owes = lost.is_some();
        self.give_backs.extend(lost);
        owes
    }

    /// The reply of a grant is written for its client. One that is to be closed is still called back,
    /// and its reply dropped.
    pub(super) fn write(&mut self, client: u64, id: WaiterId) {
        self.sockets.end(id);
        if let Some(before) = self.landing.insert(client, id) {
            self.flights.arrive(before);
        }
    }

    /// What was written is sent, or as much of it as the clients take.
    fn land(&mut self, now: impl FnOnce() -> UnixTime) {
        for (client, id) in self.landing.drain() {
            match self.flights.arrive(id) {
                Some(told) => self.told.insert(client, told),
                None => self.told.remove(&client),
            };
        }
        if self.told.len() > self.most_told {
            let now = now();
            self.told.retain(|_, told| !told.is_over(now));
            self.told.shrink_to(self.told.len());
            self.most_told = 2 * self.told.len() + FEW;
        }
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
