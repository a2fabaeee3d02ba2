//! Server events.

use std::ffi::c_void;
use std::sync::OnceLock;

use redis_module::raw;

use super::guard::guard_logged;
use super::{Context, api};

const FORK_CHILD: raw::RedisModuleEvent = raw::RedisModuleEvent {
    id: raw::REDISMODULE_EVENT_FORK_CHILD,
    dataver: 1,
};

static FORKED: OnceLock<fn(Context<'_>)> = OnceLock::new();

/// Calls `job` in the parent each time the server has forked a child to save, rewrite or load.
///
/// Nothing may be written from there: the job makes a note, or arms a timer.
pub(crate) fn on_fork(context: Context<'_>, job: fn(Context<'_>)) {
    FORKED.get_or_init(|| job);
    // SAFETY: the context is live, and the callback stays for as long as the library is loaded.
    unsafe {
        api!(RedisModule_SubscribeToServerEvent)(
            context.raw,
            FORK_CHILD,
            Some(forked),
        );
    }
}

unsafe extern "C" fn forked(
    raw: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    what: u64,
    _data: *mut c_void,
) {
    guard_logged((), || {
        if what == raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN
            && let Some(job) = FORKED.get()
        {
            // SAFETY: `raw` is the server's for the length of this call.
            job(unsafe { Context::new(raw) });
        }
    });
}
