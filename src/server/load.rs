//! Loading the module.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::Context;
use super::api::{OK, REFUSED, api};
use super::context::warn;
use super::guard::{guard, guard_logged};
use super::optional::Optional;
use super::{detached, events, other_modules};

/// Registers the module and runs `body`. Returns the code for the server.
///
/// # Safety
///
/// Called from the module's entry point with the arguments of the server.
pub(crate) unsafe fn load(
    raw: *mut raw::RedisModuleCtx,
    argc: c_int,
    name: &'static CStr,
    version: c_int,
    body: impl FnOnce(Context<'_>, bool) -> Result<(), &'static str>,
) -> c_int {
    let refused = REFUSED;
    let api_version = raw::REDISMODULE_APIVER_1.cast_signed();
    // SAFETY: the server's context; nothing was allocated before this call fills in the API.
    unsafe {
        if raw::Export_RedisModule_Init(raw, name.as_ptr(), version, api_version) == refused {
            return refused;
        }
    }
    let body = || {
        // SAFETY: the server's context, used during this call.
        let context = unsafe { Context::new(raw) };
        other_modules::watch(context);
        // Subscribe last, because Redis 7.0 would keep the subscriptions of a module that fails to load.
        match body(context, argc > 0).and_then(|()| events::begin(context)) {
            Ok(()) => {
                detached::make(context);
                OK
            }
            Err(reason) => {
                warn(&format!("the module is not loaded: {reason}"));
                refused
            }
        }
    };
    let code = guard(refused, body, |text| {
        warn(&format!(
            "the module is not loaded: a fault inside it was caught: {text}"
        ));
    });
    if code == refused {
        guard_logged((), events::forget);
    }
    code
}

/// Sets the module's options:
///
/// * A bad stored value is refused instead of stopping the server.
/// * Only [`Context::signal_modified`] signals a key as modified.
/// * A replica may load its primary's data while it still has its own (`repl-diskless-load swapdb`).
/// * Valkey may migrate slots atomically.
pub(crate) fn set_module_options(context: Context<'_>) {
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
    let options = options.cast_signed() | atomic_slot_migration();
    // SAFETY: the context is live.
    unsafe { api!(RedisModule_SetModuleOptions)(context.raw, options) };
}

/// The option to allow `CLUSTER MIGRATESLOTS` (Valkey from 9.0 on). The bit may have another meaning on other servers,
/// so it is set only on a server that has a function of Valkey.
fn atomic_slot_migration() -> c_int {
    const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    // SAFETY: the type is that of the function, which takes no argument.
    static OPTIONS_OF_VALKEY: Optional<unsafe extern "C" fn() -> c_int> =
        unsafe { Optional::new(c"ValkeyModule_GetModuleOptionsAll") };
    // SAFETY: the server's function, which takes no argument.
    OPTIONS_OF_VALKEY
        .get()
        .map_or(0, |all| unsafe { all() } & HANDLE_ATOMIC_SLOT_MIGRATION)
}

/// Defines the entry point of the library.
macro_rules! export_load {
    ($name:expr, $version:expr, $body:path) => {
        /// Called by the server when it loads the library.
        ///
        /// # Safety
        ///
        /// For the server only.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn RedisModule_OnLoad(
            context: *mut redis_module::raw::RedisModuleCtx,
            _argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            // SAFETY: the server's own arguments, handed on.
            unsafe { $crate::server::load(context, argc, $name, $version, $body) }
        }
    };
}
pub(crate) use export_load;
