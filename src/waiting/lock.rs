//! How a command changes a lock: it opens it, judges the call and commits the outcome.
//!
//! Each step takes the result of the one before, and only the last one returns what to reply. A command
//! that leaves out a step does not compile.

use redis_lock_core::keeping::{Asked, Keep, check_lease};
use redis_lock_core::sessions::SessionId;
use redis_lock_core::sharing::{self, Admitted, Granted, Holders, Room, Transition};
use redis_lock_core::{
    self as core, Acquire, Deadline, Grant, Limit, LockId, Owner, Refusal, Release, Renew, Times,
    Token, TokenClock,
};

use super::ended::end_leases;
use super::give_back::{settle, settle_before_look};
use super::join::waiting;
use super::serve::{Caller, hand_over, may_write_now, serve};
use super::state::STATE;
use super::timer;
use crate::keeping::{self, ToKeep};
use crate::locks::{
    CommandError, KeyspaceEvent, LockKey, LockView, Primary, max_holders, now, released, rules,
    with_token_clock,
};
use crate::server::{Context, Text};
use crate::sessions::{self, Membership};
use crate::statistics::{Counter, count};

/// An open lock, with all its give-backs done and the leases that have ended taken out.
pub(crate) struct Lock<'call> {
    context: Context<'call>,
    key: LockKey<'call>,
}

impl<'call> Lock<'call> {
    /// Opens a lock for a command that may change it.
    pub(crate) fn open(primary: Primary<'call>, name: Text<'call>) -> Self {
        let context = primary.context();
        settle(context, name);
        keeping::renew_due(context, name);
        sessions::before_command(context, name);
        let key = LockKey::open(context, name);
        if key.is_shared() {
            return Self::after_ended_leases(context, key);
        }
        Self { context, key }
    }

    #[cold]
    fn after_ended_leases(context: Context<'call>, key: LockKey<'call>) -> Self {
        let name = key.name();
        let key = end_leases(key).unwrap_or_else(|_ended| {
            serve(context, name, Caller::Command);
            LockKey::open(context, name)
        });
        Self { context, key }
    }

    /// Lets those in line who have room go first.
    #[inline]
    fn after_the_line(self) -> Self {
        if self.key.is_alone() || waiting(self.context, self.key.name()) == 0 {
            self
        } else {
            self.after_serving()
        }
    }

    #[cold]
    fn after_serving(self) -> Self {
        let (context, name) = (self.context, self.key.name());
        drop(self.key);
        serve(context, name, Caller::Command);
        let key = LockKey::open(context, name);
        Self { context, key }
    }

