//! Settings for `CONFIG GET`, `SET`, `REWRITE` and redis.conf. The server prefixes their names with the module's name.

use std::ffi::{CStr, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis_module::raw;

use super::Context;
use super::api::{OK, REFUSED, api};
use super::guard::guard_logged;

/// An integer setting, which the server keeps within its bounds.
pub(crate) struct NumericSetting {
    name: &'static CStr,
    default: i64,
    min: i64,
    max: i64,
    current: AtomicI64,
}

impl NumericSetting {
    pub(crate) const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        Self {
            name,
            default,
            min,
            max,
            current: AtomicI64::new(default),
        }
    }

    /// The current value.
    pub(crate) fn get(&self) -> i64 {
        self.current.load(Ordering::Relaxed)
    }
}

/// A setting that is `yes` or `no`.
pub(crate) struct SwitchSetting {
    name: &'static CStr,
    default: bool,
    current: AtomicBool,
}

impl SwitchSetting {
    pub(crate) const fn new(name: &'static CStr, default: bool) -> Self {
        Self {
            name,
            default,
            current: AtomicBool::new(default),
        }
    }

    /// The current value.
    pub(crate) fn is_on(&self) -> bool {
        self.current.load(Ordering::Relaxed)
    }
}

/// Registers a switch while the module is being loaded. Returns false if the server refuses.
pub(crate) fn register_switch(context: Context<'_>, setting: &'static SwitchSetting) -> bool {
    // SAFETY: the context is live, and the setting that the callbacks get is static.
    let code = unsafe {
        api!(RedisModule_RegisterBoolConfig)(
            context.raw,
            setting.name.as_ptr(),
            c_int::from(setting.default),
            raw::REDISMODULE_CONFIG_DEFAULT,
            Some(is_on),
            Some(switch),
            None,
            std::ptr::from_ref(setting).cast_mut().cast(),
        )
    };
    code == OK
}

/// Registers a setting while the module is being loaded. Returns false if the server refuses.
pub(crate) fn register(context: Context<'_>, setting: &'static NumericSetting) -> bool {
    // SAFETY: the context is live, and the setting that the callbacks get is static.
    let code = unsafe {
        api!(RedisModule_RegisterNumericConfig)(
            context.raw,
            setting.name.as_ptr(),
            setting.default,
            raw::REDISMODULE_CONFIG_DEFAULT,
            setting.min,
            setting.max,
            Some(get),
            Some(set),
            None,
            std::ptr::from_ref(setting).cast_mut().cast(),
        )
    };
    code == OK
}

/// Loads the settings from redis.conf. Must be called after all settings are registered.
pub(crate) fn load_settings(context: Context<'_>) -> bool {
    // SAFETY: the context is live.
    let code = unsafe { api!(RedisModule_LoadConfigs)(context.raw) };
    code == OK
}

unsafe extern "C" fn get(_name: *const std::ffi::c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: `register` passed a static setting.
    guard_logged(0, || unsafe { &*setting.cast::<NumericSetting>() }.get())
}

unsafe extern "C" fn set(
    _name: *const std::ffi::c_char,
    value: c_longlong,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard_logged(REFUSED, || {
        // SAFETY: `register` passed a static setting.
        let setting = unsafe { &*setting.cast::<NumericSetting>() };
        setting.current.store(value, Ordering::Relaxed);
        OK
    })
}

unsafe extern "C" fn is_on(_name: *const std::ffi::c_char, setting: *mut c_void) -> c_int {
    guard_logged(0, || {
        // SAFETY: `register_switch` passed a static setting.
        c_int::from(unsafe { &*setting.cast::<SwitchSetting>() }.is_on())
    })
}

unsafe extern "C" fn switch(
    _name: *const std::ffi::c_char,
    value: c_int,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard_logged(REFUSED, || {
        // SAFETY: `register_switch` passed a static setting.
        let setting = unsafe { &*setting.cast::<SwitchSetting>() };
        setting.current.store(value != 0, Ordering::Relaxed);
        OK
    })
}
