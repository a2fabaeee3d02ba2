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

use crate::server::{self, Context};

pub(crate) use clock::{last_token, monotonic, now, observe_token, with_token_clock};
pub(crate) use effect::{APPLY, CLOCK, PROBE, check_write};
pub(crate) use error::{CommandError, Primary, answer, answer_owner, reply_grant};
pub(crate) use grant_end::released;
pub(crate) use lock_key::{KeyspaceEvent, LockKey, LockView, WrongType, apply};
pub(crate) use random_owner::random_owner;
pub(crate) use redis_lock::{OnLoss, RedisLock};
pub(crate) use settings::{max_lease, max_waiters, max_waiters_total, rules};

/// Registers the data type, the settings and what keeps the token clock; starts to follow
/// who reads the replication stream, and warns where locks may be evicted.
/// `lost` is told of each key that has lost its lock.
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
