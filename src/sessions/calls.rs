//! What the commands on locks report, and ask.

use redis_lock_core::requests::SessionMove;
use redis_lock_core::sessions::{GrantName, LossReason, SessionId, can_renew};
use redis_lock_core::sharing::{ShareChange, Step, Transition};
use redis_lock_core::{Deadline, Grant, OwnerBuf, Token};

use super::errors::{FULL, IN_SESSION, KEPT, LEASE_TOO_SHORT};
use super::state::STATE;
use super::upper::release;
use super::{timer, work};
use crate::keeping;
use crate::locks::{CommandError, LockKey, check_write};
use crate::server::{Context, Text, WriteCheck};

/// What a call says of the session of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Nothing.
    Stays,
    /// The grant belongs to this session from now on.
    Joins(SessionId),
    /// It belongs to none from now on.
    Leaves,
    /// The program of this session, if any is named, releases it.
    ReleasedBy(Option<SessionId>),
    /// The client of the blocked call is gone.
    GivenBack,
}

/// What a renewal says.
pub(crate) const fn membership(moved: Option<SessionMove>) -> Membership {
    match moved {
        None => Membership::Stays,
        Some(SessionMove::Into(id)) => Membership::Joins(id),
        Some(SessionMove::Out) => Membership::Leaves,
    }
}

/// Before a command on this lock that the server allows to write: what a closed session left is released, and what
/// is due is renewed.
#[inline]
pub(crate) fn before_command(context: Context<'_>, name: Text<'_>) {
    if STATE.any_grants() {
        settle(context, name);
    }
}

/// As [`before_command`], before a command that only looks: where the server would allow one that writes.
#[inline]
pub(crate) fn before_look(context: Context<'_>, name: Text<'_>) {
    if STATE.any_grants()
        && has_due(context, name)
        && check_write(context, name) == WriteCheck::Allowed
    {
        settle(context, name);
    }
}

/// True when [`before_look`] may have something to do.
#[inline]
pub(crate) fn any_grants() -> bool {
    STATE.any_grants()
}

fn has_due(context: Context<'_>, name: Text<'_>) -> bool {
    STATE.with_time(context, |state, now| {
        let database = context.database();
        state.sessions.has_due_of_lock(database, name.bytes(), now)
    })
}

#[inline(never)]
fn settle(context: Context<'_>, name: Text<'_>) {
    if context.flags().replica() || context.writes_paused() {
        return;
    }
    let database = context.database();
    while let Some(grant) = STATE.with(context, |state| {
        let sessions = &mut state.sessions;
        sessions.take_to_release_of(database, name.bytes())
    }) {
        release(context, &grant);
    }
    while let Some(grant) = STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        sessions.next_due_of_lock(database, name.bytes(), now)
    }) {
        work::renew_attached(context, &grant);
    }
}

/// Checks the grant that a call is about to get, before anything changes: the last checks of all.
#[inline]
pub(crate) fn check(
    context: Context<'_>,
    name: Text<'_>,
    membership: Membership,
    keeps: bool,
    grant: Grant,
) -> Result<(), CommandError> {
    if !STATE.any_grants() && !matches!(membership, Membership::Joins(_)) {
        return Ok(());
    }
    let current = of_grant(context, name, grant.token);
    if let Membership::Joins(id) = membership
        && current != Some(id)
        && is_full(context, id)
    {
        return Err(FULL);
    }
    check_current(context, name, membership, keeps, grant, current)
}

/// As [`check`], for a call that waited: it is granted however many events the session has.
#[inline]
pub(crate) fn check_lease(
    context: Context<'_>,
    name: Text<'_>,
    membership: Membership,
    keeps: bool,
    grant: Grant,
) -> Result<(), CommandError> {
    if !STATE.any_grants() && !matches!(membership, Membership::Joins(_)) {
        return Ok(());
    }
    let current = of_grant(context, name, grant.token);
    check_current(context, name, membership, keeps, grant, current)
}

fn check_current(
    context: Context<'_>,
    name: Text<'_>,
    membership: Membership,
    keeps: bool,
    grant: Grant,
    current: Option<SessionId>,
) -> Result<(), CommandError> {
    let (joins, belongs) = match membership {
        Membership::Joins(_) => (true, true),
        Membership::Leaves => (false, false),
        _ => (false, current.is_some()),
    };
    if belongs && !can_renew(grant.lease) {
        Err(LEASE_TOO_SHORT)
    } else if joins && keeping::is_kept(context, name, grant.token) {
        Err(KEPT)
    } else if keeps && belongs {
        Err(IN_SESSION)
    } else {
        Ok(())
    }
}

