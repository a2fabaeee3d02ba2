//! The tick: the work of the waiting layer in the event loop.
//!
//! A tick is due when a wait ends, when a lease ends that somebody waits for, and when a lock may be free.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::time::Duration;

use redis_lock_core::LockId;

use super::answer::Answer;
use super::give_back::give_back;
use super::redirection::{NodesCache, check_served};
use super::refuse::refuse_all;
use super::serve::{Caller, serve};
use super::slice::Slice;
use super::stall_detector::MAX_PAUSE;
use super::state::STATE;
use super::{deadlock, events, timer};
use crate::locks::{monotonic, now};
use crate::server::{Context, OwnedText, Text};
use crate::statistics::WaitEnd;

/// How many of the locks that are not due a tick polls.
const POLLS_PER_TICK: usize = 256;

/// Runs a tick; returns the delay to the next one.
pub(super) fn tick(context: Context<'_>) -> Option<Duration> {
    time_out_waits(context);
    deadlock::judge_rest(context);
    STATE.with(context, |state| {
        state.to_serve.extend(state.maybe_free.drain());
        state
            .to_serve
            .extend(state.lease_watch.take_ended(now(context).millis()));
    });
    if context.flags().replica() {
        STATE.with(context, |state| {
            state.give_backs.clear();
            state.to_serve = VecDeque::new();
        });
        end_all_waits(context);
    } else if !context.writes_paused() && !context.flags().loading() {
        give_all_back(context);
        serve_due(context);
        if STATE.with(context, |state| state.has_work()) {
            return Some(Duration::ZERO);
        }
    }
    next_delay(context)
}

fn give_all_back(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some(lock_id) = STATE.with(context, |state| state.give_backs.next()) {
        with_name(context, &lock_id, |name| give_back(context, name, &lock_id));
        if slice.is_over() {
            return;
        }
    }
}

/// Serves the locks that are due. Then polls a few of the others, in turn, while there is time.
fn serve_due(context: Context<'_>) {
    let slice = Slice::begin();
    let nodes = NodesCache::default();
    let mut polls = STATE.with(context, |state| state.lease_watch.len().min(POLLS_PER_TICK));
    while let Some((lock_id, checks)) = STATE.with(context, |state| {
        if let Some(lock_id) = state.to_serve.pop_front() {
            return Some((lock_id, true));
        }
        polls = polls.checked_sub(1)?;
        let checks = state.check_limit.allows(state.lease_watch.len());
        Some((state.lease_watch.next_to_poll()?, checks))
    }) {
        let mut goes_on = false;
        with_name(context, &lock_id, |name| {
            match checks
                .then(|| check_served(context, name, &nodes))
                .flatten()
            {
                Some(redirection) => refuse_all(context, &lock_id, |client| {
                    Answer::error(redirection.error(context, client))
                }),
                None => goes_on = serve(context, name, Caller::EventLoop),
            }
        });
        if goes_on || slice.is_over() {
            return;
        }
    }
    // Give back the memory of a burst.
    STATE.with(context, |state| {
        state.to_serve.shrink_to(POLLS_PER_TICK);
        state.maybe_free.shrink_to(POLLS_PER_TICK);
    });
}

/// Ends all waits on a replica. Most servers do that themselves. Valkey from 9.0 leaves out a module's
/// clients where it redirects clients to the new primary.
fn end_all_waits(context: Context<'_>) {
    const UNBLOCKED: &CStr = c"UNBLOCKED this server has become a replica";
    let nodes = NodesCache::default();
    for lock_id in STATE.with(context, |state| state.queues.lock_ids(None)) {
        with_name(context, &lock_id, |name| {
            let redirection = check_served(context, name, &nodes);
            refuse_all(context, &lock_id, |client| {
                let error = redirection.as_ref().map(|to| to.error(context, client));
                Answer::error(error.unwrap_or_else(|| UNBLOCKED.to_owned()))
            });
        });
    }
}

fn with_name(context: Context<'_>, lock_id: &LockId, body: impl FnOnce(Text<'_>)) {
    if context.select_database(lock_id.database) {
        let name = OwnedText::new(&lock_id.key);
        body(name.text());
    }
}

fn time_out_waits(context: Context<'_>) {
    let now = monotonic();
    let slice = Slice::begin();
    while let Some(blocked) = STATE.with(context, |state| {
        let (end, id) = state.queues.next_end()?;
        if end <= now {
            state.end_wait(context, id, WaitEnd::TimeOut)
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

fn next_delay(context: Context<'_>) -> Option<Duration> {
    let (idle, wait_ends, lease_ends) = STATE.with(context, |state| {
        (
            state.is_idle(),
            state.queues.next_end().map(|(end, _)| end),
            state.lease_watch.next_end(),
        )
    });
    if idle {
        events::unfollow_iterations(context);
        return None;
    }
    let until_wait = wait_ends.map(|end| end.since(monotonic()));
    let until_lease = lease_ends.map(|end| timer::until_end(context, end));
    let next = until_wait
        .into_iter()
        .chain(until_lease)
        .fold(MAX_PAUSE, Duration::min);
    Some(next)
}
