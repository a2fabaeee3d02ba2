//! A key that is losing its value, and whether its time is over.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use redis_module::raw;

use super::api::{OK, api};
use super::guard::guard_logged;
use super::{Context, Flags, Text};

/// The first version of the server's API where a key that is being deleted can be opened.
const SHOWS_WHAT_IT_DELETES: c_int = 0x0007_0200;

/// A key that is losing its value, for the length of the call that tells of it.
pub(crate) struct Lost<'call> {
    context: Context<'call>,
    database: c_int,
    key: Text<'call>,
    value: &'call [u8],
}

impl<'call> Lost<'call> {
    pub(super) const fn new(
        context: Context<'call>,
        database: c_int,
        key: Text<'call>,
        value: &'call [u8],
    ) -> Self {
        Self {
            context,
            database,
            key,
            value,
        }
    }

    /// A context without flags.
    pub(crate) const fn context(&self) -> Context<'call> {
        self.context
    }

    pub(crate) const fn database(&self) -> i32 {
        self.database
    }

    pub(crate) fn key(&self) -> &'call [u8] {
        self.key.bytes()
    }

    /// The value that the key had.
    pub(crate) const fn value(&self) -> &'call [u8] {
        self.value
    }

    /// This server does what its primary, or a file that it loads, says.
    pub(crate) fn as_told(&self) -> bool {
        Flags::now(self.context).as_told()
    }

    /// Whether the key's time is over, now being so many milliseconds since 1970; none where the
    /// server tells only afterwards that a key has expired ([`Lost::tell_if_expired`]).
    pub(crate) fn has_expired(&self, now_ms: u64) -> Option<bool> {
        const LOOK: u32 = raw::REDISMODULE_READ
            | raw::REDISMODULE_OPEN_KEY_NOEFFECTS
            | raw::REDISMODULE_OPEN_KEY_ACCESS_EXPIRED;
        if !self.context.select_database(self.database) || tells_afterwards() {
            return None;
        }
        // SAFETY: the server lets a key be opened to read while it deletes it, from that version
        // on; it is asked for its expiry only where it is not empty, and closed.
        unsafe {
            let key = api!(RedisModule_OpenKey)(self.context.raw, self.key.raw, LOOK.cast_signed());
            if key.is_null() {
                return None;
            }
            let at = api!(RedisModule_GetAbsExpire)(key);
            api!(RedisModule_CloseKey)(key);
            // Negative for a key that never expires.
            Some(u64::try_from(at).is_ok_and(|at| at <= now_ms))
        }
    }

    /// Calls `tell`, just afterwards, with this key and with every key from now on that has expired.
    ///
    /// Only where [`Lost::has_expired`] does not tell, and no earlier than it is needed: to follow these
    /// events costs something at every event of any kind, and on Valkey 8.1 a client whose command
    /// meets one that a module follows may be left in another database.
    pub(crate) fn tell_if_expired(&self, tell: Tell) {
        let class = raw::REDISMODULE_NOTIFY_EXPIRED;
        TELL.get_or_init(|| {
            // SAFETY: the context is live, and the callback stays for as long as the library is
            // loaded.
            unsafe {
                let subscribe = api!(RedisModule_SubscribeToKeyspaceEvents);
                subscribe(self.context.raw, class, Some(expired));
            }
            tell
        });
    }
}

/// Redis 7.0, which forgets the expiry before it tells of the key.
fn tells_afterwards() -> bool {
    // SAFETY: takes no argument.
    unsafe { api!(RedisModule_GetServerVersion)() < SHOWS_WHAT_IT_DELETES }
}

type Tell = fn(Context<'_>, &[u8]);

static TELL: OnceLock<Tell> = OnceLock::new();

unsafe extern "C" fn expired(
    raw: *mut raw::RedisModuleCtx,
    _class: c_int,
    _event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guard_logged(OK, || {
        if let Some(tell) = TELL.get() {
            // SAFETY: context and key are the server's for the length of this call.
            unsafe { tell(Context::without_flags(raw), Text::new(key).bytes()) };
        }
        OK
    })
}
