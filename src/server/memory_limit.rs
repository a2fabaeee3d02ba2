//! What the server does when its memory is full.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::{Context, OK, api};

/// The server's `maxmemory` and `maxmemory-policy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// In bytes; 0 for none.
    pub(crate) bytes: u64,
    pub(crate) policy: String,
}

impl MemoryLimit {
    /// The limit that is set now; none when the server does not tell.
    pub(crate) fn now(context: Context<'_>) -> Option<Self> {
        // SAFETY: the answer is asked for, read and freed here.
        unsafe {
            let answer = api!(RedisModule_GetServerInfo)(context.raw, c"memory".as_ptr());
            let limit = Self::read(answer);
            api!(RedisModule_FreeServerInfo)(context.raw, answer);
            limit
        }
    }

    /// # Safety
    ///
    /// `answer` is an answer of the server that is not freed yet.
    unsafe fn read(answer: *mut raw::RedisModuleServerInfoData) -> Option<Self> {
        let mut error: c_int = 0;
        // SAFETY: the fields are C strings; the text lasts as long as the answer, and is copied.
        unsafe {
            let bytes = api!(RedisModule_ServerInfoGetFieldUnsigned)(
                answer,
                c"maxmemory".as_ptr(),
                &raw mut error,
            );
            let policy =
                api!(RedisModule_ServerInfoGetFieldC)(answer, c"maxmemory_policy".as_ptr());
            (error == OK && !policy.is_null()).then(|| Self {
                bytes,
                policy: CStr::from_ptr(policy).to_string_lossy().into_owned(),
            })
        }
    }

    /// Whether keys are thrown out to stay below the limit.
    pub(crate) fn evicts(&self) -> bool {
        self.policy != "noeviction"
    }
}
