//! A key's value: bytes in one allocation.
//!
//! The server keeps one thin pointer for a value. So the first two bytes of the allocation are the length.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

use super::api::api;

const LENGTH_BYTES: usize = 2;

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// How many values exist.
pub(crate) fn values_alive() -> i64 {
    ALIVE.load(Ordering::Relaxed)
}

/// Values that were flushed while this server was a primary.
static FLUSHED: AtomicI64 = AtomicI64::new(0);
/// This server was a primary at the last flush.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// A flush is running on the main thread.
static FLUSHING: AtomicBool = AtomicBool::new(false);
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);
/// The value whose key was deleted last. It is freed next, on the same thread.
static DELETED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// How many values were flushed while this server was a primary.
pub(crate) fn values_flushed() -> i64 {
    FLUSHED.load(Ordering::Relaxed)
}

/// Starts to count flushed values. The server reports a flush and frees each value, but names no keys.
pub(crate) fn count_flushes(context: Context<'_>) {
    MAIN_THREAD.store(thread(), Ordering::Relaxed);
    subscribe(context, ServerEvent::Flushing, |context| {
        // The last deleted value may still exist: a rename deletes the key and keeps the value.
        is_deleted(ptr::null());
        COUNTS.store(!context.flags().replica_or_loading(), Ordering::Relaxed);
        FLUSHING.store(true, Ordering::Relaxed);
    });
    subscribe(context, ServerEvent::Flushed, |_| {
        FLUSHING.store(false, Ordering::Relaxed);
    });
}

/// The key of this value is being deleted, so freeing the value is no part of a flush.
pub(super) fn is_deleted(value: *const c_void) {
    DELETED.store(value.cast_mut(), Ordering::Relaxed);
}

/// Counts a value that the server frees, if that is part of a flush. The server's other threads free only
/// flushed values: single ones are too small for them. But a thread of another module may delete a key.
pub(super) fn count_if_flushed(value: *const c_void) {
    if !COUNTS.load(Ordering::Relaxed) {
        return;
    }
    let deleted = DELETED.load(Ordering::Relaxed).cast_const() == value;
    if deleted {
        DELETED.store(ptr::null_mut(), Ordering::Relaxed);
    } else if FLUSHING.load(Ordering::Relaxed) || thread() != MAIN_THREAD.load(Ordering::Relaxed) {
        FLUSHED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A number that no other thread has.
fn thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// An owned value of up to 65535 bytes.
pub(crate) struct Value(NonNull<u8>);

impl Value {
    /// A value of these bytes.
    ///
    /// # Panics
    ///
    /// When there are more than 65535.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let length = u16::try_from(bytes.len()).expect("a value of at most 65535 bytes");
        let mut block = Vec::with_capacity(LENGTH_BYTES + bytes.len());
        block.extend_from_slice(&length.to_ne_bytes());
        block.extend_from_slice(bytes);
        // `drop` makes it a box again, so the pointer must have the right to write and to free.
        let block = Box::into_raw(block.into_boxed_slice());
        ALIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a box's pointer is never null.
        Self(unsafe { NonNull::new_unchecked(block.cast()) })
    }

    /// Gives the value to the server.
    pub(super) fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    /// Takes a value back from the server.
    ///
    /// # Safety
    ///
    /// `raw` came from [`Value::into_raw`], and nobody else uses it any more.
    pub(super) unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: `into_raw` gave a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(raw.cast()) })
    }

    /// The bytes of a value that the server holds.
    ///
    /// # Safety
    ///
    /// `raw` came from [`Value::into_raw`], and is neither changed nor taken back during `'a`.
    pub(super) unsafe fn bytes<'a>(raw: *const c_void) -> &'a [u8] {
        let start = raw.cast::<u8>();
        // SAFETY: by the caller's promise the block starts with its length.
        unsafe { std::slice::from_raw_parts(start.add(LENGTH_BYTES), Self::length(start)) }
    }

    /// As [`Value::bytes`], mutable.
    ///
    /// # Safety
    ///
    /// As for [`Value::bytes`], and nobody else looks at the bytes during `'a`.
    pub(super) unsafe fn bytes_mut<'a>(raw: *mut c_void) -> &'a mut [u8] {
        let start = raw.cast::<u8>();
        // SAFETY: by the caller's promise the block starts with its length.
        unsafe { std::slice::from_raw_parts_mut(start.add(LENGTH_BYTES), Self::length(start)) }
    }

    /// The memory of a value that the server holds.
    ///
    /// # Safety
    ///
    /// As for [`Value::bytes`].
    pub(super) unsafe fn size(raw: *const c_void) -> usize {
        // SAFETY: by the caller's promise the block starts with its length, and is one allocation
        // of the server's allocator, except in a build that does not use that.
        unsafe {
            if cfg!(feature = "system-allocator") {
                LENGTH_BYTES + Self::length(raw.cast())
            } else {
                api!(RedisModule_MallocSize)(raw.cast_mut())
            }
        }
    }

    /// # Safety
    ///
    /// `start` points to a whole block.
    unsafe fn length(start: *const u8) -> usize {
        // SAFETY: a block has at least the bytes of its length.
        usize::from(u16::from_ne_bytes(unsafe {
            start.cast::<[u8; 2]>().read()
        }))
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: the block was made by `new` as a boxed slice of this length, and is ours.
        unsafe {
            let length = LENGTH_BYTES + Self::length(self.0.as_ptr());
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
                self.0.as_ptr(),
                length,
            )));
        }
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_bytes_as_a_raw_pointer() {
        for bytes in [vec![], b"one".to_vec(), vec![0xff; 65535]] {
            let raw = Value::new(&bytes).into_raw();
            // SAFETY: `raw` is from `into_raw` just above, and used here alone.
            unsafe {
                assert_eq!(Value::bytes(raw), bytes);
                Value::bytes_mut(raw).fill(7);
                assert!(Value::bytes(raw).iter().all(|byte| *byte == 7));
                drop(Value::from_raw(raw));
            }
        }
    }
}
