//! State that is protected by the server's global lock.

use std::cell::RefCell;

use super::Context;

/// A cell whose content is accessible only with a [`Context`], which proves that the server's global lock is held.
///
/// The closure must not call the server, because the server may call back and find the cell borrowed.
pub(crate) struct GilCell<T>(RefCell<T>);

// SAFETY: the content is reached only through `with`, which takes a `Context`. One exists only
// while the server runs one of our entry points, on its main thread or on another thread that
// holds the server's global lock: one thread at a time, and the lock synchronises them.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub(crate) const fn new(content: T) -> Self {
        Self(RefCell::new(content))
    }

    /// Runs `body` with the content.
    pub(crate) fn with<R>(&self, _proof: Context<'_>, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
