//! Handing a lock to whoever is next.

use redis_lock_core::{
    self as core, Acquire, Acquired, Change, Deadline, GiveBack, Grant, Handed, Monotonic, Owner,
    OwnerBuf, Place, Token, Waiter, WaiterId,
};

use super::alarm;
use super::answer::{Answer, Wait};
use super::leaving::{View, redirection};
use super::sockets::peer_is_gone;
use super::state::{STATE, State, place_of};
use crate::locks::{
    Event, Fault, LockKey, check_write, given_back, monotonic, now, rules, with_token_clock,
};
use crate::server::{Blocked, Context, OwnedText, Text, WriteCheck};
use crate::statistics::{self, Counter, WaitEnd};

/// From where a lock is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Inside a command on that key, which the server has let through.
    Command,
    /// From the event loop.
    Loop,
}

/// The call that a lock is handed to.
struct Next {
    id: WaiterId,
    waiter: Waiter,
    /// When it was chosen.
    now: Monotonic,
}

enum Step {
    /// Something was granted or refused: look again.
    Again,
    /// Nobody is next.
    Done,
    /// Nothing may be granted now.
    Later,
}

/// Grants the lock to those whose turn it is, for as long as it is somebody's turn.
pub(crate) fn serve(context: Context<'_>, name: Text<'_>, caller: Caller) {
    let place = place_of(context.database(), name.bytes());
    loop {
        match step(context, name, &place, caller) {
            Step::Again => {}
            Step::Done => return,
            Step::Later => {
                STATE.with(context, |state| state.marked.insert(place));
                alarm::later(context);
                return;
            }
        }
    }
}

