//! The context of a call from the server: replies, replication, events and the log.

use std::ffi::{CStr, CString, c_int, c_long};
use std::marker::PhantomData;
use std::num::NonZero;
use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis_module::raw;

use super::api::{OK, api};

/// Within a transaction or script, time stands still for this many microseconds, as for the server's own commands. One
/// that runs longer sees time pass.
const LONG: u64 = 10_000;

/// The current call from the server.
#[derive(Clone, Copy)]
pub(crate) struct Context<'call> {
    pub(super) raw: *mut raw::RedisModuleCtx,
    /// The flags at the start of a command or a timer's job, which reads them several times.
    flags: Option<Flags>,
    call: PhantomData<&'call ()>,
}

/// The state of the server and of the caller.
///
/// Never zero, because a server is always a primary or a replica. Without that niche a [`Context`] would not be passed
/// in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags(NonZero<c_int>);

impl Flags {
    /// # Safety
    ///
    /// `raw` is a live context of the server.
    unsafe fn of(raw: *mut raw::RedisModuleCtx) -> Self {
        // SAFETY: by the caller's promise.
        let flags = unsafe { api!(RedisModule_GetContextFlags)(raw) };
        Self(NonZero::new(flags).unwrap_or(NonZero::<c_int>::MIN))
    }

    fn has(self, flag: u32) -> bool {
        self.0.get().cast_unsigned() & flag != 0
    }

    /// Returns true if this server is a replica.
    pub(crate) fn replica(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE)
    }

    /// Returns true if the command comes from the replication stream.
    fn replicated(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
    }

    /// Returns true while an RDB or AOF file is being loaded.
    pub(crate) fn loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// Returns true if this server repeats what its primary did or what a file contains.
    pub(super) fn replica_or_loading(self) -> bool {
        self.replica() || self.loading()
    }

    /// Returns true if this server is a cluster node.
    pub(crate) fn cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }

    /// Returns true if the command comes directly from a client, not from a script, a function or another module.
    pub(super) fn is_of_client(self) -> bool {
        !self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
            && (self.may_block() || self.has(raw::REDISMODULE_CTX_FLAGS_MULTI))
    }

    /// Returns true if the command comes from a client, directly or in a script or function.
    pub(super) fn is_of_client_or_script(self) -> bool {
        self.is_of_client() || self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// Returns true if the command comes from a script or function, whose client has an id of its own.
    pub(crate) fn in_script(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// Returns true if the caller can be blocked: it is not in a transaction, a script or another module's call.
    pub(crate) fn may_block(self) -> bool {
        const NEVER: u32 = raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
            | raw::REDISMODULE_CTX_FLAGS_MULTI
            | raw::REDISMODULE_CTX_FLAGS_LUA;
        !self.has(NEVER)
    }

    /// Returns true if the server writes an append-only file.
    pub(crate) fn append_only(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_AOF)
    }
}

