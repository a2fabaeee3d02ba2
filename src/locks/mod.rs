//! Locks in a server's keyspace.

mod clock;
mod effect;
mod ending;
mod eviction;
mod fault;
mod lock_key;
mod owner_names;
mod redis_lock;
mod settings;

use crate::server::{self, Context};

pub(crate) use clock::{last_token, monotonic, now, observe_token, with_token_clock};
pub(crate) use effect::{APPLY, CLOCK, PROBE, check_write};
pub(crate) use ending::given_back;
pub(crate) use fault::{Fault, answer, answer_owner, refuse_on_replica, reply_grant};
pub(crate) use lock_key::{Event, LockKey, WrongType};
pub(crate) use owner_names::{RandomOwner, random_owner};
pub(crate) use redis_lock::{RedisLock, TellLoss};
pub(crate) use settings::{longest_lease, most_waiters, most_waiters_in_all, rules};

/// Registers the data type, the settings and what keeps the token clock; starts to follow
/// who reads the replication stream, and warns where locks may be evicted.
/// `lost` is told of each key that has lost its lock.
pub(crate) fn load(context: Context<'_>, lost: TellLoss) -> Result<(), &'static str> {
    effect::load(context)?;
    redis_lock::tell_losses(lost);
    if !server::register_type::<RedisLock>(context) {
        return Err("the server refused the data type RedisLock");
    }
    settings::load(context)?;
    owner_names::load(context)?;
    clock::load(context);
    ending::load(context);
    eviction::load(context);
    server::watch_stream(context);
    Ok(())
}
