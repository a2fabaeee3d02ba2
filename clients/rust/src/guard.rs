//! A lock that is held.

use crate::background::{background, run};
use crate::core::now;
use crate::error::Error;
use crate::hold::Hold;
use crate::state::Claim;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A hold of a lock, until its release or its loss.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let locks = redis_lock_client::testing::StandIn::new().locks();
/// use std::time::Duration;
///
/// let guard = locks.lock("lock:orders:42").acquire().await?;
/// guard.check().await?; // before a step that matters
/// guard.extend(Duration::from_secs(30)).await?;
/// println!("{} is sure for {:?}", guard.token(), guard.remaining());
///
/// let again = guard.enter().await?;
/// again.release().await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
///
/// # When it is dropped
///
/// The release is sent in the background, on a thread of this crate: it blocks no runtime, and needs none. So a guard can
/// be dropped anywhere, also after its runtime was shut down. Without an answer the release is repeated, as by
/// [`release`](Self::release), but nobody learns what came of it; a failure is logged. When the process ends first, the
/// lock is free a lease later. So await [`release`](Self::release), and [`Locks::close`](crate::Locks::close) before the
/// process ends; dropping is for what is left: `?`, panics, and tasks that are cancelled.
///
/// # When it is lost
///
/// As long as [`is_held`](Self::is_held) is true, nobody else has been granted the lock, as far as this process can
/// know. Nothing stops the code that runs after a loss. Give the [`token`](Self::token) to what you write to:
/// [losing a lock](crate#losing-a-lock).
#[must_use = "a guard that is dropped releases the lock"]
pub struct Guard {
    hold: Arc<Hold>,
    is_open: bool,
}

impl Guard {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self {
            hold,
            is_open: true,
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The key of the lock, with the client's prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.hold.name.key
    }

    /// The holder, to the server.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.hold.name.owner
    }

    /// The fencing token: later grants of the lock have higher ones.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.hold.read(|claim| claim.token)
    }

    /// Nobody else has the lock, by the clock alone. It is false also while the server is silent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long [`is_held`](Self::is_held) stays true without another reply of the server.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.read(|claim| claim.remaining(now()))
    }

    /// Waits until the lock is lost, and returns the error with the reason. It never ends while the lock is held, and not
    /// by a release. The [crate](crate#losing-a-lock) has an example.
    pub async fn lost(&self) -> Error {
        self.hold.caller.lost.cancelled().await;
        self.loss()
            .unwrap_or_else(|| Error::closed().of("hold", self.key()))
    }

    /// The error with the reason, if the lock is lost.
    #[must_use]
    pub fn loss(&self) -> Option<Error> {
        self.hold.read(Claim::loss)
    }

    /// Is cancelled when the lock is lost, not when it is released.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = redis_lock_client::testing::StandIn::new();
    /// # let locks = server.locks();
    /// let guard = locks.lock("lock:orders:42").acquire().await?;
    /// let lost = guard.cancellation(); // for tasks that work under the lock
    /// server.lose("lock:orders:42");
    /// lost.cancelled().await;
    /// assert_eq!(guard.loss().unwrap().cause(), "deleted");
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.hold.caller.lost.child_token()
    }

    /// Asks the server whether the lock is still held.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if it is not, [`Unavailable`](crate::ErrorKind::Unavailable) without an answer
    /// for two seconds.
    pub async fn check(&self) -> Result<(), Error> {
        Arc::clone(&self.hold).check().await
    }

    /// Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is
    /// [fixed](crate::Lock::fixed).
    ///
    /// # Errors
    /// As [`check`](Self::check); [`Misuse`](crate::ErrorKind::Misuse) for a lease below a millisecond, or below a
    /// second where the server renews it.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        Arc::clone(&self.hold).extend(lease).await
    }

    /// Enters the lock once more. The lock is free when all its guards have released it.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn enter(&self) -> Result<Self, Error> {
        Arc::clone(&self.hold).enter(None).await // which keeps any limit
    }

    /// Leaves the lock to others: it is not held here any more, nobody renews it, and it stays for this lease, for a
    /// caller of [`Lock::adopt`](crate::Lock::adopt) with its key, owner and token.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`Misuse`](crate::ErrorKind::Misuse) for a lease below a millisecond. The lock is then
    /// released.
    pub async fn detach(mut self, lease: Duration) -> Result<(), Error> {
        let detached = Arc::clone(&self.hold).detach(lease).await;
        self.is_open = detached.is_err();
        detached
    }

    /// Gives the lock back, or this hold of it. Without an answer the call is repeated for two seconds; after that the
    /// session repeats it. Dropping the future does not stop the release.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lock was lost before, [`Unavailable`](crate::ErrorKind::Unavailable)
    /// without an answer for two seconds, [`Refused`](crate::ErrorKind::Refused) by the server.
    pub async fn release(mut self) -> Result<(), Error> {
        self.is_open = false;
        run(Arc::clone(&self.hold).release()).await
    }

    /// Gives back a grant that the user does not have, in the background.
    pub(crate) fn give_up(mut self) -> JoinHandle<()> {
        self.is_open = false;
        let hold = Arc::clone(&self.hold);
        background().spawn(async move { hold.give_up().await })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.is_open {
            let hold = Arc::clone(&self.hold);
            background().spawn(async move {
                if hold.stands()
                    && let Err(error) = hold.release().await
                {
                    tracing::warn!(%error, "a lock was not released");
                }
            });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        let mut debug = f.debug_struct("Guard");
        debug.field("key", &key).field("token", &self.token());
        debug.finish_non_exhaustive()
    }
}
