//! How a command changes a lock: it opens the lock, judges the call and commits the outcome.

use redis_lock_core::sessions::SessionId;
use redis_lock_core::{
    Acquire, Deadline, Granted, Holder, Holds, LockChange, Owner, Release, Renew, Token,
};

use super::ended::end_leases;
use super::give_back::apply_give_backs;
use super::join::{end_waits, place_of_repeated};
use super::judge::{admit, confirm, refused};
use super::line::{stands_in_line, waiting};
use super::serve::{Caller, hand_over, may_write_now, serve};
use super::state::STATE;
use super::timer;
use crate::locks::{
    Announce, CommandError, KeyspaceEvent, LockKey, LockView, Primary, now, released, rules,
    token_clock,
};
use crate::server::{Context, Text};
use crate::sessions::{self, Membership};
use crate::statistics::{Counter, count};

/// An open lock: its give-backs are applied, and holders whose lease has ended are removed.
pub(crate) struct Lock<'call>(LockKey<'call>);

impl<'call> Lock<'call> {
    /// Opens a lock for a command that may change it.
    pub(crate) fn open(primary: Primary<'call>, name: Text<'call>) -> Self {
        let context = primary.context();
        apply_give_backs(context, name, Caller::Command);
        sessions::before_command(context, name);
        let key = LockKey::open(context, name);
        if key.is_shared() {
            return Self::after_ended_leases(key);
        }
        Self(key)
    }

    #[cold]
    fn after_ended_leases(key: LockKey<'call>) -> Self {
        let (context, name) = (key.context(), key.name());
        Self(end_leases(key).unwrap_or_else(|_ended| {
            serve(context, name, Caller::Command);
            LockKey::open(context, name)
        }))
    }

    /// First grants the lock to calls in line that have room. True when some are left that must go before the caller.
    /// An exclusive lock has no room for anybody, so its line is not looked at: false.
    #[inline]
    fn after_the_line(self) -> (LockKey<'call>, bool) {
        let Self(key) = self;
        if key.is_exclusive() || !stands_in_line(key.context(), key.name()) {
            (key, false)
        } else {
            after_serving(key)
        }
    }

    /// Continues unless this queued call is in line already: then the error is its place.
    pub(crate) fn unless_in_line(
        self,
        owner: Owner<'_>,
        of: (SessionId, Holds),
    ) -> Result<Self, usize> {
        let (key, _) = self.after_the_line();
        match place_of_repeated(key.context(), key.name(), owner, of) {
            None => Ok(Self(key)),
            Some(place) => Err(place),
        }
    }

    /// Acquires the lock; `None` when there is no room or others wait for it.
    pub(crate) fn acquire<'a>(
        self,
        request: &Acquire<'a>,
        session: Option<SessionId>,
    ) -> Result<Option<Holder<'a>>, CommandError> {
        let membership = session.map_or(Membership::Stays, Membership::Joins);
        // Room that is left belongs to the calls that are still in line, so this call must not take it.
        let (key, in_line) = self.after_the_line();
        let context = key.context();
        let holders = key.holders()?;
        let granted = admit(context, holders.as_ref(), request, in_line)
            .map_err(|error| refused(&key, holders.as_ref(), request.owner, membership, error))?;
        let Some(granted) = &granted else {
            return Ok(None);
        };
        confirm(&key, membership, granted)?;
        count(match granted.before {
            None => Counter::Grants,
            Some(_) => Counter::Reentries,
        });
        commit_granted(key, granted, membership, KeyspaceEvent::Acquire);
        Ok(Some(granted.holder))
    }

    /// Releases the lock. Returns the caller as a holder; `None` if it gave back its last hold.
    pub(crate) fn release<'a>(
        self,
        request: &Release<'a>,
        session: Option<SessionId>,
    ) -> Result<Option<Holder<'a>>, CommandError> {
        let Self(key) = self;
        let context = key.context();
        let holders = key.holders_to_release(request)?;
        let now = || now(context);
        let released = redis_lock_core::release(holders.as_ref(), request, now)?;
        if request.calls_off() {
            // Before the holds are given back, so that no wait of this owner takes their place.
            end_waits(context, key.name(), request.owner.bytes());
        }
        if released.change != LockChange::Keep {
            count(Counter::Releases);
        }
        let caller = (Some(released.before.token), released.holder.as_ref());
        let membership = Membership::ReleasedBy(session);
        commit(
            key,
            caller,
            &released.change,
            membership,
            KeyspaceEvent::Release,
        );
        Ok(released.holder)
    }

    /// Renews the caller's grant.
    pub(crate) fn renew<'a>(
        self,
        request: &Renew<'a>,
        membership: Membership,
    ) -> Result<Holder<'a>, CommandError> {
        let (key, _) = self.after_the_line();
        let context = key.context();
        let holders = key.holders()?;
        let (rules, now) = (rules(), now(context));
        let mut clock = token_clock();
        let holders = holders.as_ref();
        let granted = redis_lock_core::renew(holders, request, &rules, now, &mut clock)
            .map_err(|error| refused(&key, holders, request.owner(), membership, error))?;
        confirm(&key, membership, &granted)?;
        count(Counter::Renewals);
        commit_granted(key, &granted, membership, KeyspaceEvent::Renew);
        Ok(granted.holder)
    }
}

