//! Rounds: what is done for those who wait from the event loop, when its time has come.
//!
//! One timer, for the first of: a wait that ends, a lease that ends, a lock that was marked. The
//! server's timers follow the wall clock, which may be set back; its cron does not, and starts a
//! round that is overdue by a clock that nobody sets.

use std::time::Duration;

use super::monotonic;
use super::serve::{Caller, give_back, serve};
use super::state::STATE;
use super::wait::Answer;
use crate::core::{Monotonic, Place};
use crate::locks::now;
use crate::server::{self, Context, Moment, OwnedText, Text};

/// While somebody waits a round comes at least this often: nothing tells a module that a lease was
/// shortened from outside, or that writes are possible again.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);
/// How many locks are looked at for that in a round.
const LOOKS_PER_ROUND: usize = 256;
/// How late a round may be, in milliseconds, before the cron takes it that the wall clock was set
/// back. Little: this and the time between two crons are what a wait may be late by.
const OVERDUE: u64 = 2;

/// Learns of everything that may free a lock without touching its key.
pub(crate) fn load(context: Context<'_>) {
    for moment in [Moment::Flushed, Moment::Swapped, Moment::Loaded] {
        server::subscribe(context, moment, mark_all);
    }
    server::subscribe(context, Moment::Cron, catch_up);
}

/// A key has lost its lock. Called in the middle of that.
pub(crate) fn lost(context: Context<'_>, database: i32, key: &[u8]) {
    let marked = STATE.with(context, |state| {
        let waited_for = !state.queues.is_empty() && state.queues.waiting(database, key) > 0;
        if waited_for {
            state.marked.insert(super::place_of(database, key));
        }
        waited_for
    });
    if marked {
        soon(context);
    }
}

/// Learns of what becomes of the replies to those who wait, while somebody does: it costs a little
/// at each turn of the event loop.
pub(super) fn follow_clients(context: Context<'_>) {
    let follows = STATE.with(context, |state| {
        std::mem::replace(&mut state.follows_clients, true)
    });
    if !follows {
        server::subscribe(context, Moment::Awake, landed);
        server::subscribe(context, Moment::ClientGone, crashed);
    }
}

/// Every reply that was written is sent.
fn landed(context: Context<'_>) {
    STATE.with(context, |state| {
        for (_, id) in state.landing.drain() {
            state.flights.arrive(id);
        }
    });
}

/// A client is gone, perhaps before its reply was sent.
fn crashed(context: Context<'_>) {
    let owes = STATE.with(context, |state| {
        let lost = state
            .landing
            .remove(&context.client_id())
            .and_then(|id| state.flights.lose(id));
        let owes = lost.is_some();
        state.give_backs.extend(lost);
        owes
    });
    if owes {
        soon(context);
    }
}

/// A round as soon as the server is back in its event loop.
pub(super) fn soon(context: Context<'_>) {
    arm(context, Duration::ZERO);
}

/// A round when what could not be done now may be possible.
pub(super) fn later(context: Context<'_>) {
    arm(context, LONGEST_PAUSE);
}

fn mark_all(context: Context<'_>) {
    let any = STATE.with(context, |state| {
        let places = state.queues.places(None);
        let any = !places.is_empty();
        state.marked.extend(places);
        any
    });
    if any {
        soon(context);
    }
}

fn catch_up(context: Context<'_>) {
    let (stalled, missing) = STATE.with(context, |state| match state.timer {
        Some((_, due)) if monotonic().0 > due.0.saturating_add(OVERDUE) => {
            (state.timer.take(), false)
        }
        Some(_) => (None, false),
        None => (None, !state.idle()),
    });
    if let Some((timer, _)) = stalled {
        timer.stop(context);
        soon(context);
    } else if missing {
        soon(context);
    }
}

fn arm(context: Context<'_>, delay: Duration) {
    let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    let due = Monotonic(monotonic().0.saturating_add(millis));
    let before = STATE.with(context, |state| match state.timer {
        Some((_, armed)) if armed <= due => Err(()),
        _ => Ok(state.timer.take()),
    });
    let Ok(before) = before else { return };
    if let Some((timer, _)) = before {
        timer.stop(context);
    }
    let timer = server::call_later(context, delay, round);
    STATE.with(context, |state| state.timer = Some((timer, due)));
}

fn round(context: Context<'_>) {
    STATE.with(context, |state| state.timer = None);
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
    } else if context.writes_paused() || context.flags().loading() {
        STATE.with(context, |state| state.marked.extend(places));
    } else {
        for place in owed {
            at(context, &place, |name| {
                give_back(context, name, Caller::Loop);
            });
        }
        for place in places {
            at(context, &place, |name| {
                serve(context, name, Caller::Loop);
            });
        }
    }
    arm_next(context);
}

fn at(context: Context<'_>, place: &Place, body: impl FnOnce(Text<'_>)) {
    if context.select_database(place.database) {
        let name = OwnedText::new(&place.key);
        body(name.text());
    }
}

fn rest(context: Context<'_>) {
    let followed = STATE.with(context, |state| {
        state.landing.shrink_to_fit();
        std::mem::take(&mut state.follows_clients)
    });
    if followed {
        server::unsubscribe(context, Moment::Awake);
        server::unsubscribe(context, Moment::ClientGone);
    }
}

fn end_waits(context: Context<'_>) {
    let now = monotonic();
    while let Some(blocked) = STATE.with(context, |state| {
        let (end, id) = state.queues.next_end()?;
        if end <= now { state.leave(id) } else { None }
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
        rest(context);
        return;
    }
    let until_wait = wait_ends.map(|end| end.0.saturating_sub(monotonic().0));
    // A key expires when its moment is over.
    let until_lease = lease_ends.map(|end| (end + 1).saturating_sub(now(context).millis()));
    let next = until_wait
        .into_iter()
        .chain(until_lease)
        .map(Duration::from_millis)
        .fold(LONGEST_PAUSE, Duration::min);
    arm(context, next);
}
