//! Grants a lock to the next waiting calls.

use redis_lock_core::{
    Acquire, Granted, Holders, LockChange, Monotonic, OwnerBuf, Token, Waiter, next_in_line,
};

use super::answer::Answer;
use super::cluster_redirect::redirection;
use super::ended::end_leases;
use super::judge::{admit, confirm};
use super::line::stands_in_line;
use super::refuse::{refuse, refuse_all};
use super::state::STATE;
use super::timer;
use super::turn::{Next, Turn, count_grant, grant, may_acquire, next_call};
use crate::locks::{
    Announce, CommandError, KeyspaceEvent, LockKey, SLICE, check_write, max_holders, released,
};
use crate::server::cluster_nodes::NodesCache;
use crate::server::{Context, Text, WriteCheck};
use crate::sessions::{self, Membership};

/// The most grants of one lock in one run. The server writes the replies of all grants before it serves other clients,
/// and that takes longer than the grants themselves.
const MAX_GRANTS: usize = 64;

/// Where [`serve`] is called from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A running command on the key, which the server allowed to write.
    Command,
    /// The event loop.
    EventLoop,
}

enum Step {
    /// A call was granted or refused, or holders whose lease had ended were removed; there may be a next call.
    Again,
    /// No call can be granted until the lock or its line changes.
    Done,
    /// The server accepts no writes now, or the next call is not known yet; a later tick tries again.
    Later,
    /// The slice of time is used up; the next tick continues.
    Continue,
}

impl Step {
    /// The next step after [`refuse_all`].
    const fn of_refusals(all: bool) -> Self {
        if all { Self::Done } else { Self::Continue }
    }
}

/// Why the next call gets no grant.
enum NoGrant {
    /// The wait ends with this error.
    Refused(CommandError),
    /// This node does not serve the lock.
    Elsewhere(WriteCheck),
    /// The call keeps waiting.
    Waits(Step),
}

/// The state of one run that serves a lock.
struct Serving<'call> {
    context: Context<'call>,
    name: Text<'call>,
    caller: Caller,
    /// The owner of the last grant. Its other calls come before the next call in line.
    just_granted: Option<OwnerBuf>,
    /// When the first call was granted.
    began: Option<Monotonic>,
    /// How many calls this run has granted.
    grants: usize,
    /// True once the server has confirmed that this lock may be granted.
    allowed: bool,
}

/// Grants the lock to the first call in line that has room and to all other calls of its owner, and repeats that while
/// there is room.
///
/// The first call is granted at once, but many calls take several ticks. Returns true if the next tick has to continue.
pub(super) fn serve(context: Context<'_>, name: Text<'_>, caller: Caller) -> bool {
    run(context, name, caller, None)
}

/// Replaces a grant whose last hold the running command releases by the next grant, or frees the lock.
pub(super) fn hand_over(key: LockKey<'_>, token: Token) {
    let context = key.context();
    released(context, token);
    if STATE.is_busy() {
        run(context, key.name(), Caller::Command, Some(key));
    } else {
        key.write(&LockChange::Free, Announce::LastRelease);
    }
}

fn run(
    context: Context<'_>,
    name: Text<'_>,
    caller: Caller,
    mut released: Option<LockKey<'_>>,
) -> bool {
    let mut serving = Serving {
        context,
        name,
        caller,
        just_granted: None,
        began: None,
        grants: 0,
        allowed: false,
    };
    let delay = loop {
        match serving.step(released.take()) {
            Step::Again => {}
            Step::Done => return false,
            Step::Later => break None,
            // Not in this iteration, which still has to write the replies of these grants.
            Step::Continue => break Some(SLICE),
        }
    };
    STATE.with(context, |state| {
        let (calls, database) = (&mut state.calls, context.database());
        if let Some(owner) = &serving.just_granted {
            // The owner's remaining calls are re-entries now.
            let owner = owner.as_owner().bytes();
            calls.judge_later(database, name.bytes(), owner);
        }
        calls.make_ready(database, name.bytes())
    });
    timer::within(context, delay);
    delay.is_some()
}

/// Returns true on a primary that is not loading and whose writes are not paused.
pub(super) fn may_write_now(context: Context<'_>) -> bool {
    !context.writes_paused() && !context.flags().loading() && !context.flags().replica()
}

