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

/// The state, which is created at its first use, and the flags that every command reads without borrowing it.
pub(super) struct Waiting {
    state: GilCell<Option<State>>,
    /// True if the state was not idle after its last use. Most commands find it false and have nothing to do.
    busy: AtomicBool,
    /// True if there are granted calls whose reply may not have reached the client yet.
    any_sent: AtomicBool,
    /// Detects stalls while the module follows the iterations of the event loop.
    pub(super) stalls: StallDetector,
}

impl Waiting {
    /// Runs `body` with the state. `body` must not call the server, whose events may use the state too.
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

    /// Forgets the sent grant of the calling client.
    pub(super) fn forget_sent(&self, context: Context<'_>) {
        if self.any_sent.load(Ordering::Relaxed) {
            self.with(context, |state| {
                state.calls.forget_sent(context.client_id());
            });
        }
    }

    /// Records that the server renewed a grant. `ends` are its old and new deadlines.
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

    /// Like [`Waiting::with`], but if the state is idle, returns the default without running `body`.
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

/// The data of the blocked client that is kept with its call.
#[derive(Default)]
pub(super) struct Client {
    /// The blocked client, until the call is answered.
    pub(super) blocked: Option<Blocked<LockWait>>,
    /// The user, on servers that check the rights of blocked commands again.
    pub(super) user: Option<User>,
    /// The socket, once it was queried.
    pub(super) socket: Option<Socket>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: Calls<Client>,
    /// Sessions whose calls still have to be updated because their program has gone away or polls again.
    pub(super) presence_changes: PresenceChanges,
    /// Ended sessions, some of whose calls are still in line.
    pub(super) ended_sessions: Vec<SessionId>,
    /// The queried sockets of connections that poll a session.
    pub(super) polling_sockets: Map<u64, Socket>,
    /// The sockets on which the server listens, while it catches up after a stall.
    pub(super) listening: Option<Listening>,
    /// Calls that the next tick checks for deadlock.
    pub(super) to_check: Vec<CallId>,
    /// The number of reply queries in the current period, and when the period began.
    pub(super) reply_queries: (u32, Monotonic),
    /// The number of clients in the last query of sockets, and when the iteration of that query began.
    pub(super) socket_query: (usize, Monotonic),
    /// The same for clients that poll sessions.
    pub(super) polling_query: (usize, Monotonic),
    /// True when subscribed to the iterations of the event loop.
    pub(super) follows_iterations: bool,
    /// True when subscribed to disconnects of clients.
    pub(super) follows_clients: bool,
    /// Limits how often a cluster node checks whether it still serves a lock.
    pub(super) check_limit: CheckLimit,
    /// True while a tick is running. The tick arms the timer when it ends.
    pub(super) in_tick: bool,
    /// The next tick, and when it is due.
    pub(super) timer: Option<(Timer, Monotonic)>,
}

impl Waiting {
    /// Runs `body` and returns true if the session has waiting calls.
    pub(super) fn if_session_waits(
        &self,
        proof: Context<'_>,
        session: SessionId,
        body: impl FnOnce(&mut State),
    ) -> bool {
        self.if_busy(proof, |state| {
            let waits = state.calls.of_session(session).next().is_some();
            if waits {
                body(state);
            }
            waits
        })
    }
}

impl State {
    /// Ends a wait without a grant. Returns the recipient of the answer.
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

/// The recipient of the answer to a call that has left the line.
pub(super) fn recipient_of(call: Call<Client>) -> Option<Recipient> {
    if call.waiter.is_queued() {
        let session = call.waiter.session?;
        Some(Recipient::Session(session, call.lock_id, call.waiter.owner))
    } else {
        call.attached.blocked.map(Recipient::Client)
    }
}
