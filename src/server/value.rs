//! The value of a key: one entry as bytes in one allocation, or several entries in a box.
//!
//! The server keeps one thin pointer for a value. Its lowest bit says which of the two forms the value has. Bytes begin
//! with their length.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};

use super::Context;
use super::events::{ServerEvent, subscribe};

use super::api::api;

const LENGTH_BYTES: usize = 2;
/// Set in the pointer to a value with several entries. The address of bytes is always even.
const LARGE: usize = 1;

/// A value with several entries, in a form that the module chooses. It may be freed on any thread.
pub(crate) trait Large: Send {
    /// The number of entries. (Bytes count as one entry.)
    fn entries(&self) -> usize;
    /// The memory that the value uses in addition to its own size.
    fn memory(&self) -> usize;
}

static ALIVE: AtomicI64 = AtomicI64::new(0);
/// The number of entries of all values, minus the number of values.
static MORE_ENTRIES: AtomicI64 = AtomicI64::new(0);

/// The number of values that exist.
pub(crate) fn values_alive() -> i64 {
    ALIVE.load(Ordering::Relaxed)
}

/// The number of entries of all values that exist.
pub(crate) fn entries_alive() -> i64 {
    values_alive() + MORE_ENTRIES.load(Ordering::Relaxed)
}

fn add_entries(more: usize, fewer: usize) {
    let difference = more.cast_signed().wrapping_sub(fewer.cast_signed());
    MORE_ENTRIES.fetch_add(difference as i64, Ordering::Relaxed);
}

/// The number of entries that were flushed while this server was a primary.
static FLUSHED: AtomicI64 = AtomicI64::new(0);
/// True if this server was a primary at the last flush.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// True while a flush runs on the main thread.
static FLUSHING: AtomicBool = AtomicBool::new(false);
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);
/// The bytes value whose key was deleted last. The server frees it next, on the same thread.
static DELETED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The number of entries that were flushed while this server was a primary.
pub(crate) fn entries_flushed() -> i64 {
    FLUSHED.load(Ordering::Relaxed)
}

/// Starts to count flushed values. The server reports a flush and frees each value, but does not report the keys.
pub(crate) fn count_flushes(context: Context<'_>) {
    MAIN_THREAD.store(thread(), Ordering::Relaxed);
    subscribe(context, ServerEvent::Flushing, |context| {
        // The last deleted value may still exist, because a rename deletes the key but keeps the value.
        DELETED.store(ptr::null_mut(), Ordering::Relaxed);
        COUNTS.store(!context.flags().replica_or_loading(), Ordering::Relaxed);
        FLUSHING.store(true, Ordering::Relaxed);
    });
    subscribe(context, ServerEvent::Flushed, |_| {
        FLUSHING.store(false, Ordering::Relaxed);
    });
    // After such a load another thread frees the old values, or the new ones if the load fails. That is not a flush.
    subscribe(context, ServerEvent::LoadingBeside, |_| {
        COUNTS.store(false, Ordering::Relaxed);
    });
}

/// A number that identifies the current thread.
fn thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// An owned value.
pub(crate) struct Value<L: Large>(NonNull<u8>, PhantomData<L>);

