//! What happens to locks, for metrics.

use crate::Error;
use std::time::Duration;

/// Is notified of what happens to locks, for metrics and logs. Its methods must not block. All do nothing by default.
/// Keys have the client's prefix.
///
/// ```
/// use redis_lock_client::{Error, Locks, Observer};
///
/// struct Losses;
///
/// impl Observer for Losses {
///     fn lost(&self, error: &Error) {
///         eprintln!("{}: {}", error.key(), error.cause());
///     }
/// }
///
/// let locks = Locks::builder().observer(Losses).single("redis://127.0.0.1/")?;
/// # Ok::<_, Error>(())
/// ```
pub trait Observer: Send + Sync + 'static {
    /// An acquire has ended, after this time. The error is none if the lock was granted.
    fn acquired(&self, key: &[u8], took: Duration, error: Option<&Error>) {
        let _ = (key, took, error);
    }

    /// An acquire was given up after this time: its future was dropped.
    fn cancelled(&self, key: &[u8], took: Duration) {
        let _ = (key, took);
    }

    /// A lock was released that was held for this long.
    fn released(&self, key: &[u8], held: Duration, error: Option<&Error>) {
        let _ = (key, held, error);
    }

    /// A lock was lost.
    fn lost(&self, error: &Error) {
        let _ = error;
    }

    /// The connection of a session has broken, for this reason; or it is back.
    fn connection(&self, server: &str, broken: Option<&str>) {
        let _ = (server, broken);
    }
}
