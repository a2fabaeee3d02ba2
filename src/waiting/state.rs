//! The state of the waiting layer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::{
    GiveBacks, LeaseWatch, LockId, Map, Monotonic, PendingGrants, Queues, Set, UnconfirmedGrant,
    UnixTime, WaiterId, shrink_if_sparse,
};

use super::answer::Wait;
use super::of_sessions;
use super::redirection::CheckLimit;
use super::sockets::Sockets;
use super::stall_detector::StallDetector;
use crate::locks::{monotonic, now};
use crate::server::{Blocked, Context, GilCell, Handle, Timer, User};
use crate::statistics::{self, WaitEnd};

pub(super) static STATE: Waiting = Waiting {
    state: GilCell::new(None),
    busy: AtomicBool::new(false),
    any_unconfirmed: AtomicBool::new(false),
    any_written: AtomicBool::new(false),
    stalls: StallDetector::new(),
};

/// The state, created at the first use, and what is asked too often to look into it.
pub(super) struct Waiting {
    state: GilCell<Option<State>>,
    /// True when the state was not idle after the last use. Every command asks this, and most find that
    /// there is nothing to do.
    busy: AtomicBool,
    /// True when there are unconfirmed grants.
    any_unconfirmed: AtomicBool,
    /// True when there are written replies that may not be sent.
    any_written: AtomicBool,
    /// Stalls of the event loop, while the server reports its iterations.
    pub(super) stalls: StallDetector,
}

impl Waiting {
    /// Runs `body` with the state; it must not call the server.
    pub(super) fn with<R>(&self, proof: Context<'_>, body: impl FnOnce(&mut State) -> R) -> R {
        self.busy.store(true, Ordering::Relaxed);
        self.state.with(proof, |state| {
            let state = state.get_or_insert_default();
            let result = body(state);
            self.busy.store(!state.is_idle(), Ordering::Relaxed);
            self.any_unconfirmed
                .store(!state.unconfirmed.is_empty(), Ordering::Relaxed);
            self.any_written
                .store(!state.written.is_empty(), Ordering::Relaxed);
            result
        })
    }

    /// The server has sent every written reply, as far as the clients read.
    pub(super) fn replies_sent(&self, context: Context<'_>) {
        if self.any_written.load(Ordering::Relaxed) {
            self.with(context, |state| state.replies_sent(|| now(context)));
        }
    }

    /// Forgets the unconfirmed grant of the calling client.
    pub(super) fn forget_unconfirmed(&self, context: Context<'_>) {
        if self.any_unconfirmed.load(Ordering::Relaxed) {
            self.with(context, |state| {
                state.unconfirmed.remove(&context.client_id())
            });
        }
    }

    /// As [`Waiting::with`], but returns the default without running `body` when the state is idle.
    pub(super) fn if_busy<R: Default>(
        &self,
        proof: Context<'_>,
        body: impl FnOnce(&mut State) -> R,
    ) -> R {
        if self.is_busy() {
            self.with(proof, body)
        } else {
            R::default()
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }
}

/// Up to this many unconfirmed grants are not searched for expired ones.
const MIN_UNCONFIRMED_LIMIT: usize = 64;

#[derive(Default)]
pub(super) struct State {
    pub(super) queues: Queues,
    /// Grants whose reply may not be sent.
    pub(super) pending_grants: PendingGrants,
    /// The ends of the leases that somebody waits for.
    pub(super) lease_watch: LeaseWatch,
    /// The clients of the waiting calls.
    pub(super) blocked: Map<WaiterId, Blocked<Wait>>,
    /// Their users, on servers where their rights are checked again.
    pub(super) users: Map<WaiterId, User>,
    /// The calls that wait or have a pending grant, by the handle of their client.
    pub(super) handles: Map<Handle, WaiterId>,
    /// Calls whose grant is written to the client, but may not be sent: by client.
    pub(super) written: Map<u64, WaiterId>,
    /// Grants whose reply is sent, or is behind other unsent output: by client, until it asks for a lock
    /// again, the lease ends or it disconnects.
    pub(super) unconfirmed: Map<u64, UnconfirmedGrant>,
    /// With more unconfirmed grants than this, the expired ones are removed.
    pub(super) unconfirmed_limit: usize,
    /// How many queries about disconnected clients were made in this period, and when it began.
    pub(super) queries: (u32, Monotonic),
    /// The sockets of the calls that wait or have a pending grant.
    pub(super) sockets: Sockets,
    /// True when subscribed to the iterations of the event loop.
    pub(super) follows_iterations: bool,
    /// True when subscribed to disconnects of clients.
    pub(super) follows_clients: bool,
    /// Locks that may have become free.
    pub(super) maybe_free: Set<LockId>,
    /// Locks that ticks are still to serve, in the order of their events.
    pub(super) to_serve: VecDeque<LockId>,
    /// Calls that the next tick is to judge: whether they wait in a circle.
    pub(super) to_judge: Vec<WaiterId>,
    /// Limits how often a cluster node checks that it still serves a lock.
    pub(super) check_limit: CheckLimit,
    /// A tick is running; it arms the timer for the next one at its end.
    pub(super) in_tick: bool,
    /// Give-backs that are still to be done.
    pub(super) give_backs: GiveBacks,
    /// The next tick, and when it is due.
    pub(super) timer: Option<(Timer, Monotonic)>,
}

impl State {
    /// Removes a waiting call from its queue.
    pub(super) fn end_wait(
        &mut self,
        context: Context<'_>,
        id: WaiterId,
        end: WaitEnd,
    ) -> Option<Blocked<Wait>> {
        self.end_wait_at(context, monotonic(), id, end)
    }

