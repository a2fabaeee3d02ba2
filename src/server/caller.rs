//! The user that a command runs for, and the user and database of a client.

use redis_module::raw;

use super::acl::name_of_caller;
use super::api::{OK, api};
use super::{Context, OwnedText};

impl Context<'_> {
    /// The name of the user that the command runs for, even in a script; `None` if another module runs it without a
    /// user.
    pub(crate) fn user_name(self) -> Option<OwnedText> {
        if !self.flags().is_of_client_or_script() {
            return name_of_caller(self);
        }
        // SAFETY: the context is live, and its client has a user; the name is ours to free.
        unsafe { OwnedText::from_raw(api!(RedisModule_GetCurrentUserName)(self.raw)) }
    }

    /// The current user and database of a connected client.
    pub(crate) fn identity_of(self, client: u64) -> Option<(OwnedText, i32)> {
        let mut info = raw::RedisModuleClientInfo {
            version: 1,
            flags: 0,
            id: 0,
            addr: [0; 46],
            port: 0,
            db: 0,
        };
        // SAFETY: the server fills in a structure of the version that it says; the name is ours to free.
        unsafe {
            let code = api!(RedisModule_GetClientInfoById)((&raw mut info).cast(), client);
            let name = api!(RedisModule_GetClientUserNameById)(self.raw, client);
            let name = OwnedText::from_raw(name)?;
            (code == OK).then(|| (name, i32::from(info.db)))
        }
    }
}
