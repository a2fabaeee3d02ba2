//! How a command changes a lock: it opens it, judges the call and commits the outcome.
//!
//! Each step takes the result of the one before, and only the last one returns what to reply. A command
//! that leaves out a step does not compile.

use redis_lock_core::keeping::{Asked, Keep};
use redis_lock_core::sessions::SessionId;
use redis_lock_core::{
    Acquire, Deadline, Granted, Holder, Holds, LockChange, Owner, Release, Renew, Token,
};

use super::ended::end_leases;
use super::give_back::apply_give_backs;
use super::join::place_of_repeated;
use super::judge::{admit, check_renewal};
use super::line::{stands_in_line, waiting};
use super::serve::{Caller, hand_over, may_write_now, serve};
use super::state::STATE;
use super::timer;
use crate::keeping::{self, ToKeep};
use crate::locks::{
    Announce, CommandError, KeyspaceEvent, LockKey, LockView, Primary, now, released, rules,
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
        apply_give_backs(context, name, Caller::Command);
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
        if self.key.is_exclusive() || !stands_in_line(self.context, self.key.name()) {
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

    /// Goes on unless this queued call is in line already: then the error is its place.
    pub(crate) fn unless_in_line(
        self,
        owner: Owner<'_>,
        of: (SessionId, Holds),
    ) -> Result<Self, usize> {
        let lock = self.after_the_line();
        match place_of_repeated(lock.context, lock.key.name(), owner, of) {
            None => Ok(lock),
            Some(place) => Err(place),
        }
    }

    /// Judges an acquire; `None` when there is no room or others wait for it.
    pub(crate) fn acquire<'a>(
        self,
        request: &Acquire<'a>,
        keep: Option<Keep>,
        session: Option<SessionId>,
    ) -> Result<Option<Judged<'call, 'a, Holder<'a>>>, CommandError> {
        let membership = session.map_or(Membership::Stays, Membership::Joins);
        let lock = self.after_the_line();
        let (context, key) = (lock.context, &lock.key);
        let holders = key.holders()?;
        // The line could not be served just now. This call is not granted before it either.
        let in_line = stands_in_line(context, key.name());
        let Some(granted) = admit(
            context,
            key.name(),
            holders.as_ref(),
            request,
            in_line,
            keep,
            membership,
        )?
        else {
            return Ok(None);
        };
        let counter = match granted.before {
            None => Counter::Grants,
            Some(_) => Counter::Reentries,
        };
        let keep = keep.map(|keep| (keep, Asked::Acquire, context.client_id()));
        Ok(Some(lock.judged(
            granted,
            (keep, membership),
            KeyspaceEvent::Acquire,
            counter,
        )))
    }

    /// Judges a release. The caller is no holder afterwards if that was its last hold.
    pub(crate) fn release<'a>(
        self,
        request: &Release<'a>,
        session: Option<SessionId>,
    ) -> Result<Judged<'call, 'a, Option<Holder<'a>>>, CommandError> {
        let holders = self.key.holders()?;
        let released = redis_lock_core::release(holders.as_ref(), request, now(self.context))?;
        let changes = released.change != LockChange::Keep;
        Ok(Judged {
            before: Some(released.before.token),
            after: released.holder,
            change: released.change,
            renewal: (None, Membership::ReleasedBy(session)),
            event: KeyspaceEvent::Release,
            counter: changes.then_some(Counter::Releases),
            lock: self,
        })
    }

    /// Judges a renewal.
    pub(crate) fn renew<'a>(
        self,
        request: &Renew<'a>,
        keep: Option<Keep>,
        membership: Membership,
    ) -> Result<Judged<'call, 'a, Holder<'a>>, CommandError> {
        let lock = self.after_the_line();
        let holders = lock.key.holders()?;
        let (rules, now) = (rules(), now(lock.context));
        let granted = with_token_clock(|clock| {
            let granted = redis_lock_core::renew(holders.as_ref(), request, &rules, now, clock)?;
            check_renewal(lock.context, lock.key.name(), keep, membership, &granted)?;
            Ok::<_, CommandError>(granted)
        })?;
        let keep = keep.map(|keep| (keep, Asked::Renew, lock.context.client_id()));
        let renewal = (keep, membership);
        Ok(lock.judged(granted, renewal, KeyspaceEvent::Renew, Counter::Renewals))
    }

    #[inline]
    fn judged<'a>(
        self,
        granted: Granted<'a>,
        renewal: (ToKeep, Membership),
        event: KeyspaceEvent,
        counter: Counter,
    ) -> Judged<'call, 'a, Holder<'a>> {
        Judged {
            lock: self,
            before: granted.before.map(|before| before.token),
            after: granted.holder,
            change: granted.change,
            renewal,
            event,
            counter: Some(counter),
        }
    }
}

