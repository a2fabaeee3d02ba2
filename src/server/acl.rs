//! ACL: the module's own category, and what a user may do later than in its own call.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use redis_module::raw;

use super::api::{OK, api};
use super::optional::Optional;
use super::{Context, OwnedText, Text};

/// An ACL category that the module has added.
pub(crate) struct AclCategory(pub(super) &'static CStr);

/// Adds an ACL category, before any command is registered in it; none where the server does not
/// let a module have its own (Redis before 7.4).
pub(crate) fn add_category(context: Context<'_>, name: &'static CStr) -> Option<AclCategory> {
    // SAFETY: the context is live, and the server copies the name.
    let added = unsafe { raw::RedisModule_AddACLCategory?(context.raw, name.as_ptr()) };
    (added == OK).then_some(AclCategory(name))
}

/// Who asks, to be asked which keys it may read.
pub(crate) struct Reader(*mut raw::RedisModuleUser);

impl Reader {
    /// The user of the client that is calling; none where there is no client, as for another
    /// module's call.
    pub(crate) fn of(context: Context<'_>) -> Option<Self> {
        let name = name_of_client(context)?;
        // SAFETY: the name is live, and the user is freed with this.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName)(name.text().raw) };
        (!user.is_null()).then_some(Self(user))
    }

    /// Whether the user may read what the key holds.
    pub(crate) fn may_read(&self, key: &[u8]) -> bool {
        const ACCESS: u32 = raw::REDISMODULE_CMD_KEY_ACCESS;
        let key = OwnedText::new(key);
        // SAFETY: the user lives as long as this; the server keeps neither.
        unsafe {
            let check = api!(RedisModule_ACLCheckKeyPermissions);
            check(self.0, key.text().raw, ACCESS.cast_signed()) == OK
        }
    }
}

impl Drop for Reader {
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

/// The check of a command with its database, where users may be limited to some databases (Valkey
/// from 9.1): the check without one refuses those users any command.
// SAFETY: the type is that of the function: user, words and their number, database, and where to put
// the reason of a refusal, if anywhere.
static CHECK_IN_DATABASE: Optional<CheckInDatabase> =
    unsafe { Optional::new(c"ValkeyModule_ACLCheckPermissions") };

/// The user of the client that is calling; none for another module's call.
fn name_of_client(context: Context<'_>) -> Option<OwnedText> {
    // SAFETY: the context is live; the name is ours to free, or null.
    unsafe {
        let id = context.client_id();
        OwnedText::from_raw(api!(RedisModule_GetClientUserNameById)(context.raw, id))
    }
}

/// The user for whom another module makes its call, if for any.
fn name_of_caller(context: Context<'_>) -> Option<OwnedText> {
    if !context.has_user() {
        // The function below would crash.
        return None;
    }
    // SAFETY: the context is live and has a user; the name is ours to free.
    unsafe { OwnedText::from_raw(api!(RedisModule_GetCurrentUserName)(context.raw)) }
}

/// The first version of the server's API whose own blocked commands are checked again when their
/// turn comes.
const CHECKS_AGAIN: i32 = 0x0007_0200;

/// The user of a client, to be asked for its rights later.
#[derive(Clone)]
pub(crate) struct User(Arc<OwnedText>);

impl User {
    /// The user for whom the command is run; none where another module runs it for nobody, and on a
    /// server that would not ask again either.
    pub(crate) fn to_ask_again(context: Context<'_>) -> Option<Self> {
        // SAFETY: takes no argument.
        let version = unsafe { api!(RedisModule_GetServerVersion)() };
        if version < CHECKS_AGAIN {
            return None;
        }
        let name = name_of_client(context).or_else(|| name_of_caller(context))?;
        Some(Self(Arc::new(name)))
    }

    /// Whether the user may run this command now, in the database that `context` works on.
    pub(crate) fn may_run(&self, context: Context<'_>, command: &[Text<'_>]) -> bool {
        // SAFETY: the user is asked for by its name, is none when it is gone, and is freed; `Text`
        // is a transparent wrapper of a pointer to a server string.
        unsafe {
            let user = api!(RedisModule_GetModuleUserFromUserName)(self.0.text().raw);
            if user.is_null() {
                return false;
            }
            let words = command.as_ptr().cast_mut().cast();
            let count = c_int::try_from(command.len()).unwrap_or(c_int::MAX);
            let may = match CHECK_IN_DATABASE.get() {
                Some(check) => check(user, words, count, context.database(), ptr::null_mut()),
                None => api!(RedisModule_ACLCheckCommandPermissions)(user, words, count),
            };
            api!(RedisModule_FreeModuleUser)(user);
            may == OK
        }
    }
}
