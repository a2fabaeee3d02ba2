//! The global allocator is the server's, so that memory counts towards `maxmemory` and `INFO memory`. A
//! build with the feature `system-allocator`, for memory checkers, leaves it out.

use std::alloc::{GlobalAlloc, Layout, System};

use redis_module::raw;

/// The largest alignment that the server's allocators guarantee (C's `max_align_t`), for a block whose size
/// is a multiple of it. The jemalloc in Redis (`--with-lg-quantum=3`) aligns blocks of up to 24, 40 and 56
/// bytes to 8 alone.
const PROMISED_ALIGNMENT: usize = 16;

/// The size to ask for, so that a block of this alignment has it.
const fn size_to_ask(size: usize, alignment: usize) -> usize {
    if alignment < PROMISED_ALIGNMENT {
        size
    } else {
        size.next_multiple_of(PROMISED_ALIGNMENT)
    }
}

/// The server's allocator in a server, the system's in unit tests.
///
/// A process uses the same one from its first allocation on: in a server nothing is allocated before the
/// API's pointers are set. So a block is always freed by the allocator that it is from.
pub(crate) struct ServerAllocator;

// SAFETY: each method hands its arguments on to one allocator, always the same one in a process;
// a layout that the server's allocator does not guarantee gets a null.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the pointer is the server's own; `layout` is the caller's promise.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(_) if layout.align() > PROMISED_ALIGNMENT => std::ptr::null_mut(),
                Some(alloc) => alloc(size_to_ask(layout.size(), layout.align())).cast(),
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
                Some(realloc) => {
                    realloc(block.cast(), size_to_ask(new_size, layout.align())).cast()
                }
                None => System.realloc(block, layout, new_size),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size_to_ask;

    #[test]
    fn a_block_that_is_aligned_to_16_has_a_multiple_of_16() {
        for (size, alignment, asked) in [
            (52, 16, 64),
            (64, 16, 64),
            (1, 16, 16),
            (52, 8, 52),
            (7, 1, 7),
        ] {
            assert_eq!(size_to_ask(size, alignment), asked, "{size}, {alignment}");
        }
    }
}
