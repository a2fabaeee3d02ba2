//! Whether the server would let a write command on a key through now.

use std::io;

use redis_module::raw;

use super::{Context, Text, api};

/// What became of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCheck {
    /// It would be run.
    Allowed,
    /// It would be refused for now: too few replicas, a disk that cannot be written, …
    NotNow,
    /// Another node of the cluster serves the key, or none does.
    OtherNode,
}

impl Context<'_> {
    /// Asks by deleting the key, which must not exist: the server checks the command as it would a
    /// script's, and then finds nothing to delete.
    pub(crate) fn check_write(self, absent_key: Text<'_>) -> WriteCheck {
        // SAFETY: the format asks, after `S` for the checks, for the one string that follows; a
        // reply is freed, once.
        unsafe {
            let reply: *mut raw::RedisModuleCallReply =
                api!(RedisModule_Call)(self.raw, c"DEL".as_ptr(), c"Ss".as_ptr(), absent_key.raw);
            if !reply.is_null() {
                api!(RedisModule_FreeCallReply)(reply);
                return WriteCheck::Allowed;
            }
        }
        match io::Error::last_os_error().kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::ReadOnlyFilesystem => WriteCheck::OtherNode,
            _ => WriteCheck::NotNow,
        }
    }
}
