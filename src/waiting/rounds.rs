//! Rounds: what is done for those who wait from the event loop, when its time has come.
//!
//! One comes for the first of: a wait that ends, a lease that ends, a lock that was marked.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::time::Duration;

use redis_lock_core::{Monotonic, Place};

use super::answer::Answer;
use super::leaving::{View, farewell};
use super::serve::{Caller, give_back, refuse_all, serve};
use super::state::STATE;
use super::{alarm, news};
use crate::locks::{monotonic, now};
use crate::server::{Context, OwnedText, Text};
use crate::statistics::WaitEnd;

/// How many locks are looked at for that in a round.
const LOOKS_PER_ROUND: usize = 256;

/// How long a round works before it leaves the rest to the next one, so that the server comes to its
/// other clients however much is due at once.
const SLICE: Duration = Duration::from_millis(1);

/// One round; when the next one is to come.
pub(super) fn round(context: Context<'_>) -> Option<Duration> {
    end_waits(context);
    STATE.with(context, |state| {
        state.due.extend(state.marked.drain());
        state.due.extend(state.watch.ended(now(context).millis()));
    });
    if context.flags().replica() {
        STATE.with(context, |state| {
            state.give_backs.clear();
            state.due = VecDeque::new();
        });
        send_all_away(context);
    } else if !context.writes_paused() && !context.flags().loading() {
        give_all_back(context);
        look_at_due(context);
        if STATE.with(context, |state| state.has_work()) {
            return Some(Duration::ZERO);
        }
    }
    next(context)
}

fn give_all_back(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some(place) = STATE.with(context, |state| state.give_backs.next()) {
        at(context, &place, |name| give_back(context, name, &place));
        if slice.is_over() {
            return;
        }
    }
}

/// Looks at the locks that are due, and then, while there is time, at a few of the others in turn.
fn look_at_due(context: Context<'_>) {
    let slice = Slice::begin();
    let view = View::default();
    let mut turns = STATE.with(context, |state| state.watch.len().min(LOOKS_PER_ROUND));
    while let Some((place, asks)) = STATE.with(context, |state| {
        if let Some(due) = state.due.pop_front() {
            return Some((due, true));
        }
        turns = turns.checked_sub(1)?;
        let asks = state.rota.is_due(state.watch.len());
        Some((state.watch.turn()?, asks))
    }) {
        at(context, &place, |name| {
            match asks.then(|| farewell(context, name, &view)).flatten() {
                Some(farewell) => refuse_all(context, &place, |client| {
                    Answer::error(farewell.error(context, client))
                }),
                None => serve(context, name, Caller::Loop),
            }
        });
        if slice.is_over() {
            return;
        }
    }
    // The room that many at once have taken.
    STATE.with(context, |state| {
        state.due.shrink_to(LOOKS_PER_ROUND);
        state.marked.shrink_to(LOOKS_PER_ROUND);
    });
}

/// A part of a round. What is done in it is begun at least once, however late it is.
struct Slice(Monotonic);

impl Slice {
    fn begin() -> Self {
        Self(monotonic())
    }

    fn is_over(&self) -> bool {
        monotonic().since(self.0) >= SLICE
    }
}

/// Ends all waits on a replica. Most servers have done so, but Valkey from 9.0 passes over the clients
/// of a module where it sends others to the new primary: in a cluster, or when they can be sent.
fn send_all_away(context: Context<'_>) {
    const UNBLOCKED: &CStr = c"UNBLOCKED this server has become a replica";
    let view = View::default();
    for place in STATE.with(context, |state| state.queues.places(None)) {
        at(context, &place, |name| {
            let farewell = farewell(context, name, &view);
            refuse_all(context, &place, |client| {
                let told = farewell.as_ref().map(|told| told.error(context, client));
                Answer::error(told.unwrap_or_else(|| UNBLOCKED.to_owned()))
            });
        });
    }
}

fn at(context: Context<'_>, place: &Place, body: impl FnOnce(Text<'_>)) {
    if context.select_database(place.database) {
        let name = OwnedText::new(&place.key);
        body(name.text());
    }
}

fn end_waits(context: Context<'_>) {
    let now = monotonic();
    let slice = Slice::begin();
    while let Some(blocked) = STATE.with(context, |state| {
        let (end, id) = state.queues.next_end()?;
        if end <= now {
            state.leave(context, id, WaitEnd::TimeOut)
        } else {
            None
        }
    }) {
        blocked.answer(Answer::Nothing);
        if slice.is_over() {
            return;
        }
    }
}

fn next(context: Context<'_>) -> Option<Duration> {
    let (idle, wait_ends, lease_ends) = STATE.with(context, |state| {
        (
            state.idle(),
            state.queues.next_end().map(|(end, _)| end),
            state.watch.next_end(),
        )
    });
    if idle {
        news::forget_turns(context);
        return None;
    }
    let until_wait = wait_ends.map(|end| end.since(monotonic()));
    // A key expires when its moment is over.
    let until_lease = lease_ends
        .map(|end| Duration::from_millis((end + 1).saturating_sub(now(context).millis())));
    let next = until_wait
        .into_iter()
        .chain(until_lease)
        .fold(alarm::LONGEST_PAUSE, Duration::min);
    Some(next)
}
