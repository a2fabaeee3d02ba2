//! A context for callbacks that get no context from the server.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::Context;
use super::api::api;

static DETACHED: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

/// Creates the context while the module is being loaded.
pub(super) fn make(context: Context<'_>) {
    // SAFETY: the context is live; the new one lasts as long as the module.
    let made = unsafe { api!(RedisModule_GetDetachedThreadSafeContext)(context.raw) };
    DETACHED.store(made, Ordering::Relaxed);
}

/// The context.
///
/// # Safety
///
/// The caller is a callback of the server and uses the context only during that callback, so that it holds the server's
/// global lock.
pub(super) unsafe fn detached() -> Context<'static> {
    // SAFETY: made when the module was loaded; the lock is held by the caller's promise.
    unsafe { Context::new(DETACHED.load(Ordering::Relaxed)) }
}
