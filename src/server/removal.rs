//! The reason why the server removes a key, on servers that report it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use redis_module::raw;

use super::Context;
use super::api::api;
use super::guard::guard_logged;

/// Why a key is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// A command deleted, overwrote, renamed or moved the key.
    Command,
    /// The key expired.
    Expiry,
    /// The server evicted the key.
    Eviction,
}

const EVENT: raw::RedisModuleEvent = raw::RedisModuleEvent {
    id: raw::REDISMODULE_EVENT_KEY,
    dataver: 1,
};

/// The value of [`LAST`] before the first report.
const NONE: u64 = u64::MAX;

/// The last removal that the server has reported.
static LAST: AtomicU64 = AtomicU64::new(NONE);

/// Starts or stops following removals of keys. Each report costs the server a little. Redis 7.0 reports none.
pub(crate) fn follow_removals(context: Context<'_>, on: bool) {
    let callback: raw::RedisModuleEventCallback = if on { Some(removed) } else { None };
    // SAFETY: the context is live, and the callback stays for as long as the library is loaded.
    unsafe { api!(RedisModule_SubscribeToServerEvent)(context.raw, EVENT, callback) };
    LAST.store(NONE, Ordering::Relaxed);
}

/// The reason of the last removal; `None` if the server does not report reasons. The server reports the reason just
/// before it reports that the value is lost.
pub(crate) fn last_removal() -> Option<Removal> {
    match LAST.load(Ordering::Relaxed) {
        NONE => None,
        raw::REDISMODULE_SUBEVENT_KEY_EXPIRED => Some(Removal::Expiry),
        raw::REDISMODULE_SUBEVENT_KEY_EVICTED => Some(Removal::Eviction),
        _ => Some(Removal::Command),
    }
}

unsafe extern "C" fn removed(
    _raw: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    subevent: u64,
    _key: *mut c_void,
) {
    guard_logged((), || LAST.store(subevent, Ordering::Relaxed));
}
