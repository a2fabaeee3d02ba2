//! A key of the keyspace, open during a command.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;

use super::api::{OK, api};
use super::{Context, DataType, Text, Value, ValueRef, other_modules};

/// The server's code for a key that holds nothing.
#[allow(clippy::cast_possible_truncation)] // 0
const EMPTY: i32 = raw::REDISMODULE_KEYTYPE_EMPTY as i32;

/// An open key, for values of the module's type `T`. On a primary, opening it deletes it if it has expired.
pub(crate) struct Key<'call, T> {
    raw: *mut raw::RedisModuleKey,
    name: Text<'call>,
    context: Context<'call>,
    found: Found,
    content: PhantomData<T>,
}

/// The content of a key, which is read from the server once and then kept up to date.
#[derive(Clone, Copy)]
enum Found {
    Empty,
    Ours(*mut c_void),
    Other,
}

/// The content of a key.
pub(crate) enum Content<'key, L> {
    /// Nothing.
    Empty,
    /// A value of the module's type.
    Ours(ValueRef<'key, L>),
    /// A value of another type.
    Other,
}

impl<'call, T: DataType> Key<'call, T> {
    /// Opens the key for reading.
    pub(crate) fn read(context: Context<'call>, name: Text<'call>) -> Self {
        Self::open(context, name, raw::REDISMODULE_READ)
    }

    /// Opens the key for reading and writing. Only [`Context::signal_modified`] announces a change.
    pub(crate) fn write(context: Context<'call>, name: Text<'call>) -> Self {
        const MODE: u32 = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
        let key = Self::open(context, name, MODE);
        if other_modules::none() || !matches!(key.found, Found::Empty) {
            return key;
        }
        // If the key expired just now, another module may have created it again in its handler of that event. Only a
        // second handle shows the new key.
        drop(key);
        Self::open(context, name, MODE)
    }

    fn open(context: Context<'call>, name: Text<'call>, mode: u32) -> Self {
        // SAFETY: context and name are live; an absent key opened for reading is a null, which the
        // server takes as an empty key.
        let (raw, found) = unsafe {
            let raw = api!(RedisModule_OpenKey)(context.raw, name.raw, mode.cast_signed());
            let found = if api!(RedisModule_KeyType)(raw) == EMPTY {
                Found::Empty
            } else if api!(RedisModule_ModuleTypeGetType)(raw) == T::handle().raw() {
                Found::Ours(api!(RedisModule_ModuleTypeGetValue)(raw))
            } else {
                Found::Other
            };
            (raw, found)
        };
        Self {
            raw,
            name,
            context,
            found,
            content: PhantomData,
        }
    }

    pub(crate) const fn name(&self) -> Text<'call> {
        self.name
    }

    pub(crate) const fn context(&self) -> Context<'call> {
        self.context
    }

    /// The current content of the key.
    pub(crate) fn content(&self) -> Content<'_, T::Large> {
        match self.found {
            Found::Empty => Content::Empty,
            // SAFETY: a value of our type is one that `Value::into_raw` made, and while the key is
            // open it changes only through `&mut self`.
            Found::Ours(value) => Content::Ours(unsafe { Value::by_ref(value) }),
            Found::Other => Content::Other,
        }
    }

    /// When the key expires, in milliseconds since 1970; `None` for never.
    ///
    /// Does not ask the server about an empty key, because that crashes Redis 8.2.
    pub(crate) fn expiry(&self) -> Option<u64> {
        if matches!(self.found, Found::Empty) {
            return None;
        }
        // SAFETY: the key is open and not empty.
        let at = unsafe { api!(RedisModule_GetAbsExpire)(self.raw) };
        u64::try_from(at).ok()
    }

    /// Sets or removes the expiry of a key that holds a value.
    pub(crate) fn set_expiry(&mut self, at: Option<u64>) {
        let at = at.map_or(i64::from(raw::REDISMODULE_NO_EXPIRE), |at| {
            i64::try_from(at).unwrap_or(i64::MAX)
        });
        // SAFETY: the key is open; the server refuses it when it is empty or open to read.
        unsafe { api!(RedisModule_SetAbsExpire)(self.raw, at) };
    }

    /// Sets the value of a key that holds none of this type. Removes the expiry.
    fn create(&mut self, value: Value<T::Large>) {
        let value = value.into_raw();
        // SAFETY: the key is open to write and no reference into its old value is left, since
        // `self` is borrowed mutably; on refusal the value is still ours.
        unsafe {
            let set = api!(RedisModule_ModuleTypeSetValue);
            if set(self.raw, T::handle().raw(), value) == OK {
                self.found = Found::Ours(value);
            } else {
                drop(Value::<T::Large>::from_raw(value));
            }
        }
    }

    /// Sets the value of the key to these bytes, in place if possible.
    #[inline]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        if let Found::Ours(before) = self.found {
            // SAFETY: the key holds a value of our type, and no reference into it is left.
            let before = unsafe { Value::<T::Large>::bytes_mut(before) };
            if let Some(before) = before.filter(|before| before.len() == bytes.len()) {
                before.copy_from_slice(bytes);
                return;
            }
        }
        self.put(Value::new(bytes));
    }

    /// Sets the value of the key. The expiry stays if the key had a value of this type.
    pub(crate) fn put(&mut self, value: Value<T::Large>) {
        let Found::Ours(_) = self.found else {
            self.create(value);
            return;
        };
        let value = value.into_raw();
        let mut old = ptr::null_mut();
        // SAFETY: the key holds a value of our type, and no reference into it is left. The old value comes
        // back and is ours again; on refusal the new one still is.
        unsafe {
            let replace = api!(RedisModule_ModuleTypeReplaceValue);
            if replace(self.raw, T::handle().raw(), value, &raw mut old) == OK {
                self.found = Found::Ours(value);
                drop(Value::<T::Large>::from_raw(old));
            } else {
                drop(Value::<T::Large>::from_raw(value));
            }
        }
    }

    /// Changes the value if it is large. Returns `None` otherwise.
    pub(crate) fn change_large<R>(&mut self, change: impl FnOnce(&mut T::Large) -> R) -> Option<R> {
        let Found::Ours(value) = self.found else {
            return None;
        };
        // SAFETY: the key holds a value of our type, and no reference into it is left.
        unsafe { Value::<T::Large>::change_large(value, change) }
    }

    /// Deletes the key.
    pub(crate) fn delete(&mut self) {
        self.found = Found::Empty;
        // SAFETY: the key is open, and no reference into its value is left.
        unsafe { api!(RedisModule_DeleteKey)(self.raw) };
    }
}

impl<T> Drop for Key<'_, T> {
    fn drop(&mut self) {
        // SAFETY: opened by us and closed once; the server takes a null.
        unsafe { api!(RedisModule_CloseKey)(self.raw) };
    }
}
