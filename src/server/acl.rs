//! ACL: the module's category, and checks of a user's rights.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use redis_module::raw;

use super::api::{OK, api};
use super::optional::Optional;
use super::{Context, OwnedText, Text};

/// An ACL category that the module has added.
pub(crate) struct AclCategory(pub(super) &'static CStr);

/// Adds an ACL category. Must be called before a command is registered in it. `None` on Redis before 7.4.
pub(crate) fn add_category(context: Context<'_>, name: &'static CStr) -> Option<AclCategory> {
    // SAFETY: the context is live, and the server copies the name.
    let added = unsafe { raw::RedisModule_AddACLCategory?(context.raw, name.as_ptr()) };
    (added == OK).then_some(AclCategory(name))
}

/// The current rights of a user.
pub(crate) struct Rights(*mut raw::RedisModuleUser);

impl Rights {
    /// The rights of the calling client's user; `None` if the caller is not a client, as in another module's call.
    pub(crate) fn of_client(context: Context<'_>) -> Option<Self> {
        Self::of(&name_of_client(context)?)
    }

    /// The rights of the user that the command runs for, even in a script; `None` if another module runs it without a
    /// user.
    pub(crate) fn of_caller(context: Context<'_>) -> Option<Self> {
        Self::of(&context.user_name()?)
    }

    /// The rights of the user with this name; `None` if there is no such user.
    fn of(name: &OwnedText) -> Option<Self> {
        // SAFETY: the name is live, and the user is freed with this.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName)(name.text().raw) };
        // Not `then_some`, which would create a value with a null pointer and free it.
        (!user.is_null()).then(|| Self(user))
    }

    /// Returns true if the user may run this command in the database of `context`.
    pub(crate) fn allow(&self, context: Context<'_>, command: &[Text<'_>]) -> bool {
        let words = command.as_ptr().cast_mut().cast();
        let count = c_int::try_from(command.len()).unwrap_or(c_int::MAX);
        // SAFETY: the user lives as long as this; `Text` is a transparent wrapper of a pointer to a server
        // string, and the server keeps none of them.
        let code = unsafe {
            match CHECK_IN_DATABASE.get() {
                Some(check) => check(self.0, words, count, context.database(), ptr::null_mut()),
                None => api!(RedisModule_ACLCheckCommandPermissions)(self.0, words, count),
            }
        };
        code == OK
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        // SAFETY: made in `of`, and freed once.
        unsafe { api!(RedisModule_FreeModuleUser)(self.0) };
    }
}

type CheckInDatabase = unsafe extern "C" fn(
    *mut raw::RedisModuleUser,
    *mut *mut raw::RedisModuleString,
    c_int,
    c_int,
    *mut c_void,
) -> c_int;

/// Checks a command in a database. Valkey from 9.1 on can limit users to some databases, and the older check denies
/// such users every command.
// SAFETY: the type is that of the function: user, words and their number, database, and where to put
// the reason of a refusal, if anywhere.
static CHECK_IN_DATABASE: Optional<CheckInDatabase> =
    unsafe { Optional::new(c"ValkeyModule_ACLCheckPermissions") };

/// The user of the calling client; `None` for another module's call.
fn name_of_client(context: Context<'_>) -> Option<OwnedText> {
    // SAFETY: the context is live; the name is ours to free, or null.
    unsafe {
        let id = context.client_id();
        OwnedText::from_raw(api!(RedisModule_GetClientUserNameById)(context.raw, id))
    }
}

/// The user that another module runs the command for, if any.
pub(super) fn name_of_caller(context: Context<'_>) -> Option<OwnedText> {
    if !context.has_user() {
        // The function below would crash without a user.
        return None;
    }
    // SAFETY: the context is live and has a user; the name is ours to free.
    unsafe { OwnedText::from_raw(api!(RedisModule_GetCurrentUserName)(context.raw)) }
}

/// The first server version that checks the rights for its own blocked commands again before it runs them.
const CHECKS_AGAIN: i32 = 0x0007_0200;

/// The user of a waiting call, whose rights are checked again later.
#[derive(Clone)]
pub(crate) struct User(Arc<OwnedText>);

impl User {
    /// The user that the command runs for; `None` if another module runs it without a user, or if the server does not
    /// check rights again.
    pub(crate) fn to_check_again(context: Context<'_>) -> Option<Self> {
        // SAFETY: takes no argument.
        let version = unsafe { api!(RedisModule_GetServerVersion)() };
        if version < CHECKS_AGAIN {
            return None;
        }
        Some(Self(Arc::new(context.user_name()?)))
    }

    /// Returns true if the user still exists and may run this command in the database of `context`.
    pub(crate) fn may_run(&self, context: Context<'_>, command: &[Text<'_>]) -> bool {
        Rights::of(&self.0).is_some_and(|rights| rights.allow(context, command))
    }
}
