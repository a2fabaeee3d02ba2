//! The state of the waiting layer.

use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::sessions::{SessionGrant, SessionId};
use redis_lock_core::{Call, CallId, Calls, Deadline, LockId, Map, Monotonic};

use super::answer::{LockWait, Recipient};
use super::cluster_redirect::CheckLimit;
use super::presence_changes::PresenceChanges;
use super::stall_detector::StallDetector;
use crate::server::{Blocked, Context, GilCell, Listening, Socket, Timer, User};
use crate::statistics::{self, WaitEnd};

pub(super) static STATE: Waiting = Waiting {
    state: GilCell::new(None),
    busy: AtomicBool::new(false),
    any_sent: AtomicBool::new(false),
    stalls: StallDetector::new(),
};

/// The state, created at the first use, and what is asked too often to look into it.
pub(super) struct Waiting {
    state: GilCell<Option<State>>,
    /// True when the state was not idle after the last use. Every command asks this, and most find that
    /// there is nothing to do.
    busy: AtomicBool,
    /// True when there are calls whose reply is sent.
    any_sent: AtomicBool,
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
            let calls = &state.calls;
            self.busy.store(!calls.is_idle(), Ordering::Relaxed);
            self.any_sent.store(calls.has_sent(), Ordering::Relaxed);
            result
        })
    }

    /// Forgets the call of the calling client whose reply is sent.
    pub(super) fn forget_sent(&self, context: Context<'_>) {
        if self.any_sent.load(Ordering::Relaxed) {
            self.with(context, |state| {
                state.calls.forget_sent(context.client_id());
            });
        }
    }

    /// Notes that the server renewed a grant: `ends` are the old and the new end. The owner is not notified.
    pub(super) fn renewed(
        &self,
        context: Context<'_>,
        grant: &SessionGrant,
        ends: (Deadline, Deadline),
    ) {
        if self.is_busy() || self.any_sent.load(Ordering::Relaxed) {
            self.with(context, |state| {
                let LockId { database, key } = &grant.lock_id;
                state.calls.renewed((*database, key), grant.token, ends);
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

/// The data that is kept with a call while its client is blocked.
#[derive(Default)]
pub(super) struct Client {
    /// The client, until the call is answered.
    pub(super) blocked: Option<Blocked<LockWait>>,
    /// Its user, on servers where rights are checked again.
    pub(super) user: Option<User>,
    /// Its socket, if that was queried.
    pub(super) socket: Option<Socket>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: Calls<Client>,
    /// Sessions whose program has disconnected, frozen or returned, and whose calls are left to update.
    pub(super) presence_changes: PresenceChanges,
    /// Sessions that have ended, some of whose calls still wait.
    pub(super) ended_sessions: Vec<SessionId>,
    /// The sockets of connections that poll a session, as far as they were queried.
    pub(super) polling_sockets: Map<u64, Socket>,
    /// The sockets on which the server listens, while it catches up after a stall.
    pub(super) listening: Option<Listening>,
    /// Calls that the next tick is to check: whether they close a deadlock cycle.
    pub(super) to_check: Vec<CallId>,
    /// How many replies were queried in this period, and when it began.
    pub(super) reply_queries: (u32, Monotonic),
    /// The number of clients in the last query of sockets, and when its iteration of the event loop began.
    pub(super) socket_query: (usize, Monotonic),
    /// The same for clients that poll sessions.
    pub(super) polling_query: (usize, Monotonic),
    /// True when subscribed to the iterations of the event loop.
    pub(super) follows_iterations: bool,
    /// True when subscribed to disconnects of clients.
    pub(super) follows_clients: bool,
    /// Limits how often a cluster node checks that it still serves a lock.
    pub(super) check_limit: CheckLimit,
    /// A tick is running; it arms the timer for the next one at its end.
    pub(super) in_tick: bool,
    /// The next tick, and when it is due.
    pub(super) timer: Option<(Timer, Monotonic)>,
}

impl Waiting {
    /// Runs `note` when calls of this session wait; true then.
    pub(super) fn if_session_waits(
        &self,
        proof: Context<'_>,
        session: SessionId,
        note: impl FnOnce(&mut State),
    ) -> bool {
        self.if_busy(proof, |state| {
            let waits = state.calls.of_session(session).next().is_some();
            if waits {
                note(state);
            }
            waits
        })
    }
}

impl State {
    /// Ends a wait without a grant; returns the recipient of the answer.
    pub(super) fn end_wait(
        &mut self,
        context: Context<'_>,
        now: Monotonic,
        id: CallId,
        end: WaitEnd,
    ) -> Option<Recipient> {
        let call = self.calls.remove(id)?;
        statistics::wait_ended(context, now, &call.lock_id, call.waiter.since, end);
        recipient_of(call)
    }
}

/// The client of a call that was taken out of the table.
pub(super) fn recipient_of(call: Call<Client>) -> Option<Recipient> {
    if call.waiter.is_queued() {
        let session = call.waiter.session?;
        Some(Recipient::Session(session, call.lock_id, call.waiter.owner))
    } else {
        call.attached.blocked.map(Recipient::Client)
    }
}
