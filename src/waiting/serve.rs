//! Granting a lock to the waiting calls that are next.

use redis_lock_core::{
    self as core, Acquire, Acquired, Change, Deadline, GiveBack, Grant, LockId, Monotonic,
    OwnerBuf, PendingGrant, Token, Waiter, WaiterId,
};

use super::answer::{Answer, Wait};
use super::peer::peer_has_closed;
use super::redirection::{NodesCache, redirection};
use super::state::{STATE, State};
use super::timer;
use crate::locks::{
    CommandError, KeyspaceEvent, LockKey, check_write, monotonic, now, released, rules,
    with_token_clock,
};
use crate::server::{Blocked, Context, OwnedText, Text, WriteCheck};
use crate::statistics::{self, Counter, WaitEnd};

/// Where [`serve`] is called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A command on that key, which the server allowed.
    Command,
    /// The event loop.
    EventLoop,
}

/// The call that a lock is granted to next.
struct Next {
    id: WaiterId,
    waiter: Waiter,
    /// The time when it was chosen.
    now: Monotonic,
}

enum Step {
    /// A call was granted or refused; there may be a next one.
    Again,
    /// No call is next.
    Done,
    /// Nothing can be granted now.
    Later,
}

/// Grants the lock to the calls that are next: the first in the queue, then all of the same owner.
pub(super) fn serve(context: Context<'_>, name: Text<'_>, caller: Caller) {
    let lock_id = LockId::new(context.database(), name.bytes());
    loop {
        match step(context, name, &lock_id, caller) {
            Step::Again => {}
            Step::Done => return,
            Step::Later => {
                STATE.with(context, |state| state.maybe_free.insert(lock_id));
                timer::later(context);
                return;
            }
        }
    }
}

fn step(context: Context<'_>, name: Text<'_>, lock_id: &LockId, caller: Caller) -> Step {
    let key = LockKey::open(context, name);
    let Ok(held) = key.held() else {
        drop(key);
        refuse_all(context, lock_id, |_| Answer::Error(CommandError::WrongType));
        return Step::Done;
    };
    let next = next_call(context, |state| {
        let (database, key) = (lock_id.database, &lock_id.key);
        // After the key was opened: opening an expired key notes it again.
        state.maybe_free.remove(lock_id);
        match &held {
            Some(held) => {
                if state.queues.waiting(database, key) > 0 {
                    state.lease_watch.watch(lock_id, held.deadline);
                }
                state.queues.first_of(database, key, held.owner.bytes())
            }
            None => state.queues.first(database, key),
        }
    });
    let Some(next) = next else {
        return Step::Done;
    };
    if context.writes_paused() || context.flags().loading() || context.flags().replica() {
        return Step::Later;
    }
    if held.is_none() && (caller == Caller::EventLoop || context.flags().cluster()) {
        match check_write(context, name) {
            WriteCheck::Allowed => {}
            WriteCheck::NotNow => return Step::Later,
            not_here => {
                drop(key);
                let redirection = redirection(context, name, not_here, &NodesCache::default());
                refuse_all(context, lock_id, |client| {
                    Answer::error(redirection.error(context, client))
                });
                return Step::Done;
            }
        }
    }
    if !may_acquire(context, name, next.id) {
        drop(key);
        refuse(context, next.id, CommandError::NoPermission);
        return Step::Again;
    }
    let owner = next.waiter.owner.as_owner();
    let request = request(&next.waiter);
    let acquired = with_token_clock(|clock| {
        core::acquire(held.as_ref(), &request, &rules(), now(context), clock)
    });
    let held_before = held.map(|held| (held.grant, held.deadline));
    match acquired {
        Ok(Acquired::New(grant, change) | Acquired::Again(grant, change)) => {
            let deadline = match (change, held_before) {
                (Change::Hold(_, deadline), _) | (_, Some((_, deadline))) => deadline,
                _ => Deadline::Never,
            };
            let before = held_before.map(|(before, _)| before);
            let blocked = make_pending(context, lock_id, &next, grant, deadline, before);
            key.change(owner, change, KeyspaceEvent::Acquire);
            count_grant(held_before.is_none());
            send_grant(blocked, &next, grant);
            Step::Again
        }
        Ok(Acquired::Busy) => Step::Done,
        Err(refusal) => {
            drop(key);
            let error = CommandError::Refused(refusal);
            error.count_refusal();
            refuse(context, next.id, error);
            Step::Again
        }
    }
}

