//! Memory comes from the server, so that it counts towards `maxmemory` and `INFO memory`. Not in a
//! build with the feature `system-allocator`, which is for memory checkers.

use std::alloc::{GlobalAlloc, Layout, System};

use redis_module::raw;

/// The strictest alignment that the server's allocators promise (C's `max_align_t`).
const PROMISED_ALIGNMENT: usize = 16;

/// The server's allocator inside a server, the system's in tests and benchmarks of the pure core.
///
/// A process is one or the other from its first allocation on: in a server nothing is allocated
/// before the API's pointers are set, so no block is ever given to the allocator it is not from.
pub(crate) struct ServerAllocator;

// SAFETY: each method hands its arguments on to one allocator, always the same one in a process;
// a layout that the server's allocator does not promise to honour gets none.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the pointer is the server's own; `layout` is the caller's promise.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(_) if layout.align() > PROMISED_ALIGNMENT => std::ptr::null_mut(),
                Some(alloc) => alloc(layout.size()).cast(),
                None => System.alloc(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` is from `alloc` above, and so from the same allocator.
        unsafe {
            match raw::RedisModule_Free {
                Some(free) => free(block.cast()),
                None => System.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; the alignment was checked when the block was made.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(realloc) => realloc(block.cast(), new_size).cast(),
                None => System.realloc(block, layout, new_size),
            }
        }
    }
}
