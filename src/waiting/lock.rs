//! A lock as a command has it: opened, judged, committed.
//!
//! Each step takes what the one before gave, and only the last one gives what is replied. A command
//! that leaves one out does not compile.

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

/// A lock on which nothing is due any more: callers that are gone have given back what they took.
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

    /// Judges an acquire; none when another owner holds the lock, or others are in line for it.
    pub(crate) fn acquire<'a>(
        mut self,
        request: &Acquire<'a>,
    ) -> Result<Option<Judged<'call, 'a, Grant>>, CommandError> {
        let (context, name) = (self.context, self.key.name());
        if self.key.record()?.is_none() && waiting(context, name) > 0 {
            // Nobody slips past the queue.
            drop(self.key);
            serve(context, name, Caller::Command);
            self.key = LockKey::open(context, name);
        }
        let held = self.key.held()?;
        let before = held.map(|held| held.grant.token);
        let acquired = with_token_clock(|clock| {
            let (rules, now) = (rules(), now(context));
            if held.is_none() && waiting(context, name) > 0 {
                // Nothing may be granted to those in the queue now, and so not to this call either.
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

    /// Judges a release, which comes to the holds that are left.
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

/// Opens a lock for a command that changes nothing, after what was due on it.
pub(crate) fn look<'call>(primary: Primary<'call>, name: Text<'call>) -> LockView<'call> {
    settle(primary.context(), name);
    LockView::open(primary.context(), name)
}

/// What a call comes to, of which nothing is done yet.
#[must_use = "only what is committed is so"]
pub(crate) struct Judged<'call, 'a, T> {
    lock: Lock<'call>,
    owner: Owner<'a>,
    /// The token of the grant that was found.
    before: Option<Token>,
    change: Change,
    event: KeyspaceEvent,
    counter: Option<Counter>,
    outcome: T,
}

impl<T> Judged<'_, '_, T> {
    /// Makes the change and lets everybody know of it; a lock that becomes free goes to the next in
    /// line. What is to be replied.
    pub(crate) fn commit(self) -> T {
        let Lock { context, key } = self.lock;
        if let Some(counter) = self.counter {
            count(counter);
        }
        match (self.change, self.before) {
            (Change::Free, Some(token)) => hand_over(context, key, self.owner, token),
            (change, before) => {
                // First: whoever hears of the change may free the lock, and the next grant is not
                // answered.
                note_answer(context, key.name(), before, change);
                key.change(self.owner, change, self.event);
            }
        }
        self.outcome
    }
}

/// The owner is answered directly: it knows of its grant, whatever becomes of its waiting calls. Where
/// the token is raised, calls whose grant is pending belong to it all the same.
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