impl Context<'_> {
    /// # Safety
    ///
    /// `raw` is the server's context of a call that lasts for `'call`, and the caller holds the
    /// server's global lock.
    pub(super) const unsafe fn new(raw: *mut raw::RedisModuleCtx) -> Self {
        Self {
            raw,
            flags: None,
            call: PhantomData,
        }
    }

    /// Like [`Context::new`], but for a call that reads its flags more than once.
    ///
    /// # Safety
    ///
    /// As for [`Context::new`].
    pub(super) unsafe fn with_flags(raw: *mut raw::RedisModuleCtx) -> Self {
        Self {
            raw,
            // SAFETY: by the caller's promise.
            flags: Some(unsafe { Flags::of(raw) }),
            call: PhantomData,
        }
    }

    /// The flags at the start of a command or of a timer's job; in any other call the current flags.
    #[inline]
    pub(crate) fn flags(self) -> Flags {
        // SAFETY: the context is live.
        self.flags.unwrap_or_else(|| unsafe { Flags::of(self.raw) })
    }

    /// The selected database.
    pub(crate) fn database(self) -> i32 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetSelectedDb)(self.raw) }
    }

    /// Selects a database, in a call that is not a client's.
    pub(crate) fn select_database(self, number: i32) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_SelectDb)(self.raw, number) == OK }
    }

    /// Returns true if the command comes from the replication stream or from a file that is being loaded, so that it
    /// was judged before. That is not the case for another module's call while a file is being loaded.
    pub(crate) fn is_from_stream(self) -> bool {
        /// The id of the client that runs the commands of a file.
        const FILE: u64 = u64::MAX;
        let flags = self.flags();
        flags.replicated() || (flags.loading() && self.client_id() == FILE)
    }

    /// The id of the calling client.
    pub(crate) fn client_id(self) -> u64 {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_GetClientId)(self.raw) }
    }

    /// Returns true while `CLIENT PAUSE` or a failover pauses writes.
    #[allow(clippy::unused_self)] // the proof that the server may be asked
    pub(crate) fn writes_paused(self) -> bool {
        // SAFETY: takes no argument.
        unsafe { api!(RedisModule_AvoidReplicaTraffic)() != 0 }
    }

    /// The wall clock in microseconds since 1970. From Redis 7.2 on and on Valkey it is the time at the start of the
    /// command, or of the transaction or script unless that started long ago.
    pub(crate) fn unix_micros(self) -> u64 {
        self.time_by(|| {
            let time = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = time.unwrap_or(Duration::ZERO);
            time.as_secs() * 1_000_000 + u64::from(time.subsec_micros())
        })
    }

    /// Like [`Context::unix_micros`], but in milliseconds, which costs less on Redis 7.0.
    pub(crate) fn unix_millis(self) -> u64 {
        self.time_by(|| self.unix_micros_now()) / 1000
    }

    /// The time at the start of the command, in microseconds; the time of `wall_clock` if the server does not provide
    /// it. In a transaction or script that has run for long, the current time of the server's own clock.
    fn time_by(self, wall_clock: impl FnOnce() -> u64) -> u64 {
        let Some(began) = self.cached_micros() else {
            return wall_clock();
        };
        if self.flags().may_block() {
            return began;
        }
        let now = self.unix_micros_now();
        if now > began + LONG { now } else { began }
    }

    /// The wall clock at the start of the command, transaction or script, which Redis 7.0 does not provide.
    #[allow(clippy::unused_self)] // the proof that the server may be asked
    fn cached_micros(self) -> Option<u64> {
        // SAFETY: takes no argument; Redis 7.0 lacks the function.
        let cached = unsafe { raw::RedisModule_CachedMicroseconds.map(|cached| cached()) };
        cached.and_then(|micros| u64::try_from(micros).ok())
    }

    /// The current wall clock in microseconds since 1970, exact to the millisecond. This is the server's own clock, by
    /// which keys expire.
    #[allow(clippy::unused_self)] // as above
    pub(crate) fn unix_micros_now(self) -> u64 {
        // SAFETY: takes no argument.
        let millis = unsafe { api!(RedisModule_Milliseconds)() };
        u64::try_from(millis).unwrap_or(0) * 1000
    }

    pub(crate) fn reply_integer(self, number: i64) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.raw, number) };
    }

    pub(crate) fn reply_bytes(self, bytes: &[u8]) {
        // SAFETY: the server copies `bytes` before it returns.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer)(self.raw, bytes.as_ptr().cast(), bytes.len());
        }
    }

    pub(crate) fn reply_status(self, status: &CStr) {
        // SAFETY: the server copies the string before it returns.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.raw, status.as_ptr()) };
    }

    pub(crate) fn reply_null(self) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithNull)(self.raw) };
    }

    /// Starts an array. `length` replies must follow.
    pub(crate) fn reply_array(self, length: usize) {
        let length = c_long::try_from(length).unwrap_or(c_long::MAX);
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithArray)(self.raw, length) };
    }

    /// Starts a map (a flat array in RESP2). `length` pairs of replies must follow.
    pub(crate) fn reply_map(self, length: c_long) {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_ReplyWithMap)(self.raw, length) };
    }

    /// Replies with an error, which starts with its code.
    pub(crate) fn reply_error(self, error: &CStr) {
        // SAFETY: the server copies the string before it returns.
        unsafe { api!(RedisModule_ReplyWithError)(self.raw, error.as_ptr()) };
    }

    /// Raises a keyspace event of the module class.
    pub(crate) fn notify_module_event(self, event: &CStr, key: Text<'_>) {
        self.notify(raw::REDISMODULE_NOTIFY_MODULE, event, key);
    }

    /// Raises a keyspace event of the generic class, such as `del`.
    pub(crate) fn notify_generic_event(self, event: &CStr, key: Text<'_>) {
        self.notify(raw::REDISMODULE_NOTIFY_GENERIC, event, key);
    }

    fn notify(self, class: c_int, event: &CStr, key: Text<'_>) {
        // SAFETY: context and key are live, and the server keeps neither.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent)(self.raw, class, event.as_ptr(), key.raw) };
    }

    /// Signals to `WATCH` and client-side caches that the key has changed.
    pub(crate) fn signal_modified(self, key: Text<'_>) {
        // SAFETY: context and key are live, and the server keeps neither.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.raw, key.raw) };
    }

    /// Replicates the command as it was sent.
    pub(crate) fn replicate_verbatim(self) {
        // SAFETY: the context is that of a command.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.raw) };
    }

    /// Replicates `command key`.
    pub(crate) fn replicate_key(self, command: &CStr, key: Text<'_>) {
        if self.count_unread_change() {
            return;
        }
        // SAFETY: the format `s` asks for the one string that follows; the server takes its own
        // reference to it.
        unsafe {
            api!(RedisModule_Replicate)(self.raw, command.as_ptr(), c"s".as_ptr(), key.raw);
        }
    }

    /// Replicates `command key bytes`.
    pub(crate) fn replicate_key_bytes(self, command: &CStr, key: Text<'_>, bytes: &[u8]) {
        if self.count_unread_change() {
            return;
        }
        // SAFETY: the format `sb` asks for a server string, of which the server takes a reference of
        // its own, and for a pointer with its length, which it copies.
        unsafe {
            api!(RedisModule_Replicate)(
                self.raw,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.raw,
                bytes.as_ptr(),
                bytes.len(),
            );
        }
    }

    /// If nobody reads the stream, counts the change for the server's save points and returns true.
    ///
    /// Replicates the command as it was sent, because the server counts that as a change, and building an effect that
    /// nobody reads would be a waste.
    fn count_unread_change(self) -> bool {
        let unread = !self.stream_is_read();
        if unread {
            self.replicate_verbatim();
        }
        unread
    }

    /// Replicates `command number`.
    pub(crate) fn replicate_number(self, command: &CStr, number: i64) {
        // SAFETY: the format `l` asks for the one long long that follows.
        unsafe {
            api!(RedisModule_Replicate)(self.raw, command.as_ptr(), c"l".as_ptr(), number);
        }
    }
}