/// The call that `first` finds. Ends the waits of calls that may not be granted any more: their time is
/// up, or their client has disconnected and the server has not noticed.
fn next_call(context: Context<'_>, first: impl Fn(&mut State) -> Option<WaiterId>) -> Option<Next> {
    loop {
        let (next, stalled) = STATE.if_busy(context, |state| {
            let id = first(state)?;
            let now = monotonic();
            let next = Next {
                id,
                waiter: state.queues.get(id)?.clone(),
                now,
            };
            Some((next, STATE.stalls.is_stalled(now)))
        })?;
        let end = if next.waiter.until.is_some_and(|until| until <= next.now) {
            WaitEnd::TimeOut
        } else if stalled && peer_has_closed(context, next.id, next.waiter.client_id) {
            WaitEnd::GivenUp
        } else {
            return Some(next);
        };
        let ended = STATE.with(context, |state| {
            state.end_wait_at(context, next.now, next.id, end)
        });
        if let Some(blocked) = ended {
            blocked.answer(Answer::Nothing);
        }
    }
}

/// The last hold was released by the running command: frees the lock, or puts the next grant in its
/// place.
pub(super) fn hand_over(context: Context<'_>, key: LockKey<'_>, token: Token) {
    let name = key.name();
    let next = next_call(context, |state| {
        state.queues.first(context.database(), name.bytes())
    });
    released(context, token);
    let Some(next) = next else {
        key.release();
        return;
    };
    let lock_id = LockId::new(context.database(), name.bytes());
    // A node of a cluster may no longer serve a free key: `serve` checks that.
    let direct = !context.flags().cluster()
        && !context.writes_paused()
        && may_acquire(context, name, next.id);
    let granted = direct
        .then(|| {
            let request = request(&next.waiter);
            let acquired = with_token_clock(|clock| {
                core::acquire(None, &request, &rules(), now(context), clock)
            });
            match acquired {
                Ok(Acquired::New(grant, Change::Hold(_, deadline))) => Some((grant, deadline)),
                _ => None,
            }
        })
        .flatten();
    match granted {
        Some((grant, deadline)) => {
            let owner = next.waiter.owner.as_owner();
            let blocked = make_pending(context, &lock_id, &next, grant, deadline, None);
            key.hand_over(owner, grant, deadline);
            count_grant(true);
            send_grant(blocked, &next, grant);
            // The key is as just written, or a listener has changed it and has served the queue. So only
            // further calls of the new owner can be next.
            let more = STATE.with(context, |state| {
                if state.queues.waiting(lock_id.database, &lock_id.key) > 0 {
                    state.lease_watch.watch(&lock_id, deadline);
                }
                let (database, key) = (lock_id.database, &lock_id.key);
                state
                    .queues
                    .first_of(database, key, owner.bytes())
                    .is_some()
            });
            if !more {
                return;
            }
        }
        None => key.release(),
    }
    serve(context, name, Caller::Command);
}

/// Does the give-backs of this lock, before a command on it.
pub(super) fn settle(context: Context<'_>, name: Text<'_>) {
    let give_backs = STATE.if_busy(context, |state| {
        if state.give_backs.is_empty() {
            return Vec::new();
        }
        let lock_id = LockId::new(context.database(), name.bytes());
        state.give_backs.take(&lock_id)
    });
    if !give_backs.is_empty() {
        apply_give_backs(context, name, give_backs);
        serve(context, name, Caller::Command);
    }
}

