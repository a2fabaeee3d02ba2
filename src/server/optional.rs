//! Functions that only some servers have, and that the bindings lack.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::api::api;

/// A function of the server that is looked up by name at its first use.
pub(super) struct Optional<F> {
    name: &'static CStr,
    found: OnceLock<Option<F>>,
}

impl<F: Copy> Optional<F> {
    /// # Safety
    ///
    /// `F` is a function pointer, of the type of the function that servers have by this name.
    pub(super) const unsafe fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: OnceLock::new(),
        }
    }

    /// The function; `None` if the server does not have it.
    pub(super) fn get(&self) -> Option<F> {
        *self.found.get_or_init(|| {
            let mut address: *mut c_void = ptr::null_mut();
            // SAFETY: the server writes the function's address where it knows the name, and nothing
            // else; by the promise of `new`, `F` is the pointer that is written.
            unsafe {
                api!(RedisModule_GetApi)(self.name.as_ptr(), (&raw mut address).cast());
                (!address.is_null()).then(|| std::mem::transmute_copy::<*mut c_void, F>(&address))
            }
        })
    }
}
