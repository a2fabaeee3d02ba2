//! Calls commands of the server for what its API does not provide: rights, write checks, clients, modules and settings.

use std::ffi::{CStr, c_int};
use std::io;
use std::ptr;

use redis_module::raw;

use super::api::api;
use super::server_info::ServerInfo;
use super::{Context, Text};

/// The result of a check of the caller's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The caller has the right.
    Granted,
    /// The caller does not have the right.
    Denied,
}

/// Whether the server would allow a write on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCheck {
    /// The server would run the write.
    Allowed,
    /// The server would refuse the write for now: too few replicas, a full disk, …
    NotNow,
    /// The server would redirect the write to another node of the cluster.
    OtherNode,
    /// The cluster is down.
    ClusterDown,
}

impl Context<'_> {
    /// Checks that the caller may run `RESTORE key …`.
    ///
    /// Runs it as the caller, with a payload that every server refuses. The server checks the rights first, so an error
    /// about the payload, the existing key or another node means that the caller has them. No other check works on
    /// Redis 7.0 and for a caller without a user (another module's own call, which is denied).
    pub(crate) fn may_restore(self, key: Text<'_>) -> Permission {
        let (ttl, no_payload) = (OwnedText::new(b"0"), OwnedText::new(b""));
        let arguments = [key, ttl.text(), no_payload.text()];
        self.call(c"RESTORE", c"CEv", &arguments, |reply| {
            let checked = match reply.error() {
                Some(error) => {
                    error.starts_with("BUSYKEY")
                        || error.contains("DUMP payload")
                        || reply.refusal == Refusal::OtherNode
                }
                None => true,
            };
            if checked {
                Permission::Granted
            } else {
                Permission::Denied
            }
        })
    }

    /// Returns true if the command runs for a user. A client's command always does, but another module's may not.
    ///
    /// Runs a nonexistent command as the caller, which gets a different error without a user.
    pub(super) fn has_user(self) -> bool {
        self.call(c"", c"CEv", &[], |reply| {
            reply.refusal == Refusal::NoSuchCommand
        })
    }

    /// Checks whether the server would allow a write on a key, whatever it holds.
    ///
    /// `probe` is a command of the module that is flagged as a write, takes the key and does nothing. The server checks
    /// it like a call of a script, and only checks it if it can (see [`can_dry_run`]).
    pub(crate) fn check_write(self, probe: &CStr, key: Text<'_>) -> WriteCheck {
        let format = if can_dry_run() { c"SDv" } else { c"SEv" };
        self.call(probe, format, &[key], |reply| {
            match (reply.error(), reply.refusal) {
                (None, _) => WriteCheck::Allowed,
                (Some(_), Refusal::OtherNode) => WriteCheck::OtherNode,
                (Some(_), Refusal::ClusterDown) => WriteCheck::ClusterDown,
                (Some(_), Refusal::NoSuchCommand | Refusal::Another) => WriteCheck::NotNow,
            }
        })
    }

    /// Returns true if the server has a command with this name, which an operator may have renamed.
    ///
    /// Calls the command without its arguments, so that it does nothing.
    pub(crate) fn has_command(self, name: &CStr) -> bool {
        self.call(name, c"Ev", &[], |reply| {
            let error = reply.error().unwrap_or_default();
            !error.contains("unknown command")
        })
    }

    /// The lines of `CLIENT LIST` of these clients.
    pub(super) fn client_lines(self, ids: &[u64]) -> Option<String> {
        let words = [b"LIST".to_vec(), b"ID".to_vec()];
        let ids = ids.iter().map(|id| id.to_string().into_bytes());
        let words: Vec<_> = words
            .into_iter()
            .chain(ids)
            .map(|word| OwnedText::new(&word))
            .collect();
        let arguments: Vec<_> = words.iter().map(OwnedText::text).collect();
        self.call(c"CLIENT", c"Ev", &arguments, |reply| match reply.error() {
            None => reply.text(),
            Some(_) => None,
        })
    }

    /// The names of the loaded modules; `None` if the server refuses to list them.
    pub(super) fn modules(self) -> Option<Vec<String>> {
        let list = OwnedText::new(b"LIST");
        self.call(c"MODULE", c"Ev", &[list.text()], |reply| {
            if reply.error().is_some() {
                return None;
            }
            // Each module is a list of names and values. The first value is the name of the module.
            let modules = (0..).map_while(|index| reply.item(index));
            modules.map(|module| module.item(1)?.text()).collect()
        })
    }

    /// The value of one of the server's own settings.
    pub(crate) fn setting(self, name: &CStr) -> Option<String> {
        let (get, name) = (OwnedText::new(b"GET"), OwnedText::new(name.to_bytes()));
        let arguments = [get.text(), name.text()];
        self.call(c"CONFIG", c"Ev", &arguments, |reply| reply.item(1)?.text())
    }

    /// A number in a section of the server's `INFO`.
    pub(crate) fn info_number(self, section: &CStr, field: &CStr) -> Option<u64> {
        ServerInfo::of(self, section)?.number(field)
    }

    /// Runs a command. In `format` an `E` asks for errors as replies (without it an error crashes Valkey
    /// 9.1), and a final `v` stands for the arguments.
    pub(super) fn call<R>(
        self,
        command: &CStr,
        format: &CStr,
        arguments: &[Text<'_>],
        read: impl FnOnce(&Reply) -> R,
    ) -> R {
        // SAFETY: the format's `v` asks for what follows, a list of server strings and its length;
        // `Text` is a transparent wrapper of a pointer to one. A reply is freed, once.
        unsafe {
            let raw = api!(RedisModule_Call)(
                self.raw,
                command.as_ptr(),
                format.as_ptr(),
                arguments.as_ptr(),
                arguments.len(),
            );
            let reply = Reply {
                raw,
                refusal: Refusal::last(),
                is_dry_run: format.to_bytes().contains(&b'D'),
            };
            let result = read(&reply);
            if !raw.is_null() {
                api!(RedisModule_FreeCallReply)(raw);
            }
            result
        }
    }
}

