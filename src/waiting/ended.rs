//! Removes holders whose lease has ended from a shared lock.

use redis_lock_core::{LockChange, LockId};

use crate::locks::{Announce, KeyspaceEvent, LockKey, lease_ended, now};
use crate::server::{Context, Text};
use crate::sessions;

/// Holders were removed, which closed the key.
pub(super) struct Ended;

/// Removes the holders whose lease has ended, then opens the key of the lock.
pub(super) fn open_without_ended<'call>(
    context: Context<'call>,
    name: Text<'call>,
) -> LockKey<'call> {
    let key = LockKey::open(context, name);
    if !key.is_shared() {
        return key;
    }
    end_leases(key).unwrap_or_else(|_ended| LockKey::open(context, name))
}

/// Removes the holders whose lease has ended. If there are none, returns the open key.
pub(super) fn end_leases(key: LockKey<'_>) -> Result<LockKey<'_>, Ended> {
    let context = key.context();
    let now = now(context);
    let Ok(Some(holders)) = key.holders() else {
        return Ok(key);
    };
    let change = holders.expire(now);
    if change == LockChange::Keep {
        return Ok(key);
    }
    let lock_id = LockId::new(context.database(), key.name().bytes());
    for holder in holders.ended(now) {
        lease_ended(context, &lock_id, &holder);
    }
    let ended = holders.ended(now).map(|holder| holder.grant.token);
    sessions::track_cap(&key, &change);
    sessions::leases_ended(context, key.name(), ended);
    key.write(&change, Announce::Events(&[KeyspaceEvent::Expire]));
    Err(Ended)
}
