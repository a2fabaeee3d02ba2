//! What the calling user may do.

use std::ffi::CStr;

use redis_module::raw;

use super::{Context, OK, Text, api};

/// The answer to a question about the caller's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The caller may.
    Granted,
    /// The caller may not.
    Denied,
}

/// An ACL category that the module has added.
pub(crate) struct AclCategory(pub(super) &'static CStr);

/// Adds an ACL category, before any command is registered in it; none where the server does not
/// let a module have its own (Redis before 7.4).
pub(crate) fn add_category(context: Context<'_>, name: &'static CStr) -> Option<AclCategory> {
    // SAFETY: the context is live, and the server copies the name.
    let added = unsafe { raw::RedisModule_AddACLCategory?(context.raw, name.as_ptr()) };
    (added == OK).then_some(AclCategory(name))
}

impl Context<'_> {
    /// Whether the caller may run `RESTORE key …`.
    ///
    /// Asked by running it as the caller with a payload that no server takes: past the check of
    /// the caller's rights it answers an error and changes nothing; a caller without the right
    /// gets no reply at all. No other way to ask works on Redis 7.0 and for a caller without a
    /// user (another module's own call, which is denied).
    pub(crate) fn may_restore(self, key: Text<'_>) -> Permission {
        const NO_PAYLOAD: &CStr = c"";
        // SAFETY: the format asks, after `C` for the caller's rights, for what follows: a server
        // string and two C strings; a reply is freed, once.
        let ran = unsafe {
            let reply: *mut raw::RedisModuleCallReply = api!(RedisModule_Call)(
                self.raw,
                c"RESTORE".as_ptr(),
                c"Cscc".as_ptr(),
                key.raw,
                c"0".as_ptr(),
                NO_PAYLOAD.as_ptr(),
            );
            let ran = !reply.is_null();
            if ran {
                api!(RedisModule_FreeCallReply)(reply);
            }
            ran
        };
        if ran {
            Permission::Granted
        } else {
            Permission::Denied
        }
    }
}
