//! Granting a lock to the waiting calls that are next.

use redis_lock_core::keeping::{Asked, Keep, check_lease};
use redis_lock_core::sharing::{self, Admitted, Granted, Holders, Room, Transition, next_in_line};
use redis_lock_core::{
    Acquire, Deadline, GiveBack, Grant, LockId, Monotonic, OwnerBuf, PendingGrant, Refusal,
    Release, Token, Waiter, WaiterId,
};

use super::answer::{Answer, Wait};
use super::ended::end_leases;
use super::peer::peer_has_closed;
use super::redirection::{NodesCache, redirection};
use super::slice::{MAX_GRANTS, SLICE};
use super::state::{STATE, State};
use super::timer;
use crate::keeping::{self, ToKeep};
use crate::locks::{
    CommandError, KeyspaceEvent, LockKey, check_write, max_holders, monotonic, now, released,
    rules, with_token_clock,
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
    /// A call was granted or refused, or leases were taken out; there may be a next call.
    Again,
    /// No call is next.
    Done,
    /// Nothing can be granted now.
    Later,
    /// The time is over; the next tick goes on.
    Continue,
}

/// The service of one lock.
struct Serving<'call> {
    context: Context<'call>,
    name: Text<'call>,
    lock_id: LockId,
    caller: Caller,
    /// The owner granted last, whose other calls come before the next in line.
    just_granted: Option<OwnerBuf>,
    /// When the first call was granted.
    began: Option<Monotonic>,
    /// How many calls were granted.
    grants: usize,
    /// The server allows grants of this lock: it was asked.
    allowed: bool,
}

/// Grants the lock to the calls that are next: to the first in the queue who has room, to all of the same
/// owner, and on while there is room. The first is granted now; many take several ticks. True when the next
/// tick has to go on with this lock.
pub(super) fn serve(context: Context<'_>, name: Text<'_>, caller: Caller) -> bool {
    serve_after(context, name, caller, None)
}

/// As [`serve`], where this owner was just granted the lock: its other calls come first.
fn serve_after(
    context: Context<'_>,
    name: Text<'_>,
    caller: Caller,
    just_granted: Option<OwnerBuf>,
) -> bool {
    let mut serving = Serving {
        context,
        name,
        lock_id: LockId::new(context.database(), name.bytes()),
        caller,
        just_granted,
        began: None,
        grants: 0,
        allowed: false,
    };
    loop {
        match serving.step() {
            Step::Again => {}
            Step::Done => return false,
            Step::Later => {
                let lock_id = serving.lock_id;
                STATE.with(context, |state| state.maybe_free.insert(lock_id));
                timer::later(context);
                return false;
            }
            Step::Continue => {
                let lock_id = serving.lock_id;
                STATE.with(context, |state| state.to_serve.push_back(lock_id));
                timer::soon(context);
                return true;
            }
        }
    }
}

impl Serving<'_> {
    fn step(&mut self) -> Step {
        let (context, name) = (self.context, self.name);
        let mut key = LockKey::open(context, name);
        if key.is_shared() && self.may_write_now() && self.anybody_waits() {
            key = match end_leases(key) {
                Ok(key) => key,
                Err(_ended) => return Step::Again,
            };
        }
        let Ok(holders) = key.holders() else {
            drop(key);
            refuse_all(context, &self.lock_id, |_| {
                Answer::Error(CommandError::WrongType)
            });
            return Step::Done;
        };
        let Some(next) = self.next(holders.as_ref()) else {
            return Step::Done;
        };
        if !self.may_write_now() {
            return Step::Later;
        }
        let owner = next.waiter.owner.as_owner();
        let before = holders.as_ref().and_then(|holders| holders.grant_of(owner));
        if self.is_slice_over(&next) {
            return Step::Continue;
        }
        if before.is_none() && !self.allowed {
            match self.check_server() {
                WriteCheck::Allowed => self.allowed = true,
                WriteCheck::NotNow => return Step::Later,
                not_here => {
                    drop(key);
                    self.redirect(not_here);
                    return Step::Done;
                }
            }
        }
        if !may_acquire(context, name, next.id) {
            drop(key);
            refuse(context, next.id, CommandError::NoPermission);
            return Step::Again;
        }
        let admitted = admit(context, holders.as_ref(), &next.waiter)
            .and_then(|admitted| check_kept(context, name, admitted, &next.waiter));
        match admitted {
            Ok(Admitted::New(granted, transition) | Admitted::Again(granted, transition)) => {
                let deadline = transition
                    .deadline()
                    .or(before.map(|(_, deadline)| deadline));
                let grant = granted.grant;
                let deadline = deadline.unwrap_or(Deadline::Never);
                let before = before.map(|(grant, _)| grant);
                let token = before.map(|grant| grant.token);
                keeping::note_change(&key, token, &transition, to_keep(&next.waiter));
                let blocked = make_pending(context, &self.lock_id, &next, grant, deadline, before);
                key.change(&transition, KeyspaceEvent::Acquire);
                count_grant(before.is_none());
                send_grant(blocked, &next, granted);
                self.just_granted = Some(next.waiter.owner.clone());
                self.grants += 1;
                Step::Again
            }
            Ok(Admitted::Busy) => Step::Done,
            Err(refusal) => {
                drop(key);
                let error = CommandError::Refused(refusal);
                error.count_refusal();
                refuse(context, next.id, error);
                Step::Again
            }
        }
    }

    fn may_write_now(&self) -> bool {
        let context = self.context;
        !context.writes_paused() && !context.flags().loading() && !context.flags().replica()
    }

    fn anybody_waits(&self) -> bool {
        let LockId { database, key } = &self.lock_id;
        STATE.with(self.context, |state| {
            state.queues.waiting(*database, key) > 0
        })
    }

    /// The call to judge next.
    fn next(&self, holders: Option<&Holders<'_>>) -> Option<Next> {
        let just_granted = self.just_granted.as_ref().map(OwnerBuf::as_owner);
        let (lock_id, max_holders) = (&self.lock_id, max_holders());
        next_call(self.context, |state| {
            let (database, key) = (lock_id.database, &*lock_id.key);
            // After the key was opened: opening an expired key notes it again.
            state.maybe_free.remove(lock_id);
            if let Some(holders) = holders
                && state.queues.waiting(database, key) > 0
            {
                state.lease_watch.watch(lock_id, holders.next_end());
            }
            let lock = (database, key);
            next_in_line(&state.queues, lock, holders, just_granted, max_holders)
        })
    }

    /// True when the next call is to wait for another tick. An owner's calls are granted together.
    fn is_slice_over(&mut self, next: &Next) -> bool {
        let began = *self.began.get_or_insert(next.now);
        (self.grants >= MAX_GRANTS || next.now.since(began) >= SLICE)
            && self.just_granted.as_ref() != Some(&next.waiter.owner)
    }

    /// Asks the server whether it allows a new grant. In a command it has allowed it, except on a node of a
    /// cluster, which may no longer serve a free key.
    fn check_server(&self) -> WriteCheck {
        if self.caller == Caller::EventLoop || self.context.flags().cluster() {
            check_write(self.context, self.name)
        } else {
            WriteCheck::Allowed
        }
    }

    /// Another node serves this lock.
    fn redirect(&self, check: WriteCheck) {
        let context = self.context;
        let redirection = redirection(context, self.name, check, &NodesCache::default());
        refuse_all(context, &self.lock_id, |client| {
            Answer::error(redirection.error(context, client))
        });
    }
}

