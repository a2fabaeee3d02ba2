//! Granting a lock to the waiting calls that are next.

use redis_lock_core::{
    Granted, Holders, LockChange, LockId, Monotonic, OwnerBuf, Token, next_in_line,
};

use super::answer::Answer;
use super::ended::end_leases;
use super::of_sessions;
use super::redirection::{NodesCache, redirection};
use super::refuse::{refuse, refuse_all};
use super::slice::{MAX_GRANTS, SLICE};
use super::state::STATE;
use super::timer;
use super::turn::{
    Next, admit_waiter, count_grant, make_pending, may_acquire, next_call, send_grant, to_keep,
};
use crate::keeping;
use crate::locks::{
    Announce, CommandError, KeyspaceEvent, LockKey, check_write, max_holders, released,
};
use crate::server::{Context, Text, WriteCheck};
use crate::sessions;

/// Where [`serve`] is called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A command on that key, which the server allowed.
    Command,
    /// The event loop.
    EventLoop,
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
                // Not in this iteration: it writes the replies of these grants.
                timer::within(context, Some(SLICE));
                return true;
            }
        }
    }
}

/// True on a primary whose writes are not paused.
pub(super) fn may_write_now(context: Context<'_>) -> bool {
    !context.writes_paused() && !context.flags().loading() && !context.flags().replica()
}

impl Serving<'_> {
    fn step(&mut self) -> Step {
        let (context, name) = (self.context, self.name);
        let mut key = LockKey::open(context, name);
        if key.is_shared() && may_write_now(self.context) && self.anybody_waits() {
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
        if !may_write_now(self.context) {
            return Step::Later;
        }
        let owner = next.waiter.owner.as_owner();
        let is_new = holders.is_none_or(|holders| holders.find(owner).is_none());
        if self.is_slice_over(&next) {
            return Step::Continue;
        }
        if is_new && !self.allowed {
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
        match admit_waiter(context, name, holders.as_ref(), &next) {
            Ok(Some(granted)) => {
                grant(
                    context,
                    &self.lock_id,
                    &next,
                    &granted,
                    key,
                    &[KeyspaceEvent::Acquire],
                );
                self.just_granted = Some(next.waiter.owner.clone());
                self.grants += 1;
                Step::Again
            }
            Ok(None) => Step::Done,
            Err(error) => {
                drop(key);
                error.count_refusal();
                refuse(context, next.id, error);
                Step::Again
            }
        }
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

    /// True when the next call is to wait for another tick. An owner's calls are granted together, and one
    /// call is granted however long the refusal of those before it took.
    fn is_slice_over(&mut self, next: &Next) -> bool {
        if self.grants == 0 {
            return false;
        }
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

/// The last hold was released by the running command: frees the lock, or puts the next grant in its
/// place.
pub(super) fn hand_over(context: Context<'_>, key: LockKey<'_>, token: Token) {
    let name = key.name();
    let next = next_call(context, |state| {
        state.queues.first(context.database(), name.bytes())
    });
    released(context, token);
    let Some(next) = next else {
        key.write(&LockChange::Free, Announce::LastRelease);
        return;
    };
    let lock_id = LockId::new(context.database(), name.bytes());
    // A node of a cluster may no longer serve a free key: `serve` checks that.
    let direct = !context.flags().cluster()
        && !context.writes_paused()
        && may_acquire(context, name, next.id);
    let admitted = direct.then(|| admit_waiter(context, name, None, &next));
    let mut just_granted = None;
    if let Some(Ok(Some(granted))) = admitted {
        let events = [KeyspaceEvent::Release, KeyspaceEvent::Acquire];
        grant(context, &lock_id, &next, &granted, key, &events);
        if let LockChange::Exclusive(holder) = granted.change {
            // The key is as just written, or a listener has changed it and has served the queue. So only
            // further calls of the new owner can be next.
            let more = STATE.with(context, |state| {
                let (database, key) = (lock_id.database, &lock_id.key);
                if state.queues.waiting(database, key) > 0 {
                    state.lease_watch.watch(&lock_id, holder.end);
                }
                let of_owner = state.queues.first_of(database, key, holder.owner.bytes());
                of_owner.is_some()
            });
            if !more {
                return;
            }
        }
        just_granted = Some(next.waiter.owner.clone());
    } else {
        key.write(&LockChange::Free, Announce::LastRelease);
    }
    serve_after(context, name, Caller::Command, just_granted);
}

/// Grants the lock to a waiting call.
fn grant(
    context: Context<'_>,
    lock_id: &LockId,
    next: &Next,
    granted: &Granted<'_>,
    key: LockKey<'_>,
    events: &[KeyspaceEvent],
) {
    let before = granted.before.map(|before| before.token);
    let (holder, change) = (&granted.holder, &granted.change);
    keeping::note_change(&key, before, *holder, change, to_keep(&next.waiter));
    let membership = of_sessions::membership(context, next.id);
    sessions::note_change(&key, before, *holder, change, membership);
    let blocked = make_pending(context, lock_id, next, granted);
    key.write(change, Announce::Events(events));
    count_grant(before.is_none());
    send_grant(blocked, next, holder);
}
