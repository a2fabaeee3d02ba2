//! The connections of those who wait: the server is asked for them where the event loop was held up.
//!
//! A question may cost as much about one client as about many (docs/design.md): where many calls have
//! to be looked at, it is about many at once.

use std::collections::VecDeque;

use super::state::{FEW, STATE, State};
use crate::core::{Map, WaiterId};
use crate::server::{Context, Socket};

/// The most clients that one question is about.
const MOST: usize = 128;

/// The sockets of calls that wait, or whose grant is on its way.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Those that were asked for. A socket is its client's for as long as that is connected: it is
    /// forgotten when the call has its answer or its client is gone.
    known: Map<WaiterId, Socket>,
    /// Calls that were not asked for, with their clients, in the order in which they began; some of
    /// them have ended.
    unasked: VecDeque<(WaiterId, u64)>,
    /// How many of those there may be before the ones that have ended are looked for.
    most_unasked: usize,
    /// How many clients the last question of this turn was about.
    asked: usize,
}

impl Sockets {
    fn begin(&mut self, id: WaiterId, client: u64, goes_on: impl Fn(WaiterId) -> bool) {
        if self.unasked.len() > self.most_unasked {
            self.unasked.retain(|(id, _)| goes_on(*id));
            self.unasked.shrink_to(2 * self.unasked.len());
            self.most_unasked = 2 * self.unasked.len() + FEW;
        }
        self.unasked.push_back((id, client));
    }

    /// A call has its answer, or its client is gone.
    pub(super) fn end(&mut self, id: WaiterId) {
        if !self.known.is_empty() {
            self.known.remove(&id);
        }
    }

    /// A turn of the event loop begins.
    pub(super) fn next_turn(&mut self) {
        self.asked = 0;
    }

    /// Nobody waits.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whom to ask for beside this call: twice as many as the last time in this turn.
    fn ask_with(
        &mut self,
        id: WaiterId,
        goes_on: impl Fn(WaiterId) -> bool,
    ) -> Vec<(WaiterId, u64)> {
        self.asked = (2 * self.asked).clamp(1, MOST);
        let mut others = Vec::new();
        while others.len() + 1 < self.asked
            && let Some((other, client)) = self.unasked.pop_front()
        {
            if other != id && !self.known.contains_key(&other) && goes_on(other) {
                others.push((other, client));
            }
        }
        others
    }
}

/// A call begins to wait.
pub(super) fn begin(state: &mut State, id: WaiterId, client: u64) {
    let (sockets, goes_on) = sockets(state);
    sockets.begin(id, client, goes_on);
}

/// The sockets, and whether a call waits or its grant is on its way.
fn sockets(state: &mut State) -> (&mut Sockets, impl Fn(WaiterId) -> bool) {
    let (queues, flights) = (&state.queues, &state.flights);
    let goes_on = |id| queues.get(id).is_some() || flights.is_on_its_way(id);
    (&mut state.sockets, goes_on)
}

/// Whether the client of a call that waits, or whose grant is on its way, has closed its connection,
/// also where the server has not read that yet. In doubt it has not.
pub(super) fn peer_is_gone(context: Context<'_>, id: WaiterId, client: u64) -> bool {
    let known = STATE.with(context, |state| state.sockets.known.get(&id).copied());
    let socket = known.or_else(|| {
        let mut calls = STATE.with(context, |state| {
            let (sockets, goes_on) = sockets(state);
            sockets.ask_with(id, goes_on)
        });
        calls.push((id, client));
        let clients: Vec<_> = calls.iter().map(|(_, client)| *client).collect();
        let told: Map<_, _> = context.sockets(&clients).into_iter().collect();
        let sockets = calls
            .iter()
            .filter_map(|(id, client)| Some((*id, *told.get(client)?)));
        STATE.with(context, |state| {
            state.sockets.known.extend(sockets);
            state.sockets.known.get(&id).copied()
        })
    });
    socket.is_some_and(Socket::peer_is_gone)
}