/// Opens a lock for a command that changes nothing and only a primary answers, after its give-backs.
pub(crate) fn view<'call>(primary: Primary<'call>, name: Text<'call>) -> LockView<'call> {
    apply_give_backs(primary.context(), name, Caller::Command);
    keeping::renew_due(primary.context(), name);
    sessions::before_command(primary.context(), name);
    LockView::open(primary.context(), name)
}

/// Opens a lock for a command that only looks at it, on a replica too. Where the server may write, its give-backs
/// come first, and the renewals that are due.
pub(crate) fn look<'call>(context: Context<'call>, name: Text<'call>) -> LockView<'call> {
    if (STATE.is_busy() || keeping::any() || sessions::any_grants()) && may_write_now(context) {
        // The server allows this command also when it would refuse a write.
        apply_give_backs(context, name, Caller::EventLoop);
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
    /// The caller as a holder after the call.
    after: T,
    change: LockChange<'a>,
    /// Whether the caller keeps the grant, and to which session it belongs.
    renewal: (ToKeep, Membership),
    event: KeyspaceEvent,
    counter: Option<Counter>,
}

impl<'a, T: Copy + Into<Option<Holder<'a>>>> Judged<'_, 'a, T> {
    /// Applies the change and announces it; the next calls get the room that it makes. Returns the caller as a holder.
    pub(crate) fn commit(self) -> T {
        let Lock { context, key } = self.lock;
        if let Some(counter) = self.counter {
            count(counter);
        }
        // Before the change is announced: a listener may free the lock.
        let (keep, membership) = self.renewal;
        keeping::note_change(&key, self.before, self.after, &self.change, keep);
        sessions::note_change(&key, self.before, self.after, &self.change, membership);
        match (&self.change, self.before) {
            (LockChange::Free, Some(token)) => hand_over(context, key, token),
            (change, before) => {
                // Before the change is announced: a listener may free the lock, and this answer is not
                // about the grant that follows.
                note_answer(context, key.name(), before, change);
                let name = key.name();
                let makes_room =
                    self.event != KeyspaceEvent::Acquire && matches!(change, LockChange::Shared(_));
                if let (KeyspaceEvent::Renew, LockChange::Exclusive(holder)) = (self.event, change)
                {
                    note_lease_end(context, name, holder.end);
                }
                key.write(change, Announce::Events(&[self.event]));
                if makes_room && waiting(context, name) > 0 {
                    serve(context, name, Caller::Command);
                }
            }
        }
        self.after
    }
}

/// A renewal has set the end of the lease: the waiters of this lock may be served earlier than planned.
fn note_lease_end(context: Context<'_>, name: Text<'_>, end: Deadline) {
    let is_sooner = STATE.if_busy(context, |state| {
        let calls = &mut state.calls;
        calls.cut_lease_end(context.database(), name.bytes(), end)
    });
    if let (true, Deadline::At(end)) = (is_sooner, end) {
        timer::at_end(context, end);
    }
}

/// Records for the pending grants of the owner that this call is answered, and the raised token; of a holder that
/// leaves a shared lock, that it has left.
fn note_answer(
    context: Context<'_>,
    name: Text<'_>,
    before: Option<Token>,
    change: &LockChange<'_>,
) {
    let Some(before) = before else { return };
    if change.removes(before) {
        released(context, before);
        return;
    }
    STATE.if_busy(context, |state| {
        let (database, key) = (context.database(), name.bytes());
        state.calls.answered(database, key, before);
        if let LockChange::Exclusive(holder) = change
            && holder.grant.token != before
        {
            let raised = holder.grant.token;
            state.calls.raise(database, key, before, raised);
        }
    });
}