/// A value that the server holds.
pub(crate) enum ValueRef<'a, L> {
    /// One entry as bytes.
    Bytes(&'a [u8]),
    /// Several entries.
    Large(&'a L),
}

struct Boxed<L> {
    /// True if the key was deleted, so that freeing the value is not part of a flush. Another thread may free it later.
    deleted: AtomicBool,
    large: L,
}

impl<L: Large> Value<L> {
    /// A value with these bytes.
    ///
    /// # Panics
    ///
    /// If there are more than 65535 bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let length = u16::try_from(bytes.len()).expect("a value of at most 65535 bytes");
        let layout = layout(bytes.len());
        // SAFETY: the layout is not empty, and the block has room for the length and the bytes.
        let block = unsafe {
            let block = NonNull::new(alloc(layout)).unwrap_or_else(|| handle_alloc_error(layout));
            block.cast().write(length.to_ne_bytes());
            let start = block.add(LENGTH_BYTES).as_ptr();
            ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            block
        };
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self(block, PhantomData)
    }

    /// A value with these entries.
    pub(crate) fn large(large: L) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        add_entries(large.entries(), 1);
        let deleted = AtomicBool::new(false);
        let boxed = NonNull::from(Box::leak(Box::new(Boxed { deleted, large })));
        Self(
            boxed.cast().map_addr(|address| address | LARGE),
            PhantomData,
        )
    }

    /// Gives the value to the server.
    pub(super) fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    /// Takes a value back from the server.
    ///
    /// # Safety
    ///
    /// `raw` came from [`Value::into_raw`], and nobody else uses it from now on.
    pub(super) unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: `into_raw` gave a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(raw.cast()) }, PhantomData)
    }

    /// A value that the server holds.
    ///
    /// # Safety
    ///
    /// `raw` came from [`Value::into_raw`], and is neither changed nor taken back during `'a`.
    pub(super) unsafe fn by_ref<'a>(raw: *const c_void) -> ValueRef<'a, L> {
        // SAFETY: by the caller's promise it is a whole value.
        unsafe {
            if let Some(boxed) = boxed(raw) {
                ValueRef::Large(&(*boxed).large)
            } else {
                let start = raw.cast::<u8>();
                let bytes = std::slice::from_raw_parts(start.add(LENGTH_BYTES), length(start));
                ValueRef::Bytes(bytes)
            }
        }
    }

    /// The bytes of a value that the server holds; `None` if the value has several entries.
    ///
    /// # Safety
    ///
    /// As for [`Value::by_ref`], and nobody else reads the bytes during `'a`.
    pub(super) unsafe fn bytes_mut<'a>(raw: *mut c_void) -> Option<&'a mut [u8]> {
        if is_large(raw) {
            return None;
        }
        let start = raw.cast::<u8>();
        // SAFETY: by the caller's promise the block starts with its length.
        Some(unsafe { std::slice::from_raw_parts_mut(start.add(LENGTH_BYTES), length(start)) })
    }

    /// Changes the entries of a value that the server holds. Returns `None` if the value is bytes.
    ///
    /// # Safety
    ///
    /// As for [`Value::bytes_mut`], during `change`.
    pub(super) unsafe fn change_large<R>(
        raw: *mut c_void,
        change: impl FnOnce(&mut L) -> R,
    ) -> Option<R> {
        // SAFETY: by the caller's promise nobody else uses it.
        let large = unsafe { &mut (*boxed::<L>(raw)?.cast_mut()).large };
        let before = large.entries();
        let result = change(large);
        add_entries(large.entries(), before);
        Some(result)
    }

    /// The memory of a value that the server holds.
    ///
    /// # Safety
    ///
    /// As for [`Value::by_ref`].
    pub(super) unsafe fn size(raw: *const c_void) -> usize {
        // SAFETY: by the caller's promise it is a whole value, and one allocation of the server's
        // allocator, except in a build that does not use that.
        unsafe {
            let (block, size, more) = match (boxed::<L>(raw), Self::by_ref(raw)) {
                (Some(boxed), ValueRef::Large(large)) => {
                    (boxed.cast(), size_of::<Boxed<L>>(), large.memory())
                }
                (_, ValueRef::Bytes(bytes)) => (raw, LENGTH_BYTES + bytes.len(), 0),
                (None, ValueRef::Large(_)) => (raw, 0, 0),
            };
            if cfg!(feature = "system-allocator") {
                size + more
            } else {
                more + api!(RedisModule_MallocSize)(block.cast_mut())
            }
        }
    }

    /// Records that the key of this value is being deleted, so that freeing the value is not part of a flush.
    ///
    /// # Safety
    ///
    /// As for [`Value::by_ref`].
    pub(super) unsafe fn is_deleted(raw: *const c_void) {
        match boxed::<L>(raw) {
            // SAFETY: by the caller's promise it is a whole value.
            Some(boxed) => unsafe { &(*boxed).deleted }.store(true, Ordering::Relaxed),
            None => DELETED.store(raw.cast_mut(), Ordering::Relaxed),
        }
    }

    /// Counts a value that the server frees, if that is part of a flush.
    ///
    /// The server's other threads free only flushed values and large values, because bytes are too small to be freed
    /// there. But a thread of another module may delete a key.
    ///
    /// # Safety
    ///
    /// As for [`Value::by_ref`].
    pub(super) unsafe fn count_if_flushed(raw: *const c_void) {
        if !COUNTS.load(Ordering::Relaxed) {
            return;
        }
        let (deleted, entries) = match boxed::<L>(raw) {
            // SAFETY: by the caller's promise it is a whole value.
            Some(boxed) => unsafe {
                let boxed = &*boxed;
                (boxed.deleted.load(Ordering::Relaxed), boxed.large.entries())
            },
            None => (DELETED.load(Ordering::Relaxed).cast_const() == raw, 1),
        };
        if deleted {
            if !is_large(raw) {
                DELETED.store(ptr::null_mut(), Ordering::Relaxed);
            }
        } else if FLUSHING.load(Ordering::Relaxed)
            || thread() != MAIN_THREAD.load(Ordering::Relaxed)
        {
            let entries = i64::try_from(entries).unwrap_or(i64::MAX);
            FLUSHED.fetch_add(entries, Ordering::Relaxed);
        }
    }
}

