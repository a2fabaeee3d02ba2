//! A key's value: one allocation of bytes behind one thin pointer.
//!
//! The server keeps a single pointer for a value. The length lies in the first two bytes of the
//! allocation itself, so that a value costs no second allocation and no fat pointer.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

use super::api::api;

const LENGTH_BYTES: usize = 2;

static ALIVE: AtomicI64 = AtomicI64::new(0);

/// How many values exist now, in keys and on their way to or from one.
pub(crate) fn values_alive() -> i64 {
    ALIVE.load(Ordering::Relaxed)
}

/// Values that went with a flush of this server as a primary.
static FLUSHED: AtomicI64 = AtomicI64::new(0);
/// The last flush was of this server as a primary.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// A flush is under way on the main thread.
static FLUSHING: AtomicBool = AtomicBool::new(false);
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);
/// The value whose key was deleted last, until it is freed: at once, and on the same thread.
static DELETED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// How many values were flushed since the server was started, as a primary.
pub(crate) fn values_flushed() -> i64 {
    FLUSHED.load(Ordering::Relaxed)
}

/// Starts to count the values that flushes take away: the server tells of a flush, and frees each
/// value, but names no key.
pub(crate) fn count_flushes(context: Context<'_>) {
    MAIN_THREAD.store(thread(), Ordering::Relaxed);
    subscribe(context, ServerEvent::Flushing, |context| {
        // A key that was renamed counts as deleted, and its value lives on.
        is_deleted(ptr::null());
        COUNTS.store(!context.flags().as_told(), Ordering::Relaxed);
        FLUSHING.store(true, Ordering::Relaxed);
    });
    subscribe(context, ServerEvent::Flushed, |_| {
        FLUSHING.store(false, Ordering::Relaxed);
    });
}

/// The key of a value is being deleted by itself: it is no part of a flush, whoever frees it.
pub(super) fn is_deleted(value: *const c_void) {
    DELETED.store(value.cast_mut(), Ordering::Relaxed);
}

/// Counts a value that the server frees, where that is part of a flush. The server's other threads free
/// values for nothing else, since those that are deleted one by one are too small for them; a thread
/// of another module may delete one while it holds the server.
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

/// An owned value. Its bytes are up to 65535.
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
        // The way in which `drop` makes it a box again: with the right to write and to free.
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

    /// As [`Value::bytes`], to change them in place.
    ///
    /// # Safety
    ///
    /// As for [`Value::bytes`], and nobody else looks at the bytes during `'a`.
    pub(super) unsafe fn bytes_mut<'a>(raw: *mut c_void) -> &'a mut [u8] {
        let start = raw.cast::<u8>();
        // SAFETY: by the caller's promise the block starts with its length.
        unsafe { std::slice::from_raw_parts_mut(start.add(LENGTH_BYTES), Self::length(start)) }
    }

    /// What a value that the server holds takes in memory.
    ///
    /// # Safety
    ///
    /// As for [`Value::bytes`].
    pub(super) unsafe fn size(raw: *const c_void) -> usize {
        // SAFETY: by the caller's promise the block starts with its length, and is one allocation
        // of the server's allocator, but in a build that does not use that.
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
    fn a_value_keeps_its_bytes_through_the_server_and_back() {
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
