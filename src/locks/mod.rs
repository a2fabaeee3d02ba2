//! Locks in a server's keyspace.

mod clock;
mod effect;
mod error;
mod eviction_warning;
mod grant_end;
mod lock_key;
mod random_owner;
mod redis_lock;
mod settings;
mod slice;

use crate::server::{self, Context};

pub(crate) use clock::{last_token, monotonic, now, observe_token, token_clock};
pub(crate) use effect::{APPLY, CLOCK, PROBE, check_write};
pub(crate) use error::{CommandError, Primary, answer, answer_owner, reply_grant};
pub(crate) use grant_end::{lease_ended, released};
pub(crate) use lock_key::{
    Announce, KeyspaceEvent, LockKey, LockView, WrongType, apply, apply_release, remove,
};
pub(crate) use random_owner::{random_number, random_owner};
pub(crate) use redis_lock::{OnLoss, RedisLock};
pub(crate) use settings::{
    detects_deadlocks, max_holders, max_lease, max_queued, max_sessions, max_waiters,
    max_waiters_total, rules,
};
pub(crate) use slice::{SLICE, Slice};

/// Registers the data type and the settings, and subscribes to the events of the layer. `lost` is called for each lock
/// that is lost without a release.
pub(crate) fn load(context: Context<'_>, lost: OnLoss) -> Result<(), &'static str> {
    effect::load(context)?;
    redis_lock::on_loss(lost);
    if !server::register_type::<RedisLock>(context) {
        return Err("the server refused the data type RedisLock");
    }
    settings::load(context)?;
    random_owner::load(context)?;
    clock::load(context);
    grant_end::load(context);
    eviction_warning::load(context);
    server::watch_stream(context);
    Ok(())
}
