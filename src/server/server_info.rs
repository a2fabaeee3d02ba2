//! A section of the server's `INFO`.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::Context;
use super::api::{OK, api};

/// The fields of a section at one time.
pub(super) struct ServerInfo<'call> {
    raw: *mut raw::RedisModuleServerInfoData,
    context: Context<'call>,
}

impl<'call> ServerInfo<'call> {
    /// Reads a section; `None` if the server does not have it.
    pub(super) fn of(context: Context<'call>, section: &CStr) -> Option<Self> {
        // SAFETY: the context is live, and the name is a C string.
        let raw = unsafe { api!(RedisModule_GetServerInfo)(context.raw, section.as_ptr()) };
        (!raw.is_null()).then(|| Self { raw, context })
    }

    /// A number; `None` if the section has no such field or the field is not a number.
    pub(super) fn number(&self, field: &CStr) -> Option<u64> {
        let mut error: c_int = 0;
        // SAFETY: the answer is not freed yet, and the name is a C string.
        let number = unsafe {
            let read = api!(RedisModule_ServerInfoGetFieldUnsigned);
            read(self.raw, field.as_ptr(), &raw mut error)
        };
        (error == OK).then_some(number)
    }

    /// A text; `None` if the section has no such field.
    pub(super) fn text(&self, field: &CStr) -> Option<String> {
        // SAFETY: as for `number`; the text lasts as long as the answer, and is copied.
        unsafe {
            let text = api!(RedisModule_ServerInfoGetFieldC)(self.raw, field.as_ptr());
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}

impl Drop for ServerInfo<'_> {
    fn drop(&mut self) {
        // SAFETY: asked for with this context, and freed once.
        unsafe { api!(RedisModule_FreeServerInfo)(self.context.raw, self.raw) };
    }
}
