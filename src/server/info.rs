//! The module's section of `INFO`.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_module::raw;

use super::Context;
use super::api::{OK, api};
use super::detached::detached;
use super::guard::guard_logged;

/// Writes fields of the section. The server prefixes their names with the module's name.
pub(crate) struct InfoWriter(*mut raw::RedisModuleInfoCtx);

impl InfoWriter {
    pub(crate) fn field(&mut self, name: &CStr, number: i64) {
        // SAFETY: the server's context of the call that this writer was made for.
        unsafe { api!(RedisModule_InfoAddFieldLongLong)(self.0, name.as_ptr(), number) };
    }
}

static FIELDS: OnceLock<Fields> = OnceLock::new();

/// Writes the fields of the section. In a crash report there is no context, so it writes only the fields that need
/// none.
type Fields = fn(&mut InfoWriter, Option<Context<'_>>);

/// Registers the section.
pub(crate) fn register(context: Context<'_>, fields: Fields) {
    FIELDS.get_or_init(|| fields);
    // SAFETY: the context is live, and the callback stays for as long as the library is loaded.
    unsafe { api!(RedisModule_RegisterInfoFunc)(context.raw, Some(section)) };
}

unsafe extern "C" fn section(raw: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    guard_logged((), || {
        // SAFETY: `raw` is the server's for the length of this call.
        let added = unsafe { api!(RedisModule_InfoAddSection)(raw, c"".as_ptr()) };
        if added == OK
            && let Some(fields) = FIELDS.get()
        {
            // SAFETY: the server's main thread calls, and the context is used during this call. A crash
            // may have stopped it anywhere, so then the module's state is left alone.
            let context = (for_crash_report == 0).then(|| unsafe { detached() });
            fields(&mut InfoWriter(raw), context);
        }
    });
}
