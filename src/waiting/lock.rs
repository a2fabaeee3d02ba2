//! The only way for a command to change a lock: open the lock, judge the call, commit the outcome.

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

/// An open lock, after its give-backs and the removal of holders whose lease has ended.
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

    /// Serves the calls in line that have room, because they come before this call. Returns true if the caller must
    /// wait behind calls that are still in line.
    ///
    /// Skips an exclusive lock and returns false, because such a lock has no room for anybody.
    #[inline]
    fn after_the_line(self) -> (LockKey<'call>, bool) {
        let Self(key) = self;
        if key.is_exclusive() || !stands_in_line(key.context(), key.name()) {
            (key, false)
        } else {
            after_serving(key)
        }
    }

    /// Returns the lock, or the place of this queued call as an error if the call is already in line.
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

    /// Acquires the lock. Returns `None` if the lock has no room, or if the caller must wait behind other calls.
    pub(crate) fn acquire<'a>(
        self,
        request: &Acquire<'a>,
        session: Option<SessionId>,
    ) -> Result<Option<Holder<'a>>, CommandError> {
        let membership = session.map_or(Membership::Stays, Membership::Joins);
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

    /// Releases holds of the caller. Returns the holder that is left, or `None` after its last hold.
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
        if request.cancels_waits() {
            // Cancel the owner's waits before the release, so that the lock is not handed to one of them.
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

/// Applies and announces a change, then serves the waiters if the change makes room. `before` is the token of the
/// caller's grant before the change; `after` is the caller as a holder after it.
fn commit(
    key: LockKey<'_>,
    (before, after): (Option<Token>, Option<&Holder<'_>>),
    change: &LockChange<'_>,
    membership: Membership,
    event: KeyspaceEvent,
) {
    // Update the session before the announcement, because a listener may free the lock.
    sessions::track_change(&key, before, after, change, membership);
    if let (LockChange::Free, Some(token)) = (change, before) {
        hand_over(key, token);
        return;
    }
    let (context, name) = (key.context(), key.name());
    // Before the announcement too, because a listener may start another grant, which this call does not answer.
    record_answer(context, name, before, after);
    let makes_room = event != KeyspaceEvent::Acquire && matches!(change, LockChange::Shared(_));
    if let (KeyspaceEvent::Renew, LockChange::Exclusive(holder)) = (event, change) {
        track_lease_end(context, name, holder.end);
    }
    key.write(change, Announce::Events(&[event]));
    if makes_room && waiting(context, name) > 0 {
        serve(context, name, Caller::Command);
    }
}

/// Opens a lock for a command that changes nothing but runs only on a primary. Applies the give-backs of the lock
/// first.
pub(crate) fn view<'call>(primary: Primary<'call>, name: Text<'call>) -> LockView<'call> {
    apply_give_backs(primary.context(), name, Caller::Command);
    sessions::before_command(primary.context(), name);
    LockView::open(primary.context(), name)
}

/// Opens a lock for a read-only command, which may run on a replica. If the server may write, applies the give-backs of
/// the lock and due renewals first.
pub(crate) fn open_for_read<'call>(context: Context<'call>, name: Text<'call>) -> LockView<'call> {
    if (STATE.is_busy() || sessions::any_grants()) && may_write_now(context) {
        // Not `Caller::Command`: the server allows a read even when it would refuse a write.
        apply_give_backs(context, name, Caller::EventLoop);
        sessions::before_read(context, name);
    }
    LockView::open(context, name)
}

/// Arms an earlier tick if a renewal has shortened the lease, because the waiters may then be served earlier than
/// planned.
fn track_lease_end(context: Context<'_>, name: Text<'_>, end: Deadline) {
    let is_sooner = STATE.if_busy(context, |state| {
        let calls = &mut state.calls;
        calls.cut_lease_end(context.database(), name.bytes(), end)
    });
    if let (true, Deadline::At(end)) = (is_sooner, end) {
        timer::at_end(context, end);
    }
}

/// Records what an answered call means for the pending calls of the same grant: they no longer give back the whole
/// grant, and they follow a raised token. Counts a holder that leaves a shared lock as released.
fn record_answer(
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