/// Writes a line to the server's log.
pub(crate) fn warn(message: &str) {
    log(c"warning", message);
}

/// Writes a line to the server's log if its level is verbose.
pub(crate) fn log_verbose(message: &str) {
    log(c"verbose", message);
}

fn log(level: &CStr, message: &str) {
    // Pass the message as an argument of the format, because it may contain a `%`.
    let message = CString::new(message.replace('\0', "?")).unwrap_or_default();
    // SAFETY: the server takes a null context to log; three C strings, and the format asks for the
    // one that is given.
    unsafe {
        api!(RedisModule_Log)(
            ptr::null_mut(),
            level.as_ptr(),
            c"%s".as_ptr(),
            message.as_ptr(),
        );
    }
}

/// An argument of a command in the server's memory, which may contain any bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text<'call> {
    pub(super) raw: *mut raw::RedisModuleString,
    call: PhantomData<&'call ()>,
}

impl<'call> Text<'call> {
    /// # Safety
    ///
    /// `raw` is a server string that stays as it is for `'call`.
    pub(super) const unsafe fn new(raw: *mut raw::RedisModuleString) -> Self {
        Self {
            raw,
            call: PhantomData,
        }
    }

    /// The arguments of a command call, its name first.
    ///
    /// # Safety
    ///
    /// `argv` and `count` are those that the server called the command with, valid for `'call`.
    pub(super) unsafe fn arguments(
        argv: *mut *mut raw::RedisModuleString,
        count: c_int,
    ) -> &'call [Self] {
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: `Text` is a transparent wrapper of the pointers that `argv` points to.
        unsafe { std::slice::from_raw_parts(argv.cast::<Self>(), count) }
    }

    pub(crate) fn bytes(self) -> &'call [u8] {
        let mut length = 0;
        // SAFETY: the string is live and unchanged for `'call`; the server gives its start and
        // its length, and never a null start.
        unsafe {
            let start = api!(RedisModule_StringPtrLen)(self.raw, &raw mut length);
            std::slice::from_raw_parts(start.cast(), length)
        }
    }
}
