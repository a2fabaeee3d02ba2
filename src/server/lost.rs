//! A key that is losing its value, and whether it has expired.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use redis_module::raw;

use super::api::{OK, api};
use super::guard::guard_logged;
use super::{Context, Text, ValueRef};

/// The first server version that can open a key while it deletes it.
const OPENS_DELETED_KEYS: c_int = 0x0007_0200;

/// A key that is losing its value, during the server's call about it.
pub(crate) struct Lost<'call, L> {
    context: Context<'call>,
    database: c_int,
    key: Text<'call>,
    value: ValueRef<'call, L>,
}

impl<'call, L> Lost<'call, L> {
    pub(super) const fn new(
        context: Context<'call>,
        database: c_int,
        key: Text<'call>,
        value: ValueRef<'call, L>,
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

    /// The value that the key loses.
    pub(crate) const fn value(&self) -> &ValueRef<'call, L> {
        &self.value
    }

    /// Returns true if this server repeats what its primary did or what a file contains.
    pub(crate) fn on_replica_or_loading(&self) -> bool {
        self.context.flags().replica_or_loading()
    }

    /// Returns true if the key has expired at `now_ms`, and `None` on a server that reports an expiry only after the
    /// removal ([`Lost::confirm_expiry`]).
    pub(crate) fn has_expired(&self, now_ms: u64) -> Option<bool> {
        const MODE: u32 = raw::REDISMODULE_READ
            | raw::REDISMODULE_OPEN_KEY_NOEFFECTS
            | raw::REDISMODULE_OPEN_KEY_ACCESS_EXPIRED;
        if !self.context.select_database(self.database) || reports_expiry_after_removal() {
            return None;
        }
        // SAFETY: from that version on a key can be opened for reading while the server deletes it; its
        // expiry is asked for only if it is not empty, and it is closed.
        unsafe {
            let key = api!(RedisModule_OpenKey)(self.context.raw, self.key.raw, MODE.cast_signed());
            if key.is_null() {
                return None;
            }
            let at = api!(RedisModule_GetAbsExpire)(key);
            api!(RedisModule_CloseKey)(key);
            // The expiry is negative for a key that never expires.
            Some(u64::try_from(at).is_ok_and(|at| at <= now_ms))
        }
    }

    /// Calls `handler` for every expired key, from this one on, just after its removal.
    ///
    /// Call this only if [`Lost::has_expired`] returns `None`. A subscription costs a little for every keyspace event,
    /// and on Valkey 8.1 it may move a client to another database.
    pub(crate) fn confirm_expiry(&self, handler: ExpiryHandler) {
        let class = raw::REDISMODULE_NOTIFY_EXPIRED;
        HANDLER.get_or_init(|| {
            // SAFETY: the context is live, and the callback stays for as long as the library is
            // loaded.
            unsafe {
                let subscribe = api!(RedisModule_SubscribeToKeyspaceEvents);
                subscribe(self.context.raw, class, Some(expired));
            }
            handler
        });
    }
}

/// Returns true on Redis 7.0, which removes the expiry of a key before it reports that the key is lost.
fn reports_expiry_after_removal() -> bool {
    // SAFETY: takes no argument.
    unsafe { api!(RedisModule_GetServerVersion)() < OPENS_DELETED_KEYS }
}

type ExpiryHandler = fn(Context<'_>, &[u8]);

static HANDLER: OnceLock<ExpiryHandler> = OnceLock::new();

unsafe extern "C" fn expired(
    raw: *mut raw::RedisModuleCtx,
    _class: c_int,
    _event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guard_logged(OK, || {
        if let Some(handler) = HANDLER.get() {
            // SAFETY: context and key are the server's during this call.
            unsafe { handler(Context::new(raw), Text::new(key).bytes()) };
        }
        OK
    })
}
