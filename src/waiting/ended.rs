//! The leases of shares that have ended, while their lock lives on.

use redis_lock_core::LockId;
use redis_lock_core::sharing::Transition;

use crate::keeping;
use crate::locks::{KeyspaceEvent, LockKey, now, share_ended};
use crate::sessions;

/// The leases of some shares had ended; they are taken out, and the key is closed.
pub(super) struct Ended;

/// Takes out the shares whose lease has ended. Returns the key, still open, where there are none.
pub(super) fn end_leases(key: LockKey<'_>) -> Result<LockKey<'_>, Ended> {
    let context = key.context();
    let now = now(context);
    let Ok(Some(holders)) = key.holders() else {
        return Ok(key);
    };
    let transition = holders.expire(now);
    if matches!(transition, Transition::Keep) {
        return Ok(key);
    }
    let lock_id = LockId::new(context.database(), key.name().bytes());
    for share in holders.ended(now) {
        share_ended(context, &lock_id, &share);
    }
    let ended = holders.ended(now).map(|share| share.grant.token);
    sessions::leases_ended(context, key.name(), ended);
    keeping::leases_ended(
        context,
        key.name(),
        holders.ended(now).map(|share| share.grant.token),
    );
    key.change(&transition, KeyspaceEvent::Expire);
    Err(Ended)
}
