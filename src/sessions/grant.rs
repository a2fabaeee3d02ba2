//! A grant of a session in the keyspace: looked at, and renewed.

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
    /// It has this deadline now.
    Renewed(Deadline),
    /// Not renewed, because its lease has no end, or has one again only since a `PERSIST` was undone: a third of it
    /// must pass before the first renewal. This is its deadline now.
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

/// Renews a grant. The server must allow writes of this key.
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
    note_cap(&key, &granted.change);
    if let Some(before) = holders.uncapped(grant.token) {
        renewed(context, grant, (before.end, granted.holder.end));
    }
    key.write(&granted.change, Announce::Quietly);
    Outcome::Renewed(granted.holder.end)
}

/// A `PEXPIRE` by hand cuts every lease of a shared lock, and the next change writes that into the holders. If this is
/// that change, the deadlines that the sessions know are cut too.
pub(crate) fn note_cap(key: &LockKey<'_>, change: &LockChange<'_>) {
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
