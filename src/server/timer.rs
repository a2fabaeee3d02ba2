//! Timers of the server's event loop.

use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use redis_module::raw;

use super::Context;
use super::api::api;
use super::guard::guard_logged;

/// A timer that is armed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(raw::RedisModuleTimerID);

/// Calls `job` from the event loop, `delay` from now by the wall clock, with database 0 selected.
///
/// A job that arms a timer again and again must not do so when it is called early by the monotonic clock. The
/// server calls every timer that is due by the wall clock as it was when it began with them. When that clock is set
/// back meanwhile, a new timer is due at once, for as long as the step was, and the server does nothing else.
pub(crate) fn call_later(context: Context<'_>, delay: Duration, job: fn(Context<'_>)) -> Timer {
    // Whole milliseconds, rounded up.
    let delay = i64::try_from(delay.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
    // SAFETY: the context is live, and the data is the plain function that `fire` reads back.
    Timer(unsafe {
        api!(RedisModule_CreateTimer)(context.raw, delay, Some(fire), job as *mut c_void)
    })
}

impl Timer {
    /// Stops the timer. Not for a timer that has fired: it is freed already.
    pub(crate) fn stop(self, context: Context<'_>) {
        // SAFETY: the context is live; the server refuses a timer that it does not have.
        unsafe { api!(RedisModule_StopTimer)(context.raw, self.0, ptr::null_mut()) };
    }
}

unsafe extern "C" fn fire(raw: *mut raw::RedisModuleCtx, job: *mut c_void) {
    guard_logged((), || {
        // SAFETY: `job` is the function that `call_later` was given, and `raw` is the server's
        // during this call.
        unsafe {
            let job = std::mem::transmute::<*mut c_void, fn(Context<'_>)>(job);
            job(Context::with_flags(raw));
        }
    });
}