/// True when a session has so many events that it takes no new grant and no new wait.
pub(crate) fn is_full(context: Context<'_>, id: SessionId) -> bool {
    STATE.with(context, |state| state.sessions.is_full(id))
}

/// The session of a grant.
pub(crate) fn of_grant(context: Context<'_>, name: Text<'_>, token: Token) -> Option<SessionId> {
    if !STATE.any_grants() {
        return None;
    }
    STATE.with(context, |state| {
        state.sessions.session_of(GrantName {
            database: context.database(),
            key: name.bytes(),
            token,
        })
    })
}

/// Reports a change that is about to be made in a lock; `before` is the token of the caller's grant. To be called
/// before the change is announced: a listener may free the lock.
#[inline]
pub(crate) fn note_change(
    key: &LockKey<'_>,
    before: Option<Token>,
    transition: &Transition<'_>,
    membership: Membership,
) {
    if STATE.any_grants() || matches!(membership, Membership::Joins(_)) {
        note(key, before, transition, membership);
    }
}

#[inline(never)]
fn note(
    key: &LockKey<'_>,
    before: Option<Token>,
    transition: &Transition<'_>,
    membership: Membership,
) {
    let context = key.context();
    let Some(change) = Change::of(key, before, transition, membership) else {
        return;
    };
    let (database, key) = (context.database(), key.name().bytes());
    let named = |token| GrantName {
        database,
        key,
        token,
    };
    STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        if let Transition::Share(ShareChange { cut: Some(at), .. }) = transition {
            sessions.cap_ends(database, key, *at);
        }
        let Change::Stands(grant, deadline, owner) = change else {
            let Some(token) = before else { return };
            match membership {
                Membership::GivenBack => sessions.given_back(named(token)),
                Membership::ReleasedBy(by) => sessions.released(named(token), by, now),
                _ => sessions.released(named(token), None, now),
            }
            return;
        };
        if let Some(token) = before.filter(|token| *token != grant.token) {
            sessions.raised(named(token), grant.token);
        }
        let name = named(grant.token);
        match (membership, owner) {
            (Membership::Joins(id), Some(owner)) => {
                sessions.join(id, name, &owner, grant.lease, deadline, now);
            }
            (Membership::Leaves, _) => sessions.take_out(name),
            _ => sessions.changed(name, grant.lease, deadline, now),
        }
    });
    timer::arm(context);
}

/// What a call does to its grant.
enum Change {
    /// The grant stands so afterwards; the owner is needed where it joins a session.
    Stands(Grant, Deadline, Option<OwnerBuf>),
    /// It has gone.
    Gone,
}

impl Change {
    /// `None` where nothing changes.
    fn of(
        key: &LockKey<'_>,
        before: Option<Token>,
        transition: &Transition<'_>,
        membership: Membership,
    ) -> Option<Self> {
        let joins = matches!(membership, Membership::Joins(_));
        let owned = |owner| joins.then(|| OwnerBuf::from(owner));
        match transition {
            Transition::Keep if joins || membership == Membership::Leaves => {
                let holders = key.holders().ok().flatten()?;
                let share = holders.with(before?)?;
                let deadline = holders.end_of(&share);
                Some(Self::Stands(share.grant, deadline, owned(share.owner)))
            }
            Transition::Keep => None,
            Transition::Alone(held) => {
                Some(Self::Stands(held.grant, held.deadline, owned(held.owner)))
            }
            Transition::Share(ShareChange {
                step: Step::Only(share) | Step::Put(share),
                ..
            }) => Some(Self::Stands(
                share.grant,
                Deadline::At(share.end),
                owned(share.owner),
            )),
            Transition::Share(_) | Transition::Free => Some(Self::Gone),
        }
    }
}

/// The leases of these grants have ended: before they are granted to anybody else.
pub(crate) fn leases_ended(
    context: Context<'_>,
    name: Text<'_>,
    tokens: impl Iterator<Item = Token>,
) {
    if !STATE.any_grants() {
        return;
    }
    let (database, key) = (context.database(), name.bytes());
    STATE.with_time(context, |state, now| {
        for token in tokens {
            let name = GrantName {
                database,
                key,
                token,
            };
            state.sessions.lost(name, LossReason::Expired, now);
        }
    });
    timer::arm(context);
}