/// The first server version that can check a call without running it.
const DRY_RUN: c_int = 0x0007_0200;

/// Returns true if [`Context::check_write`] only checks the command (on Redis from 7.2 and on Valkey). Otherwise the
/// command runs, so it appears in `MONITOR` and in the statistics.
pub(crate) fn can_dry_run() -> bool {
    // SAFETY: takes no argument.
    unsafe { api!(RedisModule_GetServerVersion)() >= DRY_RUN }
}

/// The reply of a command.
pub(super) struct Reply {
    raw: *mut raw::RedisModuleCallReply,
    /// Why the command was not run, if the reply is an error.
    refusal: Refusal,
    /// True if the command was only checked.
    is_dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    OtherNode,
    ClusterDown,
    NoSuchCommand,
    Another,
}

impl Refusal {
    /// The reason for the last call, which the server puts into `errno`.
    fn last() -> Self {
        const NOT_PERMITTED: i32 = 1; // EPERM; EACCES, for rights, is of the same kind
        let error = io::Error::last_os_error();
        match error.kind() {
            _ if error.raw_os_error() == Some(NOT_PERMITTED) => Self::OtherNode,
            io::ErrorKind::NotFound => Self::NoSuchCommand,
            io::ErrorKind::NetworkDown | io::ErrorKind::ReadOnlyFilesystem => Self::ClusterDown,
            _ => Self::Another,
        }
    }
}

impl Reply {
    fn kind(&self) -> i32 {
        // SAFETY: the reply lives; the server takes a null for an unknown one.
        unsafe { api!(RedisModule_CallReplyType)(self.raw) }
    }

    /// The text of an error; empty if there is no reply at all. A successful dry run has no reply either, but is no
    /// error.
    fn error(&self) -> Option<String> {
        match self.kind() {
            UNKNOWN if self.is_dry_run => None,
            UNKNOWN => Some(String::new()),
            ERROR => self.text(),
            _ => None,
        }
    }

    /// An element of an array.
    fn item(&self, index: usize) -> Option<Self> {
        if self.raw.is_null() {
            return None;
        }
        // SAFETY: the reply lives, and the element as long as it; other replies have no elements.
        let raw = unsafe { api!(RedisModule_CallReplyArrayElement)(self.raw, index) };
        (!raw.is_null()).then_some(Self {
            raw,
            refusal: self.refusal,
            is_dry_run: false,
        })
    }

    /// The elements of an array.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> {
        (0..).map_while(|index| self.item(index))
    }

    /// The value with this name in an array of alternating names and values.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let mut items = self.items();
        while let (Some(this), Some(value)) = (items.next(), items.next()) {
            if this.text().as_deref() == Some(name) {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn integer(&self) -> Option<i64> {
        // SAFETY: the reply lives.
        (self.kind() == INTEGER).then(|| unsafe { api!(RedisModule_CallReplyInteger)(self.raw) })
    }

    pub(super) fn text(&self) -> Option<String> {
        if self.raw.is_null() {
            return None;
        }
        let mut length = 0;
        // SAFETY: the reply lives, and its bytes as long as it.
        unsafe {
            let start = api!(RedisModule_CallReplyStringPtr)(self.raw, &raw mut length);
            if start.is_null() {
                return None;
            }
            let bytes = std::slice::from_raw_parts(start.cast(), length);
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // -1 to 2
const UNKNOWN: i32 = raw::REDISMODULE_REPLY_UNKNOWN as i32;
#[allow(clippy::cast_possible_truncation)]
const ERROR: i32 = raw::REDISMODULE_REPLY_ERROR as i32;
#[allow(clippy::cast_possible_truncation)]
const INTEGER: i32 = raw::REDISMODULE_REPLY_INTEGER as i32;

/// A server string that the module owns.
pub(crate) struct OwnedText(*mut raw::RedisModuleString);

// SAFETY: the string is read and freed only under the server's global lock.
unsafe impl Send for OwnedText {}
// SAFETY: as above.
unsafe impl Sync for OwnedText {}

impl OwnedText {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // SAFETY: the server copies the bytes; without a context the string is ours to free.
        Self(unsafe {
            api!(RedisModule_CreateString)(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// # Safety
    ///
    /// `raw` is a server string that is ours to free, or null.
    pub(super) const unsafe fn from_raw(raw: *mut raw::RedisModuleString) -> Option<Self> {
        if raw.is_null() { None } else { Some(Self(raw)) }
    }

    pub(crate) fn text(&self) -> Text<'_> {
        // SAFETY: the string stays as it is until it is freed, which ends the borrow.
        unsafe { Text::new(self.0) }
    }
}

impl Drop for OwnedText {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and freed once; the server may keep references of its own.
        unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), self.0) };
    }
}