/// Does the give-backs of this lock, from the event loop.
pub(super) fn give_back(context: Context<'_>, name: Text<'_>, lock_id: &LockId) {
    apply_give_backs(
        context,
        name,
        STATE.with(context, |state| state.give_backs.take(lock_id)),
    );
    serve(context, name, Caller::EventLoop);
}

fn apply_give_backs(context: Context<'_>, name: Text<'_>, give_backs: Vec<GiveBack>) {
    for give_back in give_backs {
        let key = LockKey::open(context, name);
        let Ok(held) = key.held() else { break };
        let change = give_back.change(held.as_ref(), now(context));
        let before = held.map(|held| (OwnerBuf::from(held.owner), held.grant.token));
        let Some((owner, token)) = before else {
            continue;
        };
        if change != Change::Keep {
            statistics::count(Counter::Releases);
        }
        if change == Change::Free {
            released(context, token);
        }
        key.change(owner.as_owner(), change, KeyspaceEvent::Release);
    }
}

/// Counts the grant to a waiting call.
fn count_grant(is_new: bool) {
    if is_new {
        statistics::count(Counter::Grants);
        statistics::count(Counter::HandOffs);
    } else {
        statistics::count(Counter::Reentries);
    }
}

/// Moves the call from its queue to the pending grants. Called before the key is written and the change
/// announced: a listener may then kill the client, whose grant is given back, or free the lock, which goes
/// to the next call.
fn make_pending(
    context: Context<'_>,
    lock_id: &LockId,
    next: &Next,
    grant: Grant,
    deadline: Deadline,
    before: Option<Grant>,
) -> Option<Blocked<Wait>> {
    let id = next.id;
    let pending = PendingGrant {
        lock_id: lock_id.clone(),
        client_id: next.waiter.client_id,
        token: grant.token,
        took_hold: before.is_none_or(|before| grant.holds > before.holds),
        holds: grant.holds,
        deadline,
    };
    STATE.with(context, |state| {
        let blocked = state.end_wait_at(context, next.now, id, WaitEnd::Granted)?;
        state.pending_grants.add(id, pending, before.is_none());
        Some(blocked)
    })
}

/// Replies the grant to the call.
fn send_grant(blocked: Option<Blocked<Wait>>, next: &Next, grant: Grant) {
    if let Some(blocked) = blocked {
        let handle = blocked.handle();
        blocked.answer(Answer::Granted {
            id: next.id,
            handle,
            owner: next.waiter.owner.clone(),
            grant,
        });
    }
}

/// True when the user of a waiting call may still acquire the lock. Checked only on servers that check
/// their own blocked commands again.
fn may_acquire(context: Context<'_>, name: Text<'_>, id: WaiterId) -> bool {
    let Some(user) = STATE.with(context, |state| state.users.get(&id).cloned()) else {
        return true;
    };
    let (command, owner) = (OwnedText::new(b"LOCK.ACQUIRE"), OwnedText::new(b"*"));
    user.may_run(context, &[command.text(), name, owner.text()])
}

fn refuse(context: Context<'_>, id: WaiterId, error: CommandError) {
    if let Some(blocked) = STATE.with(context, |state| {
        state.end_wait(context, id, WaitEnd::Refused)
    }) {
        blocked.answer(Answer::Error(error));
    }
}

/// Ends all waits for the lock with these answers.
pub(super) fn refuse_all(context: Context<'_>, lock_id: &LockId, answer: impl Fn(u64) -> Answer) {
    let next = || -> Option<(u64, Blocked<_>)> {
        STATE.with(context, |state| {
            let id = state.queues.first(lock_id.database, &lock_id.key)?;
            let client = state.queues.get(id)?.client_id;
            Some((client, state.end_wait(context, id, WaitEnd::Refused)?))
        })
    };
    while let Some((client, blocked)) = next() {
        blocked.answer(answer(client));
    }
}

fn request(waiter: &Waiter) -> Acquire<'_> {
    Acquire {
        owner: waiter.owner.as_owner(),
        lease: waiter.lease,
        holds: waiter.holds,
        token: None,
    }
}
