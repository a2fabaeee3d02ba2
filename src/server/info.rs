//! The module's section of `INFO`.

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use redis_module::raw;

use super::guard::guard_logged;
use super::{OK, api};

/// Takes the fields of the section; the server puts the module's name before each.
pub(crate) struct InfoWriter(*mut raw::RedisModuleInfoCtx);

impl InfoWriter {
    pub(crate) fn field(&mut self, name: &CStr, number: i64) {
        // SAFETY: the server's context of the call that this writer was made for.
        unsafe { api!(RedisModule_InfoAddFieldLongLong)(self.0, name.as_ptr(), number) };
    }
}

static FIELDS: OnceLock<fn(&mut InfoWriter)> = OnceLock::new();

/// Registers the section. `fields` is also called while a crash report is written.
pub(crate) fn register(context: super::Context<'_>, fields: fn(&mut InfoWriter)) {
    FIELDS.get_or_init(|| fields);
    // SAFETY: the context is live, and the callback stays for as long as the library is loaded.
    unsafe { api!(RedisModule_RegisterInfoFunc)(context.raw, Some(section)) };
}

unsafe extern "C" fn section(raw: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guard_logged((), || {
        // SAFETY: `raw` is the server's for the length of this call.
        let added = unsafe { api!(RedisModule_InfoAddSection)(raw, c"".as_ptr()) };
        if added == OK
            && let Some(fields) = FIELDS.get()
        {
            fields(&mut InfoWriter(raw));
        }
    });
}
