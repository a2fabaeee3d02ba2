//! The interface to a data type of the module, whose values the server stores, rewrites, measures and frees.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::{OK, REFUSED, api};
use super::detached::detached;
use super::guard::guard_logged;
use super::{Context, Large, Lost, Text, Value, ValueRef};

/// A data type. It has no `free` method, because that could run on any thread; values only free memory.
pub(crate) trait DataType {
    /// The form of a value that is more than bytes.
    type Large: Large;

    /// The name, which has nine characters.
    const NAME: &'static CStr;
    /// The version of the stored form that `save` writes.
    const ENCODING: c_int;

    /// The handle of the registered type.
    fn handle() -> &'static TypeHandle;

    /// Stores a value.
    fn save(value: ValueRef<'_, Self::Large>, out: &mut RdbWriter);
    /// Loads a stored value. The error says why the value is refused.
    fn load(stored: &mut RdbReader, encoding: c_int) -> Result<Value<Self::Large>, String>;
    /// Writes the commands that restore the key, without its expiry.
    fn rewrite(key: Text<'_>, value: ValueRef<'_, Self::Large>, out: &mut AofWriter);
    /// Handles the loss of a key's value: the key was deleted, expired, evicted, overwritten, renamed or moved, but not
    /// flushed. The server calls this while it removes the key, so this must neither write nor open a key.
    fn lost(lost: &Lost<'_, Self::Large>);
    /// Adds the value to a digest.
    fn digest(value: ValueRef<'_, Self::Large>, out: &mut Digest);
    /// Stores the data that belongs to no key.
    fn save_extra(out: &mut RdbWriter);
    /// Returns true if [`DataType::save_extra`] has something to store.
    fn has_extra() -> bool;
    /// Loads what `save_extra` stored. The error says why the file is refused.
    fn load_extra(stored: &mut RdbReader, encoding: c_int) -> Result<(), String>;
}

/// A registered data type.
pub(crate) struct TypeHandle(AtomicPtr<raw::RedisModuleType>);

impl TypeHandle {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleType {
        self.0.load(Ordering::Relaxed)
    }
}

/// The data that belongs to no key is stored, and loaded, before the first key.
#[allow(clippy::cast_possible_truncation)] // 1
const BEFORE_KEYS: c_int = raw::REDISMODULE_AUX_BEFORE_RDB as c_int;

/// Registers the type while the module is being loaded. Returns false if the server refuses.
pub(crate) fn register<T: DataType>(context: Context<'_>) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(load::<T>),
        rdb_save: Some(save::<T>),
        aof_rewrite: Some(rewrite::<T>),
        mem_usage: Some(memory_usage::<T>),
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        aux_load: Some(load_extra::<T>),
        // Redis 7.0 knows only `aux_save`. Other servers prefer `aux_save2`, which writes no record if there is nothing
        // to store.
        aux_save: Some(save_extra::<T>),
        aux_save2: Some(save_extra_if_any::<T>),
        aux_save_triggers: BEFORE_KEYS,
        free_effort: Some(free_effort::<T>),
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: Some(lost::<T>),
        copy2: None,
    };
    // SAFETY: the context is live and the name a C string; the server copies the methods.
    let made = unsafe {
        api!(RedisModule_CreateDataType)(
            context.raw,
            T::NAME.as_ptr(),
            T::ENCODING,
            &raw mut methods,
        )
    };
    T::handle().0.store(made, Ordering::Relaxed);
    !made.is_null()
}

/// Writes an RDB record.
pub(crate) struct RdbWriter(*mut raw::RedisModuleIO);

impl RdbWriter {
    pub(crate) fn number(&mut self, number: u64) {
        // SAFETY: the server's stream of the call that this writer was made for.
        unsafe { api!(RedisModule_SaveUnsigned)(self.0, number) };
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: as for `number`; the server reads exactly these bytes.
        unsafe { api!(RedisModule_SaveStringBuffer)(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }
}

/// Reads an RDB record. A field is `None` if the record does not have it.
pub(crate) struct RdbReader(*mut raw::RedisModuleIO);

impl RdbReader {
    pub(crate) fn number(&mut self) -> Option<u64> {
        // SAFETY: the server's stream of the call that this reader was made for; after an error
        // the number is meaningless and dropped.
        unsafe {
            let number = api!(RedisModule_LoadUnsigned)(self.0);
            (api!(RedisModule_IsIOError)(self.0) == 0).then_some(number)
        }
    }

    /// Passes a string of any length to `read`.
    pub(crate) fn bytes<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let mut length = 0;
        // SAFETY: the server gives a block of `length` bytes that is ours to free, or null.
        unsafe {
            let block = api!(RedisModule_LoadStringBuffer)(self.0, &raw mut length);
            if block.is_null() {
                return None;
            }
            let whole = api!(RedisModule_IsIOError)(self.0) == 0;
            let result = whole.then(|| read(std::slice::from_raw_parts(block.cast(), length)));
            api!(RedisModule_Free)(block.cast());
            result
        }
    }

    /// Logs why a record is refused.
    ///
    /// The level is a warning for a file or the data of a primary, which concern the operator. It is verbose for a
    /// payload of `RESTORE`, whose sender gets an error and may send many.
    fn log_refusal(&self, reason: &str) {
        // SAFETY: the server makes the context once for this stream, and frees it with that.
        let context = unsafe {
            let raw = api!(RedisModule_GetContextFromIO)(self.0);
            if raw.is_null() {
                return;
            }
            Context::new(raw)
        };
        let level = if context.flags().loading() {
            c"warning"
        } else {
            c"verbose"
        };
        let reason = CString::new(reason).unwrap_or_default();
        // SAFETY: the server's stream of this call; three C strings, and the format asks for the
        // one that is given.
        unsafe {
            api!(RedisModule_LogIOError)(self.0, level.as_ptr(), c"%s".as_ptr(), reason.as_ptr());
        }
    }
}

/// Writes commands into a rewritten append-only file.
pub(crate) struct AofWriter(*mut raw::RedisModuleIO);

impl AofWriter {
    /// Writes `command key bytes`.
    pub(crate) fn command(&mut self, command: &CStr, key: Text<'_>, bytes: &[u8]) {
        // SAFETY: the format `sb` asks for what follows: a server string, and a pointer with its
        // length.
        unsafe {
            api!(RedisModule_EmitAOF)(
                self.0,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.raw,
                bytes.as_ptr(),
                bytes.len(),
            );
        }
    }
}

/// A digest of values, for `DEBUG DIGEST`.
pub(crate) struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the server's digest of this call; it reads exactly these bytes.
        unsafe {
            api!(RedisModule_DigestAddStringBuffer)(self.0, bytes.as_ptr().cast(), bytes.len());
        }
    }

    pub(crate) fn number(&mut self, number: i64) {
        // SAFETY: the server's digest of this call.
        unsafe { api!(RedisModule_DigestAddLongLong)(self.0, number) };
    }
}

unsafe extern "C" fn load<T: DataType>(
    io: *mut raw::RedisModuleIO,
    encoding: c_int,
) -> *mut c_void {
    guard_logged(ptr::null_mut(), || {
        let mut stored = RdbReader(io);
        match T::load(&mut stored, encoding) {
            Ok(value) => value.into_raw(),
            Err(reason) => {
                stored.log_refusal(&reason);
                ptr::null_mut()
            }
        }
    })
}

unsafe extern "C" fn save<T: DataType>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    guard_logged((), || {
        // SAFETY: a value of our type, which does not change while it is saved.
        let value = unsafe { Value::by_ref(value) };
        T::save(value, &mut RdbWriter(io));
    });
}

