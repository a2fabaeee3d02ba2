//! Timers of the server's event loop.

use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use redis_module::raw;

use super::Context;
use super::api::api;
use super::guard::guard_logged;

/// An armed timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer(raw::RedisModuleTimerID);

/// Calls `job` from the event loop after `delay` by the wall clock, with database 0 selected.
///
/// A job must not arm the next timer if it is called early by the monotonic clock. Otherwise the server may hang: it
/// reads the wall clock once, and then calls every timer that is due by that time. If the clock is set back meanwhile,
/// each new timer is due at once, and the server does nothing else for as long as the step was.
pub(crate) fn call_later(context: Context<'_>, delay: Duration, job: fn(Context<'_>)) -> Timer {
    // Round up to whole milliseconds.
    let delay = i64::try_from(delay.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
    // SAFETY: the context is live, and the data is the plain function that `fire` reads back.
    Timer(unsafe {
        api!(RedisModule_CreateTimer)(context.raw, delay, Some(fire), job as *mut c_void)
    })
}

impl Timer {
    /// Stops the timer. Must not be called for a timer that has fired, because the server has freed it.
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
