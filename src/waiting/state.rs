//! What is remembered of those who wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::{
    GiveBacks, LeaseWatch, LockId, Map, Monotonic, PendingGrants, Queues, Set, UnconfirmedGrant,
    UnixTime, WaiterId, shrink_if_sparse,
};

use super::answer::Wait;
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

/// The state, made when it is first used.
pub(super) struct Waiting {
    state: GilCell<Option<State>>,
    /// Whether the state was other than idle when it was last used: the one thing that every command
    /// asks, most of them to find that there is nothing to do.
    busy: AtomicBool,
    /// Whether there are unconfirmed grants.
    any_unconfirmed: AtomicBool,
    /// Whether replies were written of which it is not known that they are sent.
    any_written: AtomicBool,
    /// Stalls of the event loop, while its iterations are followed.
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

    /// Every reply that was written is sent, or as much of it as its client takes.
    pub(super) fn replies_sent(&self, context: Context<'_>) {
        if self.any_written.load(Ordering::Relaxed) {
            self.with(context, |state| state.replies_sent(|| now(context)));
        }
    }

    /// The caller asks for a lock: whether the reply before was sent cannot be found out any more.
    pub(super) fn forget_unconfirmed(&self, context: Context<'_>) {
        if self.any_unconfirmed.load(Ordering::Relaxed) {
            self.with(context, |state| {
                state.unconfirmed.remove(&context.client_id())
            });
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

/// So few unconfirmed grants are not worth looking through.
const FEW: usize = 64;

#[derive(Default)]
pub(super) struct State {
    pub(super) queues: Queues,
    /// Grants whose reply is not known to be sent.
    pub(super) pending_grants: PendingGrants,
    /// When the leases end that somebody waits for.
    pub(super) lease_watch: LeaseWatch,
    /// The clients that wait.
    pub(super) blocked: Map<WaiterId, Blocked<Wait>>,
    /// Their users, where they are to be asked for their rights again.
    pub(super) users: Map<WaiterId, User>,
    /// Those, and the ones whose grant is pending.
    pub(super) handles: Map<Handle, WaiterId>,
    /// Grants whose reply is written, but may not be sent: the calls by their client.
    pub(super) written: Map<u64, WaiterId>,
    /// Grants whose reply is sent, or lies behind other output of its client: by client, until it says
    /// more, the lease ends or it is gone.
    pub(super) unconfirmed: Map<u64, UnconfirmedGrant>,
    /// How many of those there may be before the ones whose lease is over are looked for.
    pub(super) unconfirmed_limit: usize,
    /// How many clients that are gone the server was asked about of late, and since when.
    pub(super) queries: (u32, Monotonic),
    /// The sockets of the calls that wait or whose grant is pending.
    pub(super) sockets: Sockets,
    /// The server tells when an iteration of its event loop begins.
    pub(super) follows_iterations: bool,
    /// The server tells when a client is gone.
    pub(super) follows_clients: bool,
    /// Locks that may have become free.
    pub(super) maybe_free: Set<LockId>,
    /// Locks that ticks have yet to serve, in the order of their events.
    pub(super) to_serve: VecDeque<LockId>,
    /// How often locks are checked for having left this node.
    pub(super) check_limit: CheckLimit,
    /// A tick is under way, which arms the timer for the next one itself.
    pub(super) in_tick: bool,
    /// What callers that are gone have yet to give back.
    pub(super) give_backs: GiveBacks,
    /// The next tick, and when it is due.
    pub(super) timer: Option<(Timer, Monotonic)>,
}

impl State {
    /// Takes a call that waits out of its queue.
    pub(super) fn end_wait(
        &mut self,
        context: Context<'_>,
        id: WaiterId,
        end: WaitEnd,
    ) -> Option<Blocked<Wait>> {
        self.end_wait_at(context, monotonic(), id, end)
    }

    /// As [`State::end_wait`], where it is known what time it is.
    pub(super) fn end_wait_at(
        &mut self,
        context: Context<'_>,
        now: Monotonic,
        id: WaiterId,
        end: WaitEnd,
    ) -> Option<Blocked<Wait>> {
        let (lock_id, waiter) = self.queues.remove(id)?;
        statistics::wait_ended(context, now, &lock_id, waiter.since, end);
        if self.queues.waiting(lock_id.database, &lock_id.key) == 0 {
            self.lease_watch.unwatch(&lock_id);
            self.maybe_free.remove(&lock_id);
        }
        if !self.users.is_empty() {
            self.users.remove(&id);
            shrink_if_sparse(&mut self.users);
        }
        let blocked = self.blocked.remove(&id)?;
        shrink_if_sparse(&mut self.blocked);
        // What is granted goes by its handle until it is told.
        if end != WaitEnd::Granted {
            self.sockets.end(id);
            self.forget_handle(blocked.handle());
        }
        Some(blocked)
    }

    /// A client is not blocked any more, or is about to be answered; its call.
    pub(super) fn forget_handle(&mut self, handle: Handle) -> Option<WaiterId> {
        let id = self.handles.remove(&handle);
        shrink_if_sparse(&mut self.handles);
        id
    }

    /// The client of a call is gone: whether a grant was pending for it, to be given back now.
    pub(super) fn abandon(&mut self, id: WaiterId) -> bool {
        self.sockets.end(id);
        let given_back = self.pending_grants.abandon(id);
        let owes = given_back.is_some();
        self.give_backs.extend(given_back);
        owes
    }

    /// The reply of a grant is written for its client. One that is to be closed is still called back,
    /// and its reply dropped.
    pub(super) fn reply_written(&mut self, client: u64, id: WaiterId) {
        self.sockets.end(id);
        if let Some(before) = self.written.insert(client, id) {
            self.pending_grants.deliver(before);
        }
    }

    /// What was written is sent, or as much of it as the clients take.
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
            self.unconfirmed_limit = 2 * self.unconfirmed.len() + FEW;
        }
    }

    /// A tick has left something for the next one.
    pub(super) fn has_work(&self) -> bool {
        !self.to_serve.is_empty() || !self.give_backs.is_empty()
    }

    /// Nothing to do, now or later.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.is_empty()
            && self.pending_grants.is_empty()
            && self.maybe_free.is_empty()
            && !self.has_work()
    }
}
