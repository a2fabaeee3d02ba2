//! Rounds: what is done for those who wait from the event loop, when its time has come.
//!
//! One comes for the first of: a wait that ends, a lease that ends, a lock that was marked.

use std::ffi::CStr;
use std::time::Duration;

use super::answer::Answer;
use super::leaving::{View, farewell};
use super::serve::{Caller, give_back, refuse_all, serve};
use super::state::STATE;
use super::{alarm, news};
use crate::core::Place;
use crate::locks::{monotonic, now};
use crate::server::{Context, OwnedText, Text};
use crate::statistics::WaitEnd;

/// How many locks are looked at for that in a round.
const LOOKS_PER_ROUND: usize = 256;

/// One round.
pub(super) fn round(context: Context<'_>) {
    end_waits(context);
    let (owed, places) = STATE.with(context, |state| {
        let owed: Vec<Place> = state
            .give_backs
            .iter()
            .map(|give_back| give_back.place().clone())
            .collect();
        let mut places: Vec<Place> = state.marked.drain().collect();
        places.extend(state.watch.ended(now(context).millis()));
        places.extend(state.watch.turns(LOOKS_PER_ROUND));
        (owed, places)
    });
    if context.flags().replica() {
        STATE.with(context, |state| state.give_backs.clear());
        send_all_away(context);
    } else if context.writes_paused() || context.flags().loading() {
        STATE.with(context, |state| state.marked.extend(places));
    } else {
        for place in owed {
            at(context, &place, |name| {
                give_back(context, name, Caller::Loop);
            });
        }
        let view = View::default();
        for place in places {
            at(context, &place, |name| {
                match farewell(context, name, &view) {
                    Some(error) => refuse_all(context, &place, || Answer::error(error.clone())),
                    None => serve(context, name, Caller::Loop),
                }
            });
        }
    }
    arm_next(context);
}

/// Ends all waits on a replica. Most servers have done so, but Valkey from 9.0 passes over the clients
/// of a module where it sends others to the new primary: in a cluster, or when they can be sent.
fn send_all_away(context: Context<'_>) {
    const UNBLOCKED: &CStr = c"UNBLOCKED this server has become a replica";
    let view = View::default();
    for place in STATE.with(context, |state| state.queues.places(None)) {
        at(context, &place, |name| {
            let error = farewell(context, name, &view).unwrap_or_else(|| UNBLOCKED.to_owned());
            refuse_all(context, &place, || Answer::error(error.clone()));
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
    while let Some(blocked) = STATE.with(context, |state| {
        let (end, id) = state.queues.next_end()?;
        if end <= now {
            state.leave(context, id, WaitEnd::TimeOut)
        } else {
            None
        }
    }) {
        blocked.answer(Answer::Nothing);
    }
}

fn arm_next(context: Context<'_>) {
    let (idle, wait_ends, lease_ends) = STATE.with(context, |state| {
        (
            state.idle(),
            state.queues.next_end().map(|(end, _)| end),
            state.watch.next_end(),
        )
    });
    if idle {
        news::forget_clients(context);
        return;
    }
    let until_wait = wait_ends.map(|end| end.since(monotonic()));
    // A key expires when its moment is over.
    let until_lease = lease_ends
        .map(|end| Duration::from_millis((end + 1).saturating_sub(now(context).millis())));
    let next = until_wait
        .into_iter()
        .chain(until_lease)
        .fold(alarm::LONGEST_PAUSE, Duration::min);
    alarm::arm(context, next);
}
