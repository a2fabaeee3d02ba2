//! ACL: the module's own category, and what a user may do later than in its own call.

use std::ffi::CStr;
use std::sync::Arc;

use redis_module::raw;

use super::{Context, OK, OwnedText, Text, api};

/// An ACL category that the module has added.
pub(crate) struct AclCategory(pub(super) &'static CStr);

/// Adds an ACL category, before any command is registered in it; none where the server does not
/// let a module have its own (Redis before 7.4).
pub(crate) fn add_category(context: Context<'_>, name: &'static CStr) -> Option<AclCategory> {
    // SAFETY: the context is live, and the server copies the name.
    let added = unsafe { raw::RedisModule_AddACLCategory?(context.raw, name.as_ptr()) };
    (added == OK).then_some(AclCategory(name))
}

/// The first version of the server's API whose own blocked commands are checked again when their
/// turn comes.
const CHECKS_AGAIN: i32 = 0x0007_0200;

/// The user of a client, to be asked for its rights later.
#[derive(Clone)]
pub(crate) struct User(Arc<OwnedText>);

impl User {
    /// The user of the client that is calling; none on a server that would not ask again either.
    /// Only for a command that a client sent itself, which always has a user.
    pub(crate) fn to_ask_again(context: Context<'_>) -> Option<Self> {
        // SAFETY: the context is that of a client with a user; the name is ours to free.
        unsafe {
            if api!(RedisModule_GetServerVersion)() < CHECKS_AGAIN {
                return None;
            }
            let name = api!(RedisModule_GetCurrentUserName)(context.raw);
            Some(Self(Arc::new(OwnedText::from_raw(name))))
        }
    }

    /// Whether the user may run this command now.
    pub(crate) fn may_run(&self, command: &[Text<'_>]) -> bool {
        // SAFETY: the user is asked for by its name, is none when it is gone, and is freed; `Text`
        // is a transparent wrapper of a pointer to a server string.
        unsafe {
            let user = api!(RedisModule_GetModuleUserFromUserName)(self.0.text().raw);
            if user.is_null() {
                return false;
            }
            let may = api!(RedisModule_ACLCheckCommandPermissions)(
                user,
                command.as_ptr().cast_mut().cast(),
                i32::try_from(command.len()).unwrap_or(i32::MAX),
            );
            api!(RedisModule_FreeModuleUser)(user);
            may == OK
        }
    }
}