impl<L: Large> Drop for Value<L> {
    fn drop(&mut self) {
        let raw = self.0.as_ptr().cast();
        // SAFETY: the value is ours, made by `new` or `large`.
        unsafe {
            if let Some(boxed) = boxed::<L>(raw) {
                let boxed = Box::from_raw(boxed.cast_mut());
                add_entries(1, boxed.large.entries());
            } else {
                let start = self.0.as_ptr();
                dealloc(start, layout(length(start)));
            }
        }
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn layout(length: usize) -> Layout {
    Layout::from_size_align(LENGTH_BYTES + length, 2).expect("a size of at most 64 kB")
}

fn is_large(raw: *const c_void) -> bool {
    raw.addr() & LARGE != 0
}

/// The box of a value with several entries; `None` if the value is bytes.
fn boxed<L>(raw: *const c_void) -> Option<*const Boxed<L>> {
    is_large(raw).then(|| raw.map_addr(|address| address & !LARGE).cast())
}

/// # Safety
///
/// `start` points to a whole block of bytes.
unsafe fn length(start: *const u8) -> usize {
    // SAFETY: a block has at least the bytes of its length.
    usize::from(u16::from_ne_bytes(unsafe {
        start.cast::<[u8; 2]>().read()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Large for Vec<u64> {
        fn entries(&self) -> usize {
            self.len()
        }
        fn memory(&self) -> usize {
            8 * self.capacity()
        }
    }

    #[test]
    fn a_value_keeps_its_bytes_as_a_raw_pointer() {
        for bytes in [vec![], b"one".to_vec(), vec![0xff; 65535]] {
            let raw = Value::<Vec<u64>>::new(&bytes).into_raw();
            // SAFETY: `raw` is from `into_raw` just above, and used here alone.
            unsafe {
                let stored = Value::<Vec<u64>>::by_ref(raw);
                assert!(matches!(stored, ValueRef::Bytes(stored) if *stored == bytes));
                Value::<Vec<u64>>::bytes_mut(raw).unwrap().fill(7);
                assert!(Value::<Vec<u64>>::change_large(raw, |_| ()).is_none());
                let ValueRef::Bytes(stored) = Value::<Vec<u64>>::by_ref(raw) else {
                    panic!("bytes");
                };
                assert!(stored.iter().all(|byte| *byte == 7));
                drop(Value::<Vec<u64>>::from_raw(raw));
            }
        }
    }

    #[test]
    fn several_entries_are_kept_and_changed_as_a_raw_pointer() {
        let raw = Value::large(vec![1_u64, 2]).into_raw();
        // SAFETY: `raw` is from `into_raw` just above, and used here alone.
        unsafe {
            assert!(Value::<Vec<u64>>::bytes_mut(raw).is_none());
            Value::<Vec<u64>>::change_large(raw, |numbers| numbers.push(3)).unwrap();
            let stored = Value::<Vec<u64>>::by_ref(raw);
            assert!(matches!(stored, ValueRef::Large(numbers) if *numbers == [1, 2, 3]));
            drop(Value::<Vec<u64>>::from_raw(raw));
        }
    }

    #[test]
    fn a_value_that_is_freed_on_another_thread_was_flushed_unless_its_key_was_deleted() {
        MAIN_THREAD.store(thread(), Ordering::Relaxed);
        COUNTS.store(true, Ordering::Relaxed);
        let make = [
            || Value::<Vec<u64>>::new(b"one").into_raw(),
            || Value::large(vec![1_u64, 2]).into_raw(),
        ];
        for (make, entries) in make.into_iter().zip([1, 2]) {
            for deleted in [true, false] {
                let before = entries_flushed();
                let raw = AtomicPtr::new(make());
                let free = move || {
                    let raw = raw.into_inner();
                    // SAFETY: `raw` is from `into_raw`, and used here alone.
                    unsafe {
                        if deleted {
                            Value::<Vec<u64>>::is_deleted(raw);
                        }
                        Value::<Vec<u64>>::count_if_flushed(raw);
                        drop(Value::<Vec<u64>>::from_raw(raw));
                    }
                };
                std::thread::spawn(free).join().unwrap();
                let flushed = if deleted { 0 } else { entries };
                assert_eq!(entries_flushed() - before, flushed);
            }
        }
    }
}
