//! Work that has to wait until the server is back in its event loop.

use std::ffi::c_void;
use std::time::Duration;

use redis_module::raw;

use super::guard::guard_logged;
use super::{Context, api};

/// Calls `job` from the event loop, `delay` from now, with database 0 selected.
pub(crate) fn call_later(context: Context<'_>, delay: Duration, job: fn(Context<'_>)) {
    let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    // SAFETY: the context is live, and the data is the plain function that `fire` reads back.
    unsafe { api!(RedisModule_CreateTimer)(context.raw, delay, Some(fire), job as *mut c_void) };
}

unsafe extern "C" fn fire(raw: *mut raw::RedisModuleCtx, job: *mut c_void) {
    guard_logged((), || {
        // SAFETY: `job` is the function that `call_later` was given, and `raw` is the server's
        // for the length of this call.
        unsafe {
            let job = std::mem::transmute::<*mut c_void, fn(Context<'_>)>(job);
            job(Context::new(raw));
        }
    });
}
