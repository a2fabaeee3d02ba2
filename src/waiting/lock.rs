//! How a command changes a lock: it opens it, judges the call and commits the outcome.
//!
//! Each step takes the result of the one before, and only the last one returns what to reply. A command
//! that leaves out a step does not compile.

use redis_lock_core::{
    self as core, Acquire, Acquired, Change, Grant, LockId, Owner, Release, Renew, Times, Token,
};

use super::join::waiting;
use super::serve::{Caller, hand_over, serve, settle};
use super::state::STATE;
use crate::locks::{
    CommandError, KeyspaceEvent, LockKey, LockView, Primary, now, rules, with_token_clock,
};
use crate::server::{Context, Text};
use crate::statistics::{Counter, count};

/// An open lock, with all its give-backs done.
pub(crate) struct Lock<'call> {
    context: Context<'call>,
    key: LockKey<'call>,
}

impl<'call> Lock<'call> {
    /// Opens a lock for a command that may change it.
    pub(crate) fn open(primary: Primary<'call>, name: Text<'call>) -> Self {
        let context = primary.context();
        settle(context, name);
        Self {
            context,
            key: LockKey::open(context, name),
        }
    }

    /// Judges an acquire; `None` when another owner holds the lock or others wait for it.
    pub(crate) fn acquire<'a>(
        mut self,
        request: &Acquire<'a>,
    ) -> Result<Option<Judged<'call, 'a, Grant>>, CommandError> {
        let (context, name) = (self.context, self.key.name());
        if self.key.record()?.is_none() && waiting(context, name) > 0 {
            // The lock is due to the first in the queue.
            drop(self.key);
            serve(context, name, Caller::Command);
            self.key = LockKey::open(context, name);
        }
        let held = self.key.held()?;
        let before = held.map(|held| held.grant.token);
        let acquired = with_token_clock(|clock| {
            let (rules, now) = (rules(), now(context));
            if held.is_none() && waiting(context, name) > 0 {
                // The queue cannot be served now. This call is not granted before it either.
                core::acquire(None, request, &rules, now, &mut clock.clone())
                    .map(|_| Acquired::Busy)
            } else {
                core::acquire(held.as_ref(), request, &rules, now, clock)
            }
        })?;
        let (grant, change, counter) = match acquired {
            Acquired::New(grant, change) => (grant, change, Counter::Grants),
            Acquired::Again(grant, change) => (grant, change, Counter::Reentries),
            Acquired::Busy => return Ok(None),
        };
        Ok(Some(Judged {
            lock: self,
            owner: request.owner,
            before,
            change,
            event: KeyspaceEvent::Acquire,
            counter: Some(counter),
            outcome: grant,
        }))
    }

    /// Judges a release; its outcome is the number of holds left.
    pub(crate) fn release<'a>(
        self,
        request: &Release<'a>,
    ) -> Result<Judged<'call, 'a, u32>, CommandError> {
        let record = self.key.record()?;
        let released = core::release(record, request, || Times {
            now: now(self.context),
            deadline: self.key.deadline(),
        })?;
        let before = record.map(|record| record.grant.token);
        let changes = released.change != Change::Keep;
        Ok(Judged {
            owner: request.owner,
            before,
            change: released.change,
            event: KeyspaceEvent::Release,
            counter: changes.then_some(Counter::Releases),
            outcome: released.holds_left,
            lock: self,
        })
    }

    /// Judges a renewal.
    pub(crate) fn renew<'a>(
        self,
        request: &Renew<'a>,
    ) -> Result<Judged<'call, 'a, Grant>, CommandError> {
        let held = self.key.held()?;
        let before = held.map(|held| held.grant.token);
        let renewed = with_token_clock(|clock| {
            core::renew(held.as_ref(), request, &rules(), now(self.context), clock)
        })?;
        Ok(Judged {
            owner: request.owner(),
            before,
            change: renewed.change,
            event: KeyspaceEvent::Renew,
            counter: Some(Counter::Renewals),
            outcome: renewed.grant,
            lock: self,
        })
    }
}

/// Opens a lock for a command that changes nothing, after its give-backs.
pub(crate) fn view<'call>(primary: Primary<'call>, name: Text<'call>) -> LockView<'call> {
    settle(primary.context(), name);
    LockView::open(primary.context(), name)
}

/// The outcome of a call, not applied yet.
#[must_use = "the outcome takes effect when it is committed"]
pub(crate) struct Judged<'call, 'a, T> {
    lock: Lock<'call>,
    owner: Owner<'a>,
    /// The token of the grant before the call.
    before: Option<Token>,
    change: Change,
    event: KeyspaceEvent,
    counter: Option<Counter>,
    outcome: T,
}

impl<T> Judged<'_, '_, T> {
    /// Applies the change and announces it; a lock that becomes free goes to the next call. Returns what
    /// to reply.
    pub(crate) fn commit(self) -> T {
        let Lock { context, key } = self.lock;
        if let Some(counter) = self.counter {
            count(counter);
        }
        match (self.change, self.before) {
            (Change::Free, Some(token)) => hand_over(context, key, token),
            (change, before) => {
                // Before the change is announced: a listener may free the lock, and this answer is not
                // about the grant that follows.
                note_answer(context, key.name(), before, change);
                key.change(self.owner, change, self.event);
            }
        }
        self.outcome
    }
}

/// Notes for the owner's pending grants that this call is answered, and the raised token.
fn note_answer(context: Context<'_>, name: Text<'_>, before: Option<Token>, change: Change) {
    STATE.if_busy(context, |state| {
        if state.pending_grants.is_empty() {
            return;
        }
        let lock_id = LockId::new(context.database(), name.bytes());
        state.pending_grants.owner_answered(&lock_id);
        if let (Some(from), Change::Hold(Grant { token: to, .. }, _)) = (before, change)
            && from != to
        {
            state.pending_grants.raise(&lock_id, from, to);
        }
    });
}