    /// Judges an acquire; `None` when there is no room or others wait for it.
    pub(crate) fn acquire<'a>(
        self,
        request: &Acquire<'a>,
        limit: Limit,
        keep: Option<Keep>,
        session: Option<SessionId>,
    ) -> Result<Option<Judged<'call, 'a, Granted>>, CommandError> {
        let membership = session.map_or(Membership::Stays, Membership::Joins);
        let lock = self.after_the_line();
        let (context, key) = (lock.context, &lock.key);
        let holders = key.holders()?;
        let before = token_of(holders.as_ref(), request.owner);
        let room = Room {
            max_holders: max_holders(),
            // The queue could not be served just now. This call is not granted before it either.
            in_line: waiting(context, key.name()) > 0,
        };
        let rule = |clock: &mut TokenClock| {
            let (rules, now) = (rules(), now(context));
            sharing::acquire(holders.as_ref(), request, limit, room, &rules, now, clock)
        };
        let name = key.name();
        let admitted = judge(
            context,
            name,
            keep,
            membership,
            rule,
            |admitted| match admitted {
                Admitted::New(granted, _) | Admitted::Again(granted, _) => Some(granted.grant),
                Admitted::Busy => None,
            },
        )?;
        let (granted, transition, counter) = match admitted {
            Admitted::New(granted, transition) => (granted, transition, Counter::Grants),
            Admitted::Again(granted, transition) => (granted, transition, Counter::Reentries),
            Admitted::Busy => return Ok(None),
        };
        Ok(Some(Judged {
            lock,
            before,
            transition,
            keep: keep.map(|keep| (keep, Asked::Acquire, context.client_id())),
            membership,
            event: KeyspaceEvent::Acquire,
            counter: Some(counter),
            outcome: granted,
        }))
    }

    /// Judges a release; its outcome is the number of holds left.
    pub(crate) fn release<'a>(
        self,
        request: &Release<'a>,
        session: Option<SessionId>,
    ) -> Result<Judged<'call, 'a, u32>, CommandError> {
        let (before, holds_left, transition) = if let Some(record) = self.key.alone() {
            // The usual release need not look up when the lease ends.
            let released = core::release(Some(record), request, || Times {
                now: now(self.context),
                deadline: self.key.deadline(),
            })?;
            let transition = Transition::of(request.owner, released.change);
            (Some(record.grant.token), released.holds_left, transition)
        } else {
            let holders = self.key.holders()?;
            let before = token_of(holders.as_ref(), request.owner);
            let (left, transition) =
                sharing::release(holders.as_ref(), request, now(self.context))?;
            (before, left, transition)
        };
        let changes = !matches!(transition, Transition::Keep);
        Ok(Judged {
            before,
            transition,
            keep: None,
            membership: Membership::ReleasedBy(session),
            event: KeyspaceEvent::Release,
            counter: changes.then_some(Counter::Releases),
            outcome: holds_left,
            lock: self,
        })
    }

    /// Judges a renewal; `limit` is the one to set.
    pub(crate) fn renew<'a>(
        self,
        request: &Renew<'a>,
        limit: Option<Limit>,
        keep: Option<Keep>,
        membership: Membership,
    ) -> Result<Judged<'call, 'a, Granted>, CommandError> {
        let lock = self.after_the_line();
        let holders = lock.key.holders()?;
        let before = token_of(holders.as_ref(), request.owner());
        let rule = |clock: &mut TokenClock| {
            let (rules, now) = (rules(), now(lock.context));
            sharing::renew(holders.as_ref(), request, limit, &rules, now, clock)
        };
        let name = lock.key.name();
        let (granted, transition) = judge(
            lock.context,
            name,
            keep,
            membership,
            rule,
            |(granted, _)| Some(granted.grant),
        )?;
        Ok(Judged {
            before,
            transition,
            keep: keep.map(|keep| (keep, Asked::Renew, lock.context.client_id())),
            membership,
            event: KeyspaceEvent::Renew,
            counter: Some(Counter::Renewals),
            outcome: granted,
            lock,
        })
    }
}

/// The token of this owner's grant.
fn token_of(holders: Option<&Holders<'_>>, owner: Owner<'_>) -> Option<Token> {
    let (grant, _) = holders?.grant_of(owner)?;
    Some(grant.token)
}

/// Runs a rule with the token clock, and checks that a grant that is to be kept, or is kept, has a lease that
/// is long enough: the last check of all.
fn judge<T>(
    context: Context<'_>,
    name: Text<'_>,
    keep: Option<Keep>,
    membership: Membership,
    rule: impl FnOnce(&mut TokenClock) -> Result<T, Refusal>,
    granted: impl FnOnce(&T) -> Option<Grant>,
) -> Result<T, CommandError> {
    with_token_clock(|clock| {
        let before = *clock;
        let outcome = rule(clock)?;
        let Some(grant) = granted(&outcome) else {
            return Ok(outcome);
        };
        let keeps = matches!(keep, Some(Keep::For(_)));
        sessions::check(context, name, membership, keeps, grant)
            .inspect_err(|_| *clock = before)?;
        if keep.is_some() || keeping::any() {
            let is_kept = keeping::is_kept(context, name, grant.token);
            check_lease(keep, is_kept, grant.lease).inspect_err(|_| *clock = before)?;
        }
        Ok(outcome)
    })
}