unsafe extern "C" fn rewrite<T: DataType>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guard_logged((), || {
        // SAFETY: key and value live, and stay as they are, for the length of this call.
        let (key, value) = unsafe { (Text::new(key), Value::by_ref(value)) };
        T::rewrite(key, value, &mut AofWriter(io));
    });
}

unsafe extern "C" fn digest<T: DataType>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guard_logged((), || {
        // SAFETY: a value of our type, which does not change during this call.
        T::digest(unsafe { Value::by_ref(value) }, &mut Digest(digest));
        // SAFETY: the server's digest of this call.
        unsafe { api!(RedisModule_DigestEndSequence)(digest) };
    });
}

/// The memory of a value, including the server's two headers.
unsafe extern "C" fn memory_usage<T: DataType>(value: *const c_void) -> usize {
    const SERVER_HEADERS: usize = 16 + 16;
    guard_logged(0, || {
        // SAFETY: a value of our type.
        SERVER_HEADERS + unsafe { Value::<T::Large>::size(value) }
    })
}

/// The cost of freeing a value. The server frees expensive values in another thread.
unsafe extern "C" fn free_effort<T: DataType>(
    _key: *mut raw::RedisModuleString,
    value: *const c_void,
) -> usize {
    guard_logged(1, || {
        // SAFETY: a value of our type, which does not change during this call.
        match unsafe { Value::<T::Large>::by_ref(value) } {
            ValueRef::Bytes(_) => 1,
            ValueRef::Large(large) => large.entries(),
        }
    })
}

unsafe extern "C" fn lost<T: DataType>(
    options: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) {
    guard_logged((), || {
        // SAFETY: the server's options of this call, which name the key for as long as it lasts,
        // and a value of our type, which it still has.
        unsafe {
            Value::<T::Large>::is_deleted(value);
            let name = api!(RedisModule_GetKeyNameFromOptCtx)(options);
            let database = api!(RedisModule_GetDbIdFromOptCtx)(options);
            if !name.is_null() {
                let key = Text::new(name.cast_mut());
                T::lost(&Lost::new(detached(), database, key, Value::by_ref(value)));
            }
        }
    });
}

/// Frees a value. This may run on any thread.
unsafe extern "C" fn free<T: DataType>(value: *mut c_void) {
    guard_logged((), || {
        // SAFETY: the server gives up the value that `Value::into_raw` gave it.
        unsafe {
            Value::<T::Large>::count_if_flushed(value);
            drop(Value::<T::Large>::from_raw(value));
        }
    });
}

unsafe extern "C" fn save_extra<T: DataType>(io: *mut raw::RedisModuleIO, _when: c_int) {
    guard_logged((), || T::save_extra(&mut RdbWriter(io)));
}

unsafe extern "C" fn save_extra_if_any<T: DataType>(io: *mut raw::RedisModuleIO, when: c_int) {
    guard_logged((), || {
        if T::has_extra() {
            // SAFETY: the server's own arguments, handed on.
            unsafe { save_extra::<T>(io, when) };
        }
    });
}

unsafe extern "C" fn load_extra<T: DataType>(
    io: *mut raw::RedisModuleIO,
    encoding: c_int,
    _when: c_int,
) -> c_int {
    guard_logged(REFUSED, || {
        let mut stored = RdbReader(io);
        match T::load_extra(&mut stored, encoding) {
            Ok(()) => OK,
            Err(reason) => {
                stored.log_refusal(&reason);
                REFUSED
            }
        }
    })
}