impl Serving<'_> {
    /// Serves the next call. `released` is a key that still contains a grant whose last hold the running command has
    /// released; the next grant overwrites it.
    fn step(&mut self, released: Option<LockKey<'_>>) -> Step {
        let (context, name) = (self.context, self.name);
        let is_released = released.is_some();
        let mut key = released.unwrap_or_else(|| LockKey::open(context, name));
        if !is_released
            && key.is_shared()
            && may_write_now(context)
            && stands_in_line(context, name)
        {
            key = match end_leases(key) {
                Ok(key) => key,
                Err(_ended) => return Step::Again,
            };
        }
        let holders = if is_released { Ok(None) } else { key.holders() };
        let Ok(holders) = holders else {
            drop(key);
            let wrong_type = |_| Answer::Error(CommandError::WrongType);
            return Step::of_refusals(refuse_all(context, name, wrong_type));
        };
        let close = |key: LockKey<'_>| {
            if is_released {
                key.write(&LockChange::Free, Announce::LastRelease);
            }
        };
        let next = match self.next(holders.as_ref()) {
            Turn::Call(next) => next,
            Turn::Nobodys => {
                close(key);
                return Step::Done;
            }
            Turn::Unknown => {
                close(key);
                return Step::Later;
            }
        };
        let owner = next.waiter.owner.as_owner();
        let is_new = holders.is_none_or(|holders| holders.find(owner).is_none());
        match self.judge(&key, holders.as_ref(), is_new, is_released, &next) {
            Ok(granted) => {
                self.just_granted = Some(next.waiter.owner.clone());
                self.grants += 1;
                let before = granted.before.map(|before| before.token);
                let (holder, change) = (&granted.holder, &granted.change);
                let membership = membership(&next.waiter);
                sessions::track_change(&key, before, Some(holder), change, membership);
                let to_answer = grant(context, &next, &granted);
                let events = [KeyspaceEvent::Release, KeyspaceEvent::Acquire];
                key.write(
                    change,
                    Announce::Events(&events[usize::from(!is_released)..]),
                );
                count_grant(is_new);
                to_answer.send();
                self.after_grant(change)
            }
            Err(NoGrant::Refused(error)) => {
                close(key);
                refuse(context, next.id, error);
                Step::Again
            }
            Err(NoGrant::Elsewhere(check)) => {
                close(key);
                self.redirect(check)
            }
            Err(NoGrant::Waits(step)) => {
                close(key);
                step
            }
        }
    }

    /// The call to judge next.
    fn next(&self, holders: Option<&Holders<'_>>) -> Turn {
        let just_granted = self.just_granted.as_ref().map(OwnerBuf::as_owner);
        let lock = (self.context.database(), self.name.bytes());
        let max_holders = max_holders();
        next_call(self.context, |state| {
            // Clear the ready mark only now, because opening an expired key sets it.
            state.calls.clear_ready(lock.0, lock.1);
            if let Some(holders) = holders {
                state
                    .calls
                    .set_lease_end(lock.0, lock.1, holders.next_end());
            }
            next_in_line(&mut state.calls, lock, holders, just_granted, max_holders)
        })
    }

    /// Decides whether the next call is granted the lock.
    fn judge<'a>(
        &mut self,
        key: &LockKey<'_>,
        holders: Option<&Holders<'_>>,
        is_new: bool,
        is_released: bool,
        next: &'a Next,
    ) -> Result<Granted<'a>, NoGrant> {
        let (context, name, waiter) = (self.context, self.name, &next.waiter);
        if !may_write_now(context) {
            return Err(NoGrant::Waits(Step::Later));
        }
        if self.is_slice_over(next) {
            return Err(NoGrant::Waits(Step::Continue));
        }
        if is_released && context.flags().cluster() {
            // While a slot moves away, a node still serves an existing key but not a missing one. Free the lock before
            // the next step asks the server.
            return Err(NoGrant::Waits(Step::Again));
        }
        if is_new && !self.allowed {
            match self.check_server() {
                WriteCheck::Allowed => self.allowed = true,
                WriteCheck::NotNow => return Err(NoGrant::Waits(Step::Later)),
                elsewhere => return Err(NoGrant::Elsewhere(elsewhere)),
            }
        }
        if !may_acquire(context, name, next.id) {
            return Err(NoGrant::Refused(CommandError::NoPermission));
        }
        let request = Acquire {
            owner: waiter.owner.as_owner(),
            limit: waiter.limit,
            lease: waiter.lease,
            holds: waiter.holds,
            token: None,
        };
        let refused = |refusal| {
            let error = CommandError::Refused(refusal);
            error.count_refusal();
            NoGrant::Refused(error)
        };
        let granted = admit(context, holders, &request, false).map_err(refused)?;
        let granted = granted.ok_or(NoGrant::Waits(Step::Done))?;
        confirm(key, membership(waiter), &granted).map_err(refused)?;
        Ok(granted)
    }

    /// The next step. After an exclusive grant only calls of the same owner can be granted, so the key need not be
    /// opened again for others. If a listener has changed the key meanwhile, it is marked as ready.
    fn after_grant(&self, change: &LockChange<'_>) -> Step {
        let LockChange::Exclusive(holder) = change else {
            return Step::Again;
        };
        let (database, key) = (self.context.database(), self.name.bytes());
        let more = STATE.with(self.context, |state| {
            state.calls.set_lease_end(database, key, holder.end);
            let of_owner = state
                .calls
                .first_eligible_of(database, key, holder.owner.bytes());
            of_owner.is_some()
        });
        if more { Step::Again } else { Step::Done }
    }

    /// Returns true if the next call has to wait for another tick. The calls of one owner are never split. The first
    /// grant is never delayed either, however long the refusals before it took.
    fn is_slice_over(&mut self, next: &Next) -> bool {
        if self.grants == 0 {
            return false;
        }
        let began = *self.began.get_or_insert(next.now);
        (self.grants >= MAX_GRANTS || next.now.since(began) >= SLICE)
            && self.just_granted.as_ref() != Some(&next.waiter.owner)
    }

    /// Asks the server whether it allows a new grant. A running command proves that already, except in a cluster, where
    /// a node may serve an existing key but not a missing one.
    fn check_server(&self) -> WriteCheck {
        if self.caller == Caller::EventLoop || self.context.flags().cluster() {
            check_write(self.context, self.name)
        } else {
            WriteCheck::Allowed
        }
    }

    /// Redirects all waiting calls, because this node does not serve the lock.
    fn redirect(&self, check: WriteCheck) -> Step {
        let (context, name) = (self.context, self.name);
        let redirection = redirection(context, name, check, &NodesCache::default());
        Step::of_refusals(refuse_all(context, name, |client| {
            Answer::error(redirection.error(context, client))
        }))
    }
}

/// The session that the grant of a waiting call joins, if any.
fn membership(waiter: &Waiter) -> Membership {
    waiter
        .session
        .map_or(Membership::Stays, Membership::JoinsAfterWait)
}