/// Opens a lock for a command that changes nothing and only a primary answers, after its give-backs.
pub(crate) fn view<'call>(primary: Primary<'call>, name: Text<'call>) -> LockView<'call> {
    settle(primary.context(), name);
    keeping::renew_due(primary.context(), name);
    sessions::before_command(primary.context(), name);
    LockView::open(primary.context(), name)
}

/// Opens a lock for a command that only looks at it, on a replica too. Where the server may write, its give-backs
/// come first, and the renewals that are due.
pub(crate) fn look<'call>(context: Context<'call>, name: Text<'call>) -> LockView<'call> {
    if (STATE.is_busy() || keeping::any() || sessions::any_grants()) && may_write_now(context) {
        settle_before_look(context, name);
        keeping::renew_due_if_allowed(context, name);
        sessions::before_look(context, name);
    }
    LockView::open(context, name)
}

/// The outcome of a call, not applied yet.
#[must_use = "the outcome takes effect when it is committed"]
pub(crate) struct Judged<'call, 'a, T> {
    lock: Lock<'call>,
    /// The token of the caller's grant before the call.
    before: Option<Token>,
    transition: Transition<'a>,
    /// Whether the caller keeps the grant.
    keep: ToKeep,
    membership: Membership,
    event: KeyspaceEvent,
    counter: Option<Counter>,
    outcome: T,
}

impl<T> Judged<'_, '_, T> {
    /// Applies the change and announces it; the room that it makes goes to the next calls. Returns what to
    /// reply.
    pub(crate) fn commit(self) -> T {
        let Lock { context, key } = self.lock;
        if let Some(counter) = self.counter {
            count(counter);
        }
        // Before the change is announced: a listener may free the lock.
        keeping::note_change(&key, self.before, &self.transition, self.keep);
        sessions::note_change(&key, self.before, &self.transition, self.membership);
        match (self.transition, self.before) {
            (Transition::Free, Some(token)) => hand_over(context, key, token),
            (transition, before) => {
                // Before the change is announced: a listener may free the lock, and this answer is not
                // about the grant that follows.
                note_answer(context, key.name(), before, &transition);
                let name = key.name();
                let makes_room = self.event != KeyspaceEvent::Acquire
                    && matches!(transition, Transition::Share(_));
                if let (KeyspaceEvent::Renew, Transition::Alone(held)) = (self.event, &transition) {
                    note_end(context, name, held.deadline);
                }
                key.change(&transition, self.event);
                if makes_room && waiting(context, name) > 0 {
                    serve(context, name, Caller::Command);
                }
            }
        }
        self.outcome
    }
}

/// Those who wait for this lock get it then, perhaps sooner than was known.
fn note_end(context: Context<'_>, name: Text<'_>, end: Deadline) {
    let is_sooner = STATE.if_busy(context, |state| {
        let database = context.database();
        state.queues.waiting(database, name.bytes()) > 0
            && state
                .lease_watch
                .ends_by(&LockId::new(database, name.bytes()), end)
    });
    if let (true, Deadline::At(end)) = (is_sooner, end) {
        timer::at_end(context, end);
    }
}

/// Notes for the owner's pending grants that this call is answered, and the raised token; of a share that
/// goes, that it has gone.
fn note_answer(
    context: Context<'_>,
    name: Text<'_>,
    before: Option<Token>,
    transition: &Transition<'_>,
) {
    let Some(before) = before else { return };
    if transition.removes(before) {
        released(context, before);
        return;
    }
    STATE.if_busy(context, |state| {
        if state.pending_grants.is_empty() {
            return;
        }
        let lock_id = LockId::new(context.database(), name.bytes());
        state.pending_grants.answered(&lock_id, before);
        if let Transition::Alone(held) = transition
            && held.grant.token != before
        {
            state
                .pending_grants
                .raise(&lock_id, before, held.grant.token);
        }
    });
}
