//! Checks and renews a session's grant in the keyspace.

use redis_lock_core::sessions::SessionGrant;
use redis_lock_core::{Deadline, LockChange, LockId, Renew, SharedChange};

use super::state::STATE;
use super::timer;
use super::upper::renewed;
use crate::locks::{Announce, LockKey, LockView, now, rules, token_clock};
use crate::server::{Context, OwnedText};

/// The result of a renewal.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The grant has this new deadline.
    Renewed(Deadline),
    /// The grant was not renewed and has this deadline. Either its lease has no end, or a `PERSIST` has just been
    /// lifted, and a third of the lease must pass before the next renewal.
    Kept(Deadline),
    /// The grant no longer exists.
    Lost,
}

/// When the lease of a grant ends; `None` if the grant no longer exists.
pub(super) fn deadline(context: Context<'_>, grant: &SessionGrant) -> Option<Deadline> {
    let LockId { database, key } = &grant.lock_id;
    if !context.select_database(*database) {
        return None;
    }
    let name = OwnedText::new(key);
    let view = LockView::open(context, name.text());
    let now = now(context);
    let holders = view.holders(now).ok()??;
    let end = holders.find_token(grant.token)?.end;
    (!end.has_passed(now)).then_some(end)
}

/// Renews a grant. The server must allow a write of its key.
pub(super) fn renew(context: Context<'_>, grant: &SessionGrant) -> Outcome {
    if !context.select_database(grant.lock_id.database) {
        return Outcome::Lost;
    }
    let name = OwnedText::new(&grant.lock_id.key);
    let key = LockKey::open(context, name.text());
    let now = now(context);
    let Ok(Some(holders)) = key.holders() else {
        return Outcome::Lost;
    };
    let Some(holder) = holders.find_token(grant.token) else {
        return Outcome::Lost;
    };
    if holder.end == Deadline::Never || grant.deadline == Deadline::Never {
        return Outcome::Kept(holder.end);
    }
    if holder.end.has_passed(now) {
        return Outcome::Lost;
    }
    let request = Renew::new(grant.owner.as_owner(), None, None, Some(grant.token));
    let (rules, mut clock) = (rules(), token_clock());
    let outcome = redis_lock_core::renew(Some(&holders), &request, &rules, now, &mut clock);
    let Ok(granted) = outcome else {
        return Outcome::Lost;
    };
    track_cap(&key, &granted.change);
    if let Some(before) = holders.uncapped(grant.token) {
        renewed(context, grant, (before.end, granted.holder.end));
    }
    key.write(&granted.change, Announce::Quietly);
    Outcome::Renewed(granted.holder.end)
}

/// Caps the deadlines that the sessions have recorded, if the change caps the leases of a shared lock. That happens in
/// the first change after an administrator's `PEXPIRE`.
pub(crate) fn track_cap(key: &LockKey<'_>, change: &LockChange<'_>) {
    let LockChange::Shared(SharedChange { cap: Some(at), .. }) = *change else {
        return;
    };
    if STATE.any_grants() {
        let context = key.context();
        let (database, key) = (context.database(), key.name().bytes());
        STATE.with(context, |state| state.sessions.cap_ends(database, key, at));
        timer::arm(context);
    }
}
