//! The kept grants, and what is to be done about connections.

use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::keeping::{KeptGrants, Now};
use redis_lock_core::{Monotonic, UnixTime};

use crate::locks::monotonic;
use crate::server::{Context, GilCell, Timer};

pub(super) static STATE: Keeping = Keeping {
    state: GilCell::new(None),
    busy: AtomicBool::new(false),
};

/// The state, created at the first use.
pub(super) struct Keeping {
    state: GilCell<Option<State>>,
    /// True when anything is kept or still to be closed. Every command asks this.
    busy: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) grants: KeptGrants,
    /// Clients to close at the end of this iteration of the event loop, before any reply is sent: their
    /// command is running.
    pub(super) close_unsent: Vec<u64>,
    /// Clients to close when their replies are sent: they ended their grant themselves.
    pub(super) close_sent: Vec<u64>,
    pub(super) timeout: Timeout,
    pub(super) follows: Follows,
    /// Writes were paused when the time was told last.
    pub(super) was_paused: bool,
    /// When grants were looked at in turn.
    pub(super) looked_at: Monotonic,
    /// When the timer is due, and the timer.
    pub(super) timer: Option<(Timer, Monotonic)>,
}

/// What is known of the server's `timeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Timeout {
    /// It is to be looked up at the next `KEEP`.
    #[default]
    Unknown,
    /// It closes no connection.
    Off,
    /// It closes quiet connections, and the log says so.
    Noted,
}

/// The events that are subscribed to.
#[derive(Default)]
pub(super) struct Follows {
    /// The iterations of the event loop.
    pub(super) iterations: bool,
    /// Disconnects.
    pub(super) clients: bool,
}

impl State {
    pub(super) fn is_idle(&self) -> bool {
        self.grants.is_idle() && self.close_unsent.is_empty() && self.close_sent.is_empty()
    }
}

impl Keeping {
    /// Runs `body` with the state; it must not call the server.
    pub(super) fn with<R>(&self, proof: Context<'_>, body: impl FnOnce(&mut State) -> R) -> R {
        self.state.with(proof, |state| {
            let state = state.get_or_insert_default();
            let result = body(state);
            self.busy.store(!state.is_idle(), Ordering::Relaxed);
            result
        })
    }

    /// As [`Keeping::with`], but returns the default without running `body` when nothing is kept.
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

/// This moment by both clocks.
pub(super) fn this_moment(context: Context<'_>) -> Now {
    Now {
        monotonic: monotonic(),
        unix: UnixTime::from_micros(context.unix_micros_now()),
    }
}

/// How many grants are kept.
pub(crate) fn kept(context: Context<'_>) -> usize {
    STATE.if_busy(context, |state| state.grants.len())
}
