//! Uses the server's allocator as the global allocator, so that memory counts towards `maxmemory` and `INFO memory`.
//! The feature `system-allocator` disables this for memory checkers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use redis_module::raw;

/// The alignment of all blocks of the server. It is smaller than that of C's `malloc`, because the server builds
/// jemalloc with sizes of 24, 40 and 56 bytes (`--with-lg-quantum=3`), or puts 8 bytes of its own before a block.
const ALIGNMENT: usize = 8;

/// The server's allocator in a server, and the system's allocator in unit tests.
///
/// A process uses the same allocator from its first allocation on, because in a server nothing is allocated before the
/// pointers of the API are set. So each block is freed by the allocator that it came from.
///
/// A block with more than the server's alignment (for a hash table, for example) is part of a larger block.
pub(crate) struct ServerAllocator;

// SAFETY: each method hands its arguments on to one allocator, always the same one in a process; a
// block is aligned as the allocator does it, or as `alloc_aligned` does.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the pointer is the server's own; `layout` is the caller's promise.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) if layout.align() > ALIGNMENT => {
                    alloc_aligned(layout, |size| alloc(size).cast())
                }
                Some(alloc) => alloc(layout.size()).cast(),
                None => System.alloc(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` is from `alloc` above, and so from the same allocator.
        unsafe {
            match raw::RedisModule_Free {
                Some(free) if layout.align() > ALIGNMENT => free(start_of(block).cast()),
                Some(free) => free(block.cast()),
                None => System.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; by the caller's promise `new_size` is right for the alignment.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(_) if layout.align() > ALIGNMENT => {
                    let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
                    let new = self.alloc(new_layout);
                    if !new.is_null() {
                        ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                        self.dealloc(block, layout);
                    }
                    new
                }
                Some(realloc) => realloc(block.cast(), new_size).cast(),
                None => System.realloc(block, layout, new_size),
            }
        }
    }
}

/// Allocates a block inside a larger block from `alloc`. Its distance from the start of the larger block is stored just
/// before it.
///
/// # Safety
///
/// `alloc` gives blocks of the requested size and with [`ALIGNMENT`], or null.
#[allow(clippy::cast_ptr_alignment)] // blocks are aligned to 8 bytes at least
unsafe fn alloc_aligned(layout: Layout, alloc: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    let start = match layout.size().checked_add(layout.align()) {
        Some(size) => alloc(size),
        None => ptr::null_mut(),
    };
    if start.is_null() {
        return start;
    }
    // From ALIGNMENT to the alignment asked for: both are powers of two.
    let distance = layout.align() - start.addr() % layout.align();
    // SAFETY: the larger block has room for this distance and the size. The distance is at least 8
    // bytes, and so is before the block and aligned.
    unsafe {
        let block = start.add(distance);
        block.cast::<usize>().sub(1).write(distance);
        block
    }
}

/// The start of the larger block.
///
/// # Safety
///
/// `block` is from [`alloc_aligned`].
#[allow(clippy::cast_ptr_alignment)] // as above
const unsafe fn start_of(block: *mut u8) -> *mut u8 {
    // SAFETY: by the caller's promise the distance is stored before the block.
    unsafe { block.sub(block.cast::<usize>().sub(1).read()) }
}

#[cfg(test)]
mod tests {
    use super::{ALIGNMENT, Layout, alloc_aligned, start_of};
    use std::ptr;

    #[test]
    fn blocks_are_aligned_wherever_the_server_puts_the_larger_ones() {
        for align in [16, 32, 64] {
            for offset in (0..align).step_by(ALIGNMENT) {
                let layout = Layout::from_size_align(52, align).unwrap();
                let mut memory = vec![0_u64; 52];
                let base = memory.as_mut_ptr().cast::<u8>();
                let larger = base.wrapping_add(base.align_offset(align) + offset);
                let mut asked = 0;
                // SAFETY: the memory is larger than the size and all that is added here.
                unsafe {
                    let block = alloc_aligned(layout, |size| {
                        asked = size;
                        larger
                    });
                    assert_eq!(block.addr() % align, 0);
                    let before = block.addr() - larger.addr();
                    assert!(before >= ALIGNMENT && before + layout.size() <= asked);
                    assert_eq!(start_of(block), larger);
                }
            }
        }
    }

    #[test]
    fn a_failed_allocation_returns_null() {
        let layout = Layout::from_size_align(52, 16).unwrap();
        // SAFETY: a null is allowed.
        assert!(unsafe { alloc_aligned(layout, |_| ptr::null_mut()) }.is_null());
    }
}
