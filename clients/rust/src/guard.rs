//! A lock that is held.

use crate::background::{Background, PATIENCE};
use crate::held::Held;
use crate::{Error, Loss};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A hold of a lock. It is renewed in the background until it is released or dropped.
///
/// # When it is dropped
///
/// A release is started in the background, on the runtime on which the client was made, and it is
/// repeated for some seconds when no answer comes. Nobody learns what came of it. It is not sent at
/// all when the runtime ends first, or the process: then the lease ends the lock. So await
/// [`release`](Self::release), and [`Client::shutdown`](crate::Client::shutdown) before the process
/// ends; dropping is for what is left: `?`, panics, tasks that are cancelled.
///
/// # What holding it means
///
/// Until [`deadline`](Self::deadline) no other owner is granted the lock, as long as the server keeps
/// what it has acknowledged. Nothing stops the code that runs after it: a process that is stopped for
/// longer than the lease goes on as if nothing had happened. What is written under a lock is
/// safe where the place that is written to looks at the [`token`](Self::token):
/// [losing a lock](crate#losing-a-lock).
#[must_use = "a guard that is dropped releases the lock"]
pub struct Guard {
    held: Arc<Held>,
    background: Background,
    /// Its hold has neither been given back nor given away.
    is_open: bool,
}

impl Guard {
    /// Stands for one hold that the server counts already.
    pub(crate) fn new(held: Arc<Held>, background: Background) -> Self {
        held.join();
        Self {
            held,
            background,
            is_open: true,
        }
    }

    /// The fencing token of this grant. Every later grant of this lock has a higher one.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.held.grant().token
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.held.grant().key
    }

    /// The owner under whose name the lock is held.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.held.grant().owner
    }

    /// Until when the lock may be trusted, unless it is renewed: a lease after the sending of the
    /// call that set it. Counted by a monotonic clock; on Linux that stands still while the machine
    /// is suspended.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.held.deadline().into_std()
    }

    /// How long the lock may still be trusted, unless it is renewed; zero when it is lost.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        match self.held.loss() {
            Some(_) => Duration::ZERO,
            None => self.deadline().saturating_duration_since(Instant::now()),
        }
    }

    /// Looks whether the lock may still be trusted. It asks no server.
    ///
    /// # Errors
    /// [`Error::Lost`], when it may not.
    pub fn check(&self) -> Result<(), Error> {
        self.held
            .loss()
            .map_or(Ok(()), |loss| Err(Error::Lost(loss)))
    }

    /// Comes back when the lock is lost, and tells how: as soon as a renewal says so, or the lease has
    /// passed without an answer. It can be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        self.held.lost().cancelled().await;
        self.held.loss().unwrap_or(Loss::Expired)
    }

    /// A token that is cancelled when the lock is lost, to hand on to what works under it. It is not
    /// cancelled when the lock is released.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.held.lost().child_token()
    }

    /// Enters the lock once more: a further hold of the same grant, with the same token. The lock is
    /// free when every guard has been released, in whatever order.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock is lost, [`Error::Unreachable`] when no answer came.
    pub async fn enter(&self) -> Result<Self, Error> {
        self.held.enter().await?;
        Ok(Self::new(Arc::clone(&self.held), self.background.clone()))
    }

    /// Begins the lease anew now. There is seldom a need: guards renew themselves, unless they were
    /// asked not to.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock is lost, [`Error::Unreachable`] when no answer came.
    pub async fn renew(&self) -> Result<(), Error> {
        self.held.renew(None, self.held.soon()).await
    }

    /// Begins the lease anew now, with another length from now on. It may be shorter.
    ///
    /// # Errors
    /// As [`renew`](Self::renew); [`Error::Refused`] when the server does not take such a lease.
    pub async fn renew_for(&self, lease: Duration) -> Result<(), Error> {
        self.held.renew(Some(lease), self.held.soon()).await
    }

    /// Gives the hold back and waits for the answer. With the last one the lock goes to the next in
    /// line, or is free.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock had been lost before: somebody else may have held it while
    /// this guard was there. (After an answer that was lost, the release may have been the first
    /// call's; then this is no error.) [`Error::Unreachable`] when no answer came: the lease
    /// ends the lock.
    pub async fn release(mut self) -> Result<(), Error> {
        let until = self.held.soon();
        if !self.held.is_shared() {
            // A renewal that hangs does not hold the release up.
            self.held.over().cancel();
        }
        // Dropped in between, the guard starts the release again in the background.
        let outcome = self.held.release(until).await;
        self.close();
        outcome
    }

    /// Leaves the lock held, with nothing to renew or release it, for somebody else to
    /// [`resume`](crate::Lock::resume) who is told the owner and this token: another request,
    /// another process.
    #[must_use = "the token is needed to resume"]
    pub fn detach(mut self) -> u64 {
        self.close();
        self.token()
    }

    fn close(&mut self) {
        self.is_open = false;
        self.held.leave();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        self.close();
        let held = Arc::clone(&self.held);
        self.background.start(async move {
            let until = held.deadline().min(tokio::time::Instant::now() + PATIENCE);
            if let Err(error) = held.release(until).await {
                tracing::debug!(key = %held.key(), %error, "a dropped guard was not released");
            }
        });
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.held.key())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