    /// As [`State::end_wait`], when the time is known.
    pub(super) fn end_wait_at(
        &mut self,
        context: Context<'_>,
        now: Monotonic,
        id: WaiterId,
        end: WaitEnd,
    ) -> Option<Blocked<Wait>> {
        let was_first = end != WaitEnd::Granted && self.queues.is_first(id);
        let (lock_id, waiter) = self.queues.remove(id)?;
        statistics::wait_ended(context, now, &lock_id, waiter.since, end);
        if self.queues.waiting(lock_id.database, &lock_id.key) == 0 {
            self.lease_watch.unwatch(&lock_id);
            self.maybe_free.remove(&lock_id);
        } else if was_first {
            // Those behind it may have room.
            self.maybe_free.insert(lock_id);
        }
        of_sessions::end(context, id);
        if !self.users.is_empty() {
            self.users.remove(&id);
            shrink_if_sparse(&mut self.users);
        }
        let blocked = self.blocked.remove(&id)?;
        shrink_if_sparse(&mut self.blocked);
        // A pending grant keeps its handle until it is answered.
        if end != WaitEnd::Granted {
            self.sockets.end(id);
            self.forget_handle(blocked.handle());
        }
        Some(blocked)
    }

    /// Forgets the handle of a client that is answered or no longer blocked; returns its call.
    pub(super) fn forget_handle(&mut self, handle: Handle) -> Option<WaiterId> {
        let id = self.handles.remove(&handle);
        shrink_if_sparse(&mut self.handles);
        id
    }

    /// The client of a call has disconnected. True when the call had a pending grant, now to be given back.
    pub(super) fn abandon(&mut self, id: WaiterId) -> bool {
        self.sockets.end(id);
        let give_back = self.pending_grants.abandon(id);
        let was_pending = give_back.is_some();
        self.give_backs.extend(give_back);
        was_pending
    }

    /// The reply of a grant was written to its client. The server may drop it: it also lets replies be
    /// written to a client that it is about to close.
    pub(super) fn reply_written(&mut self, client: u64, id: WaiterId) {
        self.sockets.end(id);
        if let Some(before) = self.written.insert(client, id) {
            self.pending_grants.deliver(before);
        }
    }

    /// See [`Waiting::replies_sent`].
    fn replies_sent(&mut self, now: impl FnOnce() -> UnixTime) {
        for (client, id) in self.written.drain() {
            match self.pending_grants.deliver(id) {
                Some(grant) => self.unconfirmed.insert(client, grant),
                None => self.unconfirmed.remove(&client),
            };
        }
        if self.unconfirmed.len() > self.unconfirmed_limit {
            let now = now();
            self.unconfirmed.retain(|_, grant| !grant.has_expired(now));
            self.unconfirmed.shrink_to(self.unconfirmed.len());
            self.unconfirmed_limit = 2 * self.unconfirmed.len() + MIN_UNCONFIRMED_LIMIT;
        }
    }

    /// True when ticks have something left to do.
    pub(super) fn has_work(&self) -> bool {
        !self.to_serve.is_empty() || !self.give_backs.is_empty()
    }

    /// True when there is nothing to do, now or later.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.is_empty()
            && self.pending_grants.is_empty()
            && self.maybe_free.is_empty()
            && !self.has_work()
    }
}
