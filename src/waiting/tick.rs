//! The tick, which does the waiting layer's work in the event loop.
//!
//! A tick is due when a wait times out, when a lease that a call waits for ends, and when a lock may have become free.

use std::ffi::CStr;
use std::time::Duration;

use redis_lock_core::LockId;

use super::answer::Answer;
use super::cluster_redirect::check_served;
use super::give_back::apply_give_backs;
use super::pass_over::update_calls;
use super::refuse::refuse_all;
use super::serve::{Caller, serve};
use super::session_end::end_rest;
use super::stall_detector::MAX_PAUSE;
use super::state::STATE;
use super::{deadlock, events, timer};
use crate::locks::{Slice, monotonic, now};
use crate::server::cluster_nodes::NodesCache;
use crate::server::{Context, OwnedText, Text};
use crate::statistics::WaitEnd;

/// How many locks that are not marked as ready a tick checks in turn.
const TURNS_PER_TICK: usize = 256;

/// The most locks that one tick marks as ready because a lease has ended.
const ENDS_PER_TICK: usize = 256;

/// Runs a tick. Returns the delay until the next one, or `None` if nothing is left to do.
pub(super) fn tick(context: Context<'_>) -> Option<Duration> {
    let paused = context.writes_paused();
    STATE.stalls.set_paused(monotonic(), paused);
    time_out_waits(context);
    if !context.flags().replica() {
        end_rest(context);
    }
    update_calls(context);
    deadlock::check_rest(context);
    STATE.with(context, |state| {
        let calls = &mut state.calls;
        calls.make_ended_ready(now(context).millis(), ENDS_PER_TICK);
    });
    if context.flags().replica() {
        drop_give_backs(context);
        if !end_all_waits(context) {
            return Some(Duration::ZERO);
        }
        STATE.with(context, |state| state.ended_sessions.clear());
    } else if !paused && !context.flags().loading() && !serve_ready(context) {
        return Some(Duration::ZERO);
    }
    next_delay(context)
}

/// Applies the give-backs of the ready locks and serves their waiters. Then serves a few other locks in turn, for one
/// slice of time. Returns false if ready locks are left.
fn serve_ready(context: Context<'_>) -> bool {
    let slice = Slice::begin();
    let nodes = NodesCache::default();
    let (mut ready, mut turns) = STATE.with(context, |state| {
        let calls = &state.calls;
        (calls.ready_len(), calls.locks().min(TURNS_PER_TICK))
    });
    while let Some((lock_id, checks)) = STATE.with(context, |state| {
        while ready > 0 {
            ready -= 1;
            if let Some(lock_id) = state.calls.take_ready() {
                return Some((lock_id, true));
            }
        }
        turns = turns.checked_sub(1)?;
        let checks = state.check_limit.allows(state.calls.locks());
        Some((state.calls.next_turn()?, checks))
    }) {
        let mut is_unfinished = false;
        with_name(context, &lock_id, |name| {
            apply_give_backs(context, name, Caller::EventLoop);
            let redirection = checks.then(|| check_served(context, name, &nodes));
            match redirection.flatten() {
                Some(redirection) => {
                    is_unfinished = !refuse_all(context, name, |client| {
                        Answer::error(redirection.error(context, client))
                    });
                }
                None => is_unfinished = serve(context, name, Caller::EventLoop),
            }
        });
        if is_unfinished || slice.is_over() {
            return ready == 0 && !is_unfinished;
        }
    }
    true
}

fn drop_give_backs(context: Context<'_>) {
    let slice = Slice::begin();
    STATE.with(context, |state| {
        while state.calls.ready_len() > 0 && !slice.is_over() {
            if let Some(LockId { database, key }) = state.calls.take_ready() {
                state.calls.take_give_backs(database, &key);
            }
        }
    });
}

/// Ends all waits on a replica. Returns false if some are left.
///
/// Most servers unblock the clients themselves. But where Valkey from 9.0 on redirects blocked clients to the new
/// primary, it skips those that a module has blocked.
fn end_all_waits(context: Context<'_>) -> bool {
    const UNBLOCKED: &CStr = c"UNBLOCKED this server has become a replica";
    let nodes = NodesCache::default();
    let slice = Slice::begin();
    while let Some(lock_id) = STATE.with(context, |state| state.calls.next_turn()) {
        if slice.is_over() {
            return false;
        }
        with_name(context, &lock_id, |name| {
            let redirection = check_served(context, name, &nodes);
            refuse_all(context, name, |client| {
                let error = redirection.as_ref().map(|to| to.error(context, client));
                Answer::error(error.unwrap_or_else(|| UNBLOCKED.to_owned()))
            });
        });
    }
    true
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
    while let Some(recipient) = STATE.with(context, |state| {
        let (end, id) = state.calls.next_wait_end()?;
        if end <= now {
            state.end_wait(context, now, id, WaitEnd::TimeOut)
        } else {
            None
        }
    }) {
        recipient.answer(context, Answer::TimedOut);
        if slice.is_over() {
            return;
        }
    }
}

fn next_delay(context: Context<'_>) -> Option<Duration> {
    let (idle, has_rest, wait_ends, lease_ends) = STATE.with(context, |state| {
        (
            state.calls.is_idle(),
            state.presence_changes.are_under_way() || !state.ended_sessions.is_empty(),
            state.calls.next_wait_end().map(|(end, _)| end),
            state.calls.next_lease_end(),
        )
    });
    if idle {
        events::unfollow_iterations(context);
        return None;
    }
    if has_rest {
        return Some(Duration::ZERO);
    }
    let until_wait = wait_ends.map(|end| end.since(monotonic()));
    let until_lease = lease_ends.map(|end| timer::until_end(context, end));
    let next = until_wait
        .into_iter()
        .chain(until_lease)
        .fold(MAX_PAUSE, Duration::min);
    Some(next)
}
