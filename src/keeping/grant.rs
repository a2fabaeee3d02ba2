//! A kept grant in the keyspace: looked at, and renewed.

use redis_lock_core::keeping::KeptGrant;
use redis_lock_core::{Deadline, Lease, LockId, OwnerBuf, Renew};

use crate::locks::{Announce, LockKey, LockView, now, rules, token_clock};
use crate::server::{Context, OwnedText};
use crate::statistics::{Counter, count};

/// What became of a grant that was to be renewed.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// It has this lease and deadline now.
    Renewed(Lease, Deadline),
    /// It has no end, and is left so.
    Persisted,
    /// It does not stand any more.
    Lost,
}

/// When the lease of a grant ends that stands.
pub(super) fn deadline(context: Context<'_>, kept: &KeptGrant) -> Option<Deadline> {
    let LockId { database, key } = &kept.lock_id;
    if !context.select_database(*database) {
        return None;
    }
    let name = OwnedText::new(key);
    let view = LockView::open(context, name.text());
    let now = now(context);
    let holders = view.holders(now).ok()??;
    let end = holders.with(kept.token)?.end;
    (!end.has_passed(now)).then_some(end)
}

/// Renews a grant. The server must allow writes of this key.
pub(super) fn renew(context: Context<'_>, kept: &KeptGrant) -> Outcome {
    if !context.select_database(kept.lock_id.database) {
        return Outcome::Lost;
    }
    let name = OwnedText::new(&kept.lock_id.key);
    let key = LockKey::open(context, name.text());
    let now = now(context);
    let Ok(Some(holders)) = key.holders() else {
        return Outcome::Lost;
    };
    let Some(holder) = holders.with(kept.token) else {
        return Outcome::Lost;
    };
    if holder.end == Deadline::Never {
        return Outcome::Persisted;
    }
    if holder.end.has_passed(now) {
        return Outcome::Lost;
    }
    let owner = OwnerBuf::from(holder.owner);
    let request = Renew::new(owner.as_owner(), None, None, Some(kept.token));
    let (rules, mut clock) = (rules(), token_clock());
    let renewed = redis_lock_core::renew(Some(&holders), &request, &rules, now, &mut clock);
    let Ok(granted) = renewed else {
        return Outcome::Lost;
    };
    key.write(&granted.change, Announce::Quietly);
    count(Counter::KeptRenewals);
    Outcome::Renewed(granted.holder.grant.lease, granted.holder.end)
}