#[cold]
fn after_serving(key: LockKey<'_>) -> (LockKey<'_>, bool) {
    let (context, name) = (key.context(), key.name());
    drop(key);
    serve(context, name, Caller::Command);
    let key = LockKey::open(context, name);
    (key, stands_in_line(context, name))
}

fn commit_granted(
    key: LockKey<'_>,
    granted: &Granted<'_>,
    membership: Membership,
    event: KeyspaceEvent,
) {
    let before = granted.before.map(|before| before.token);
    let caller = (before, Some(&granted.holder));
    commit(key, caller, &granted.change, membership, event);
}

/// Applies a change and announces it; the next calls get the room that it makes. `before` is the token of the
/// caller's grant, `after` the caller as a holder afterwards.
fn commit(
    key: LockKey<'_>,
    (before, after): (Option<Token>, Option<&Holder<'_>>),
    change: &LockChange<'_>,
    membership: Membership,
    event: KeyspaceEvent,
) {
    // Before the change is announced: a listener may free the lock.
    sessions::note_change(&key, before, after, change, membership);
    if let (LockChange::Free, Some(token)) = (change, before) {
        hand_over(key, token);
        return;
    }
    let (context, name) = (key.context(), key.name());
    // Before the change is announced too, because this answer is not about the grant that may follow.
    note_answer(context, name, before, after);
    let makes_room = event != KeyspaceEvent::Acquire && matches!(change, LockChange::Shared(_));
    if let (KeyspaceEvent::Renew, LockChange::Exclusive(holder)) = (event, change) {
        note_lease_end(context, name, holder.end);
    }
    key.write(change, Announce::Events(&[event]));
    if makes_room && waiting(context, name) > 0 {
        serve(context, name, Caller::Command);
    }
}

/// Opens a lock for a command that changes nothing and only a primary answers, after its give-backs.
pub(crate) fn view<'call>(primary: Primary<'call>, name: Text<'call>) -> LockView<'call> {
    apply_give_backs(primary.context(), name, Caller::Command);
    sessions::before_command(primary.context(), name);
    LockView::open(primary.context(), name)
}

/// Opens a lock for a command that only looks at it, on a replica too. Where the server may write, its give-backs
/// come first, and the renewals that are due.
pub(crate) fn look<'call>(context: Context<'call>, name: Text<'call>) -> LockView<'call> {
    if (STATE.is_busy() || sessions::any_grants()) && may_write_now(context) {
        // The server allows this command even if it would refuse a write.
        apply_give_backs(context, name, Caller::EventLoop);
        sessions::before_look(context, name);
    }
    LockView::open(context, name)
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

/// Notes that a call of this grant was answered, so its pending calls no longer give back the whole grant; notes a
/// raised token. Counts a holder that leaves a shared lock as released.
fn note_answer(
    context: Context<'_>,
    name: Text<'_>,
    before: Option<Token>,
    after: Option<&Holder<'_>>,
) {
    let Some(before) = before else { return };
    let Some(Holder { owner, grant, .. }) = after else {
        released(context, before);
        return;
    };
    STATE.if_busy(context, |state| {
        let holder = (context.database(), name.bytes(), *owner);
        state.calls.answered(holder, before);
        if grant.token != before {
            state.calls.raise(holder, before, grant.token);
        }
    });
}
