//! The work of the event loop: leases that end, renewals that are due, connections that are silent.

use std::time::Duration;

use redis_lock_core::Monotonic;
use redis_lock_core::keeping::{KeptGrant, Now};

use super::close::{Cause, close};
use super::grant::{Outcome, deadline, renew};
use super::state::{STATE, this_moment};
use super::timer;
use crate::locks::{SLICE, check_write, monotonic};
use crate::server::{Context, OwnedText, WriteCheck};

/// How many clients are asked about at once: a question costs the same for many.
const ASKED_AT_ONCE: usize = 100;
/// How many grants of forgotten connections are put away at once.
const SWEPT_AT_ONCE: usize = 200;
/// How many grants are looked at in turn: a lease may have been cut by hand.
const LOOKED_AT_ONCE: usize = 16;
/// The longest pause between two looks.
const MAX_PAUSE: Duration = Duration::from_millis(8);

fn timer_fired(context: Context<'_>) {
    // After an early one the next iteration does the work, and arms the next (see `server::call_later`).
    let is_early = timer::has_fired(context);
    if STATE.is_busy() && !is_early {
        work(context);
    }
}

/// Does what is due.
pub(super) fn work(context: Context<'_>) {
    let paused = context.writes_paused();
    let now = this_moment(context);
    STATE.with(context, |state| {
        let was_paused = std::mem::replace(&mut state.was_paused, paused);
        state.grants.tick(now, paused || was_paused);
    });
    end_leases(context);
    renew_due(context, paused);
    if !is_early(context, now) {
        look_in_turn(context);
    }
    ask(context);
    let more = STATE.with(context, |state| state.grants.sweep(SWEPT_AT_ONCE));
    if more {
        timer::arm(context, Monotonic(0), timer_fired);
    }
    arm(context);
}

/// Looks at the leases that have ended, as far as is known.
pub(super) fn end_leases(context: Context<'_>) {
    loop {
        let now = this_moment(context);
        let Some(kept) = STATE.with(context, |state| state.grants.take_ended(now.unix)) else {
            return;
        };
        look(context, &kept);
    }
}

/// True when grants were looked at in turn a short while ago.
fn is_early(context: Context<'_>, now: Now) -> bool {
    STATE.with(context, |state| {
        let is_early = now.monotonic.since(state.looked_at) < MAX_PAUSE;
        if !is_early {
            state.looked_at = now.monotonic;
        }
        is_early
    })
}

/// Looks at the next grants, of all in turn.
fn look_in_turn(context: Context<'_>) {
    let grants = STATE.with(context, |state| state.grants.len());
    for _ in 0..grants.min(LOOKED_AT_ONCE) {
        if let Some(kept) = STATE.with(context, |state| state.grants.next_to_look_at()) {
            look(context, &kept);
        }
    }
}

/// Looks whether a grant stands, and when its lease ends.
fn look(context: Context<'_>, kept: &KeptGrant) {
    let stands = deadline(context, kept);
    let now = this_moment(context);
    let closed = STATE.with(context, |state| match stands {
        Some(deadline) => state.grants.seen(kept.name(), deadline, now),
        None => state.grants.lost(kept.name()),
    });
    close(context, closed.into_iter().collect(), Cause::Other);
}

/// Renews what is due, for a slice of time.
fn renew_due(context: Context<'_>, paused: bool) {
    let flags = context.flags();
    if flags.loading() || flags.replica() {
        return;
    }
    let began = monotonic();
    let mut allowed = None;
    loop {
        let now = this_moment(context);
        if now.monotonic.since(began) >= SLICE {
            return;
        }
        if paused || allowed == Some(false) {
            let Some(kept) = STATE.with(context, |state| state.grants.take_short(now)) else {
                return;
            };
            cannot_renew(context, &kept, now);
            continue;
        }
        if allowed.is_none() && !flags.cluster() {
            // What keeps the server from one write keeps it from all.
            let Some(kept) = STATE.with(context, |state| state.grants.to_try(now)) else {
                return;
            };
            allowed = Some(is_allowed(context, &kept));
            continue;
        }
        let Some(kept) = STATE.with(context, |state| state.grants.take_due(now)) else {
            return;
        };
        if flags.cluster() && !is_allowed(context, &kept) {
            cannot_renew(context, &kept, now);
        } else {
            let outcome = renew(context, &kept);
            tell(context, &kept, outcome);
        }
    }
}

/// True when the server would allow a command that writes this key.
fn is_allowed(context: Context<'_>, kept: &KeptGrant) -> bool {
    let name = OwnedText::new(&kept.lock_id.key);
    context.select_database(kept.lock_id.database)
        && check_write(context, name.text()) == WriteCheck::Allowed
}

fn cannot_renew(context: Context<'_>, kept: &KeptGrant, now: Now) {
    let stands = deadline(context, kept);
    let closed = STATE.with(context, |state| match stands {
        Some(deadline) => state.grants.cannot_renew(kept.name(), deadline, now),
        None => state.grants.lost(kept.name()),
    });
    close(context, closed.into_iter().collect(), Cause::Other);
}

/// Notes what became of a grant that was to be renewed.
pub(super) fn tell(context: Context<'_>, kept: &KeptGrant, outcome: Outcome) {
    let now = this_moment(context);
    let closed = STATE.with(context, |state| {
        let (grants, name) = (&mut state.grants, kept.name());
        match outcome {
            Outcome::Renewed(lease, deadline) => {
                grants.renewed(name, lease, deadline, now);
                None
            }
            Outcome::Persisted => grants.seen(name, redis_lock_core::Deadline::Never, now),
            Outcome::Lost => grants.lost(name),
        }
    });
    close(context, closed.into_iter().collect(), Cause::Other);
}

/// Asks the server when it heard from the clients whose silence can have run out.
fn ask(context: Context<'_>) {
    let now = this_moment(context);
    let clients = STATE.with(context, |state| state.grants.to_ask(now, ASKED_AT_ONCE));
    if clients.is_empty() {
        return;
    }
    let Some(idle) = context.idle_seconds(&clients) else {
        return;
    };
    let now = this_moment(context);
    let silent = STATE.with(context, |state| {
        let mut silent = Vec::new();
        for client in clients {
            match idle.iter().find(|(known, _)| *known == client) {
                Some((_, idle)) => {
                    let seconds = now.unix.millis() / 1000;
                    let noted = seconds.saturating_add_signed(idle.saturating_neg());
                    if state.grants.heard(client, noted, now) {
                        silent.push(client);
                    }
                }
                None => state.grants.client_closed(client),
            }
        }
        silent
    });
    close(context, silent, Cause::Other);
}

/// Arms the timer for what is due next.
pub(super) fn arm(context: Context<'_>) {
    let now = this_moment(context);
    let paused = context.writes_paused();
    let next = STATE.with(context, |state| {
        let grants = &state.grants;
        if grants.is_idle() {
            return None;
        }
        let due = if paused {
            grants.next_short()
        } else {
            grants.next_due()
        };
        let end = grants.next_end().map(|end| {
            // A key expires a millisecond after its deadline.
            let left = (end + 1).saturating_sub(now.unix.millis());
            now.monotonic.plus(Duration::from_millis(left))
        });
        let latest = now.monotonic.plus(MAX_PAUSE);
        let next = [due, end, grants.next_ask()];
        Some(next.into_iter().flatten().fold(latest, Monotonic::min))
    });
    if let Some(at) = next {
        timer::arm(context, at, timer_fired);
    }
}
