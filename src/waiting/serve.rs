//! Handing a lock to whoever is next.

use super::alarm;
use super::answer::Answer;
use super::leaving::{View, redirection};
use super::state::{STATE, place_of};
use crate::core::{
    self, Acquire, Acquired, Change, GiveBack, Grant, Handed, Owner, Place, Token, Waiter, WaiterId,
};
use crate::locks::{Event, Fault, LockKey, given_back, now, rules, with_token_clock};
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
        refuse_all(context, place, || Answer::Fault(Fault::WrongType));
        return Step::Done;
    };
    let next = STATE.with(context, |state| {
        let (database, key) = (place.database, &place.key);
        // This is the look that it was marked for, by the opening of the key perhaps.
        state.marked.remove(place);
        let id = match &held {
            Some(held) => {
                if state.queues.waiting(database, key) > 0 {
                    state.watch.see(place, held.deadline);
                }
                state.queues.first_of(database, key, held.owner.bytes())
            }
            None => state.queues.first(database, key),
        }?;
        Some((id, state.queues.get(id)?.clone()))
    });
    let Some((id, waiter)) = next else {
        return Step::Done;
    };
    if context.writes_paused() || context.flags().loading() || context.flags().replica() {
        return Step::Later;
    }
    if held.is_none() && (caller == Caller::Loop || context.flags().cluster()) {
        match context.check_write(name) {
            WriteCheck::Allowed => {}
            WriteCheck::NotNow => return Step::Later,
            elsewhere => {
                drop(key);
                let error = redirection(context, name, elsewhere, &View::default());
                refuse_all(context, place, || Answer::error(error.clone()));
                return Step::Done;
            }
        }
    }
    if !may_have(context, name, id) {
        drop(key);
        refuse(context, id, Fault::NoPermission);
        return Step::Again;
    }
    let Some(owner) = Owner::new(&waiter.owner) else {
        return Step::Done;
    };
    let request = request(owner, &waiter);
    let acquired = with_token_clock(|clock| {
        core::acquire(held.as_ref(), &request, &rules(), now(context), clock)
    });
    let held_before = held.map(|held| held.grant);
    match acquired {
        Ok(Acquired::New(grant, change) | Acquired::Again(grant, change)) => {
            key.change(owner, change, Event::Acquire);
            count_grant(held_before.is_none());
            grant_to(context, place, id, &waiter, grant, held_before);
            Step::Again
        }
        Ok(Acquired::Busy) => Step::Done,
        Err(refusal) => {
            drop(key);
            let fault = Fault::Refused(refusal);
            fault.count_refusal();
            refuse(context, id, fault);
            Step::Again
        }
    }
}

/// The last hold was given back: frees the lock, or puts the next grant in its place.
pub(crate) fn hand_over(context: Context<'_>, key: LockKey<'_>, owner: Owner<'_>, token: Token) {
    let name = key.name();
    let next = STATE.if_busy(context, |state| {
        let id = state.queues.first(context.database(), name.bytes())?;
        Some((id, state.queues.get(id)?.clone()))
    });
    statistics::count(Counter::Releases);
    given_back(context, token);
    let Some((id, waiter)) = next else {
        key.change(owner, Change::Free, Event::Release);
        return;
    };
    let place = place_of(context.database(), name.bytes());
    // A node of a cluster asks first whether it still serves the key once it is free.
    let direct =
        !context.flags().cluster() && !context.writes_paused() && may_have(context, name, id);
    let granted = Owner::new(&waiter.owner)
        .filter(|_| direct)
        .and_then(|next| {
            let request = request(next, &waiter);
            let acquired = with_token_clock(|clock| {
                core::acquire(None, &request, &rules(), now(context), clock)
            });
            match acquired {
                Ok(Acquired::New(grant, Change::Hold(_, deadline))) => {
                    Some((next, grant, deadline))
                }
                _ => None,
            }
        });
    match granted {
        Some((next, grant, deadline)) => {
            key.hand_over(next, grant, deadline);
            count_grant(true);
            grant_to(context, &place, id, &waiter, grant, None);
            // The key is as it was just written: what is left to find is other calls of its owner.
            let more = STATE.with(context, |state| {
                if state.queues.waiting(place.database, &place.key) > 0 {
                    state.watch.see(&place, deadline);
                }
                let (database, key) = (place.database, &place.key);
                state.queues.first_of(database, key, next.bytes()).is_some()
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
        let mut owed = state.give_backs.iter().map(GiveBack::place);
        owed.any(|place| place.is(context.database(), name.bytes()))
    });
    if owed {
        give_back(context, name, Caller::Command);
    }
}

/// Gives back what callers of this lock that are gone took of it.
pub(super) fn give_back(context: Context<'_>, name: Text<'_>, caller: Caller) {
    let database = context.database();
    let owed: Vec<_> = STATE.with(context, |state| {
        state
            .give_backs
            .extract_if(.., |owed| owed.place().is(database, name.bytes()))
            .collect()
    });
    for give_back in owed {
        let key = LockKey::open(context, name);
        let Ok(held) = key.held() else { break };
        let change = give_back.change(held.as_ref(), now(context));
        let before = held.map(|held| (held.owner.bytes().to_vec(), held.grant.token));
        let Some((owner, token)) = before else {
            continue;
        };
        if change != Change::Keep {
            statistics::count(Counter::Releases);
        }
        if change == Change::Free {
            given_back(context, token);
        }
        if let Some(owner) = Owner::new(&owner) {
            key.change(owner, change, Event::Release);
        }
    }
    serve(context, name, caller);
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

fn grant_to(
    context: Context<'_>,
    place: &Place,
    id: WaiterId,
    waiter: &Waiter,
    grant: Grant,
    before: Option<Grant>,
) {
    let handed = Handed {
        place: place.clone(),
        token: grant.token,
        took_hold: before.is_none_or(|before| grant.holds > before.holds),
    };
    let blocked = STATE.with(context, |state| {
        let blocked = state.leave(context, id, WaitEnd::Granted)?;
        state.handles.insert(blocked.handle(), id);
        state.flights.depart(id, handed, before.is_none());
        Some(blocked)
    });
    if let Some(blocked) = blocked {
        let handle = blocked.handle();
        blocked.answer(Answer::Granted {
            id,
            handle,
            owner: waiter.owner.clone(),
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
    user.may_run(&[command.text(), name, owner.text()])
}

fn refuse(context: Context<'_>, id: WaiterId, fault: Fault) {
    if let Some(blocked) = STATE.with(context, |state| state.leave(context, id, WaitEnd::Refused)) {
        blocked.answer(Answer::Fault(fault));
    }
}

/// Ends all waits for the lock with this answer.
pub(super) fn refuse_all(context: Context<'_>, place: &Place, answer: impl Fn() -> Answer) {
    let next = || -> Option<Blocked<_>> {
        STATE.with(context, |state| {
            let id = state.queues.first(place.database, &place.key)?;
            state.leave(context, id, WaitEnd::Refused)
        })
    };
    while let Some(blocked) = next() {
        blocked.answer(answer());
    }
}

fn request<'a>(owner: Owner<'a>, waiter: &Waiter) -> Acquire<'a> {
    Acquire {
        owner,
        lease: waiter.lease,
        holds: waiter.holds,
        token: None,
    }
}
