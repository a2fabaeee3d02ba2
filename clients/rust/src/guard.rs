//! A lock that is held.

use crate::held::Held;
use crate::registry::Turn;
use crate::request::{Change, Grant, Life, Mode};
use crate::{Error, Loss};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A hold of a lock. The server keeps it, until it is released or dropped or this process is gone.
///
/// # When it is dropped
///
/// A release is started in the background, on the runtime on which the client was made. It is sent again
/// where no answer comes, for two seconds. Nobody learns what came of it. It is not sent at all when the
/// runtime ends first, or the process: then the lease ends the lock. So await
/// [`release`](Self::release), and [`Locks::close`](crate::Locks::close) before the process ends;
/// dropping is for what is left: `?`, panics, tasks that are cancelled.
///
/// # What holding it means
///
/// As long as it is not [`lost`](Self::lost) no other owner has been granted the lock, as far as this
/// process can know. Nothing stops the code that runs after a loss: a process that stood still goes on as
/// if nothing had happened. [`check`](Self::check) asks the server before a step. What is written under a
/// lock is safe where the place that is written to looks at the [`token`](Self::token):
/// [losing a lock](crate#losing-a-lock).
#[must_use = "a guard that is dropped releases the lock"]
pub struct Guard {
    held: Arc<Held>,
    has: Hold,
}

/// What a guard has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// None yet.
    Joining,
    Open,
    /// It has been given back, or away.
    Over,
}

impl Guard {
    /// Stands for one hold that the server counts already.
    pub(crate) fn new(held: Arc<Held>) -> Self {
        held.join();
        Self {
            held,
            has: Hold::Open,
        }
    }

    /// It has been counted among the guards, and has no hold yet.
    pub(crate) fn joining(held: Arc<Held>) -> Self {
        Self {
            held,
            has: Hold::Joining,
        }
    }

    /// With one more hold; none when the last one has been given back meanwhile.
    pub(crate) async fn joined(
        mut self,
        mode: Mode,
        until: tokio::time::Instant,
    ) -> Result<Option<Self>, Error> {
        let is_in = self.held.enter(mode, until).await?;
        Ok(is_in.then(|| {
            self.has = Hold::Open;
            self
        }))
    }

    /// With this lease from now on.
    pub(crate) async fn renewed(
        self,
        lease: Duration,
        until: tokio::time::Instant,
    ) -> Result<Self, Error> {
        let lease = Some(lease);
        let change = Change {
            lease,
            ..Change::default()
        };
        self.held.renew(change, until).await?;
        Ok(self)
    }

    /// With a longer lease, or silence, where this is one.
    pub(crate) async fn lengthen(
        &self,
        life: Life,
        until: tokio::time::Instant,
    ) -> Result<(), Error> {
        self.held.lengthen(life, until).await
    }

    /// Its observer is told that it was taken, after so long.
    pub(crate) fn announce(&self, took: Duration) {
        self.held.announce(took);
    }

    /// It is told when it ends.
    pub(crate) fn follow(&self) {
        self.held.follow();
    }

    pub(crate) fn grant(&self) -> &Grant {
        self.held.grant()
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

    /// Whether it is held, as far as is known here: it has not been told as lost.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.loss().is_none()
    }

    /// Until when it is known to be held without another sign from the server: a lease after the sending of
    /// the last call that told so. Counted by a monotonic clock; on Linux that stands still while the
    /// machine is suspended.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.held.known_until().into_std()
    }

    /// How long that is from now; zero when it is lost. Of a fixed lease, what is left of it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.held.loss() {
            Some(_) => Duration::ZERO,
            None => self.deadline().saturating_duration_since(Instant::now()),
        }
    }

    /// Asks the server whether the lock is held. To be sure before a step.
    ///
    /// # Errors
    /// [`Error::Lost`] when it is not, [`Error::Unavailable`] when no answer came in the time of a reply.
    pub async fn check(&self) -> Result<(), Error> {
        let held = Arc::clone(&self.held);
        let asking = async move { held.check().await };
        self.held.background().run(asking).await
    }

    /// Comes back when the lock is lost, and tells how. It can be dropped and called again at any time.
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
    /// [`Error::Lost`] when the lock is lost, [`Error::Unavailable`] when no answer came.
    pub async fn enter(&self) -> Result<Self, Error> {
        self.held.join();
        let joining = Self::joining(Arc::clone(&self.held));
        let until = self.held.soon();
        // `SHARED` keeps whatever the grant has.
        let entering = async move { joining.joined(Mode::Shared, until).await };
        let entered = self.held.background().run(entering).await?;
        entered.ok_or_else(|| Error::Lost(self.held.loss().unwrap_or(Loss::NotHeld)))
    }

    /// Begins the lease anew now, with this length from now on. It may be shorter. There is seldom a need:
    /// the server renews what it keeps; this is for a [fixed](crate::Lock::fixed) lease.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock is lost, [`Error::Unavailable`] when no answer came,
    /// [`Error::Misuse`] when the server does not take such a lease.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        self.change(Change {
            lease: Some(lease),
            ..Change::default()
        })
        .await
    }

    /// From now on others may share the lock, with no gap in between: a writer becomes a reader. Only with
    /// one hold.
    ///
    /// # Errors
    /// As [`extend`](Self::extend).
    pub async fn downgrade(&self) -> Result<(), Error> {
        self.change(Change {
            shares: true,
            ..Change::default()
        })
        .await
    }

    /// Gives the hold back and waits for the answer. With the last one the lock goes to the next in
    /// line, or is free. From the call on it is not held, whatever the answer; a future that is dropped
    /// is carried on in the background.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock had been lost before: somebody else may have held it while
    /// this guard was there. [`Error::Unavailable`] when no answer came in two seconds: the lease ends the
    /// lock.
    pub async fn release(mut self) -> Result<(), Error> {
        self.close(true);
        let held = Arc::clone(&self.held);
        let releasing = async move { held.release().await };
        self.held.background().carry_on(releasing).await
    }

    /// Leaves the lock held for what is left of its lease, with nobody to keep or release it, for somebody
    /// else to [`adopt`](crate::Locks::adopt) who is told the owner and this token: another request,
    /// another process.
    ///
    /// # Errors
    /// [`Error::Lost`] when the lock is lost, [`Error::Unavailable`] when no answer came, [`Error::Misuse`] when
    /// other guards have it too. The hold is given back then.
    pub async fn detach(mut self) -> Result<u64, Error> {
        let held = Arc::clone(&self.held);
        let leaving = async move { held.detach().await };
        // Nobody joins before it is closed.
        let _turns = self.held.background().run(leaving).await?;
        self.close(false);
        Ok(self.token())
    }

    /// Lets go of it with no release: it is another's, and not kept any more. The turn of its owner lasts until then.
    pub(crate) fn abandon(mut self, turn: Turn) {
        self.close(false);
        let held = Arc::clone(&self.held);
        self.held.background().start(async move {
            turn.undo(held.abandon()).await;
        });
    }

    async fn change(&self, change: Change) -> Result<(), Error> {
        let held = Arc::clone(&self.held);
        let changing = async move {
            let until = held.soon();
            held.renew(change, until).await
        };
        self.held.background().run(changing).await
    }

    fn close(&mut self, releases: bool) {
        self.has = Hold::Over;
        self.held.leave(releases);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        match self.has {
            Hold::Open => self.close(true),
            Hold::Joining => return self.close(false),
            Hold::Over => return,
        }
        let held = Arc::clone(&self.held);
        self.held.background().start(async move {
            if let Err(error) = held.release().await {
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
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