/// Judges a waiting call whose turn it is.
fn admit<'a>(
    context: Context<'_>,
    holders: Option<&Holders<'_>>,
    waiter: &'a Waiter,
) -> Result<Admitted<'a>, Refusal> {
    let request = request(waiter);
    let room = Room {
        max_holders: max_holders(),
        in_line: false,
    };
    with_token_clock(|clock| {
        let (rules, now) = (rules(), now(context));
        sharing::acquire(holders, &request, waiter.limit, room, &rules, now, clock)
    })
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

/// Checks that the lease of a grant that is to be kept, or is kept, is long enough.
fn check_kept<'a>(
    context: Context<'_>,
    name: Text<'_>,
    admitted: Admitted<'a>,
    waiter: &Waiter,
) -> Result<Admitted<'a>, Refusal> {
    if let Admitted::New(granted, _) | Admitted::Again(granted, _) = &admitted {
        let is_kept = keeping::is_kept(context, name, granted.grant.token);
        check_lease(waiter.keep.map(Keep::For), is_kept, granted.grant.lease)?;
    }
    Ok(admitted)
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
    let admitted = direct.then(|| {
        admit(context, None, &next.waiter)
            .and_then(|admitted| check_kept(context, name, admitted, &next.waiter))
    });
    let mut just_granted = None;
    if let Some(Ok(Admitted::New(granted, transition))) = admitted
        && let Some(deadline) = transition.deadline()
    {
        keeping::note_change(&key, None, &transition, to_keep(&next.waiter));
        let blocked = make_pending(context, &lock_id, &next, granted.grant, deadline, None);
        key.hand_over(&transition);
        count_grant(true);
        send_grant(blocked, &next, granted);
        if let Transition::Alone(held) = transition {
            // The key is as just written, or a listener has changed it and has served the queue. So only
            // further calls of the new owner can be next.
            let more = STATE.with(context, |state| {
                let (database, key) = (lock_id.database, &lock_id.key);
                if state.queues.waiting(database, key) > 0 {
                    state.lease_watch.watch(&lock_id, deadline);
                }
                let of_owner = state.queues.first_of(database, key, held.owner.bytes());
                of_owner.is_some()
            });
            if !more {
                return;
            }
        }
        just_granted = Some(next.waiter.owner.clone());
    } else {
        key.release();
    }
    serve_after(context, name, Caller::Command, just_granted);
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
        let Ok(holders) = key.holders() else { break };
        let Some((owner, amount)) = give_back.release(holders.as_ref()) else {
            continue;
        };
        let request = Release {
            owner: owner.as_owner(),
            amount,
            token: None,
        };
        let before = holders
            .as_ref()
            .and_then(|holders| holders.grant_of(request.owner));
        let Ok((left, transition)) = sharing::release(holders.as_ref(), &request, now(context))
        else {
            continue;
        };
        if !matches!(transition, Transition::Keep) {
            statistics::count(Counter::Releases);
        }
        if let (0, Some((grant, _))) = (left, before) {
            released(context, grant.token);
        }
        let token = before.map(|(grant, _)| grant.token);
        keeping::note_change(&key, token, &transition, None);
        key.change(&transition, KeyspaceEvent::Release);
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

/// Whether the client of a waiting call keeps the grant.
fn to_keep(waiter: &Waiter) -> ToKeep {
    let silence = waiter.keep?;
    Some((Keep::For(silence), Asked::Acquire, waiter.client_id))
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
fn send_grant(blocked: Option<Blocked<Wait>>, next: &Next, granted: Granted) {
    if let Some(blocked) = blocked {
        let handle = blocked.handle();
        blocked.answer(Answer::Granted {
            id: next.id,
            handle,
            owner: next.waiter.owner.clone(),
            grant: granted.grant,
            limit: next.waiter.names_limit.then_some(granted.limit),
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

/// Ends a wait with an error.
pub(super) fn refuse(context: Context<'_>, id: WaiterId, error: CommandError) {
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