fn step(context: Context<'_>, name: Text<'_>, place: &Place, caller: Caller) -> Step {
    let key = LockKey::open(context, name);
    let Ok(held) = key.held() else {
        drop(key);
        refuse_all(context, place, |_| Answer::Fault(Fault::WrongType));
        return Step::Done;
    };
    let next = next_in_line(context, |state| {
        let (database, key) = (place.database, &place.key);
        // This is the look that it was marked for, by the opening of the key perhaps.
        state.marked.remove(place);
        match &held {
            Some(held) => {
                if state.queues.waiting(database, key) > 0 {
                    state.watch.see(place, held.deadline);
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
    if held.is_none() && (caller == Caller::Loop || context.flags().cluster()) {
        match check_write(context, name) {
            WriteCheck::Allowed => {}
            WriteCheck::NotNow => return Step::Later,
            elsewhere => {
                drop(key);
                let farewell = redirection(context, name, elsewhere, &View::default());
                refuse_all(context, place, |client| {
                    Answer::error(farewell.error(context, client))
                });
                return Step::Done;
            }
        }
    }
    if !may_have(context, name, next.id) {
        drop(key);
        refuse(context, next.id, Fault::NoPermission);
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
            let blocked = depart(context, place, &next, grant, deadline, before);
            key.change(owner, change, Event::Acquire);
            count_grant(held_before.is_none());
            tell(blocked, &next, grant);
            Step::Again
        }
        Ok(Acquired::Busy) => Step::Done,
        Err(refusal) => {
            drop(key);
            let fault = Fault::Refused(refusal);
            fault.count_refusal();
            refuse(context, next.id, fault);
            Step::Again
        }
    }
}

/// The call whose turn it is, as `first` tells. Those that may not be granted any more are taken out:
/// their time is up, or their client is gone and the server has not noticed.
fn next_in_line(
    context: Context<'_>,
    first: impl Fn(&mut State) -> Option<WaiterId>,
) -> Option<Next> {
    loop {
        let (next, held_up) = STATE.if_busy(context, |state| {
            let id = first(state)?;
            let now = monotonic();
            let next = Next {
                id,
                waiter: state.queues.get(id)?.clone(),
                now,
            };
            Some((next, STATE.turns.held_up(now)))
        })?;
        let end = if next.waiter.until.is_some_and(|until| until <= next.now) {
            WaitEnd::TimeOut
        } else if held_up && peer_is_gone(context, next.id, next.waiter.client_id) {
            WaitEnd::GivenUp
        } else {
            return Some(next);
        };
        let ended = STATE.with(context, |state| {
            state.leave_at(context, next.now, next.id, end)
        });
        if let Some(blocked) = ended {
            blocked.answer(Answer::Nothing);
        }
    }
}

/// The last hold was given back: frees the lock, or puts the next grant in its place.
pub(crate) fn hand_over(context: Context<'_>, key: LockKey<'_>, owner: Owner<'_>, token: Token) {
    let name = key.name();
    let next = next_in_line(context, |state| {
        state.queues.first(context.database(), name.bytes())
    });
    statistics::count(Counter::Releases);
    given_back(context, token);
    let Some(next) = next else {
        key.change(owner, Change::Free, Event::Release);
        return;
    };
    let place = place_of(context.database(), name.bytes());
    // A node of a cluster asks first whether it still serves the key once it is free.
    let direct =
        !context.flags().cluster() && !context.writes_paused() && may_have(context, name, next.id);
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
            let blocked = depart(context, &place, &next, grant, deadline, None);
            key.hand_over(owner, grant, deadline);
            count_grant(true);
            tell(blocked, &next, grant);
            // The key is as it was just written, or whoever changed it since has looked for the next one:
            // what is left to find is other calls of its owner.
            let more = STATE.with(context, |state| {
                if state.queues.waiting(place.database, &place.key) > 0 {
                    state.watch.see(&place, deadline);
                }
                let (database, key) = (place.database, &place.key);
                state
                    .queues
                    .first_of(database, key, owner.bytes())
                    .is_some()
            });
            if !more {
                return;
            }
        }
        None => key.change(owner, Change::Free, Event::Release),
    }
    serve(context, name, Caller::Command);
}

/// Does what callers of this lock that are gone have left to do, before the next command on it.
pub(crate) fn settle(context: Context<'_>, name: Text<'_>) {
    let owed = STATE.if_busy(context, |state| {
        if state.give_backs.is_empty() {
            return Vec::new();
        }
        let place = place_of(context.database(), name.bytes());
        state.give_backs.take(&place)
    });
    if !owed.is_empty() {
        give(context, name, owed);
        serve(context, name, Caller::Command);
    }
}

/// Gives back what callers of this lock that are gone took of it, from the event loop.
pub(super) fn give_back(context: Context<'_>, name: Text<'_>, place: &Place) {
    give(
        context,
        name,
        STATE.with(context, |state| state.give_backs.take(place)),
    );
    serve(context, name, Caller::Loop);
}

fn give(context: Context<'_>, name: Text<'_>, owed: Vec<GiveBack>) {
    for give_back in owed {
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
            given_back(context, token);
        }
        key.change(owner.as_owner(), change, Event::Release);
    }
}

/// Counts what a waiting call was granted.
fn count_grant(begins: bool) {
    if begins {
        statistics::count(Counter::Grants);
        statistics::count(Counter::HandOffs);
    } else {
        statistics::count(Counter::Reentries);
    }
}

/// Takes the call out of its queue, for a grant that is on its way to it from now on. It is told once
/// the grant is written. Others hear of that first, and may do anything: kill the client, who is found to
/// owe the grant then, or free the lock, which goes to the next one.
fn depart(
    context: Context<'_>,
    place: &Place,
    next: &Next,
    grant: Grant,
    deadline: Deadline,
    before: Option<Grant>,
) -> Option<Blocked<Wait>> {
    let id = next.id;
    let handed = Handed {
        place: place.clone(),
        client_id: next.waiter.client_id,
        token: grant.token,
        took_hold: before.is_none_or(|before| grant.holds > before.holds),
        holds: grant.holds,
        deadline,
    };
    STATE.with(context, |state| {
        let blocked = state.leave_at(context, next.now, id, WaitEnd::Granted)?;
        state.flights.depart(id, handed, before.is_none());
        Some(blocked)
    })
}

/// Tells the call that it has the lock.
fn tell(blocked: Option<Blocked<Wait>>, next: &Next, grant: Grant) {
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

/// Whether the user of a waiting call may still acquire the lock, where the server's own blocked
/// commands are checked again too.
fn may_have(context: Context<'_>, name: Text<'_>, id: WaiterId) -> bool {
    let Some(user) = STATE.with(context, |state| state.users.get(&id).cloned()) else {
        return true;
    };
    let (command, owner) = (OwnedText::new(b"LOCK.ACQUIRE"), OwnedText::new(b"*"));
    user.may_run(context, &[command.text(), name, owner.text()])
}

fn refuse(context: Context<'_>, id: WaiterId, fault: Fault) {
    if let Some(blocked) = STATE.with(context, |state| state.leave(context, id, WaitEnd::Refused)) {
        blocked.answer(Answer::Fault(fault));
    }
}

/// Ends all waits for the lock with the answer for each client.
pub(super) fn refuse_all(context: Context<'_>, place: &Place, answer: impl Fn(u64) -> Answer) {
    let next = || -> Option<(u64, Blocked<_>)> {
        STATE.with(context, |state| {
            let id = state.queues.first(place.database, &place.key)?;
            let client = state.queues.get(id)?.client_id;
            Some((client, state.leave(context, id, WaitEnd::Refused)?))
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
