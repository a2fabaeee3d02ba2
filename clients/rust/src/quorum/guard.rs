//! A lock that a majority of the servers has granted.

use super::Shared;
use crate::background::{background, run};
use crate::core::report_loss;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::mutex::lock;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The parts of a lock.
pub(super) struct Together {
    quorum: Arc<Shared>,
    key: Arc<[u8]>,
    pub(super) token: u64,
    taken: Instant,
    lost: CancellationToken,
    parts: Mutex<Parts>,
}

/// The grant of the server at a place, while it is not lost.
struct Part {
    place: usize,
    guard: Guard,
    /// Waits for its loss.
    _watch: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Parts {
    held: Vec<Part>,
    losses: Vec<String>,
    /// Why it is held no more.
    failure: Option<Error>,
}

type Calls = FuturesUnordered<BoxFuture<'static, Result<(), Error>>>;

impl Together {
    pub(super) fn new(quorum: Arc<Shared>, key: Arc<[u8]>, token: u64) -> Arc<Self> {
        Arc::new(Self {
            quorum,
            key,
            token,
            taken: Instant::now(),
            lost: CancellationToken::new(),
            parts: Mutex::default(),
        })
    }

    /// Adds a part. It returns the part if the lock has ended.
    pub(super) fn add(self: &Arc<Self>, place: usize, guard: Guard) -> Option<Guard> {
        let mut parts = lock(&self.parts);
        if parts.failure.is_some() {
            return Some(guard);
        }
        let (lock, lost) = (Arc::downgrade(self), guard.cancellation());
        let watch = background().spawn(async move {
            lost.cancelled().await;
            if let Some(lock) = lock.upgrade() {
                lock.part_lost(place);
            }
        });
        parts.held.push(Part {
            place,
            guard,
            _watch: AbortOnDropHandle::new(watch),
        });
        None
    }

    /// Goes on without a part, as long as a majority is left.
    fn part_lost(&self, place: usize) {
        let mut parts = lock(&self.parts);
        let Some(at) = parts.held.iter().position(|part| part.place == place) else {
            return;
        };
        let loss = parts.held.swap_remove(at).guard.loss();
        let cause = loss.as_ref().map_or("lost", Error::cause);
        let name = &self.quorum.members[place].name;
        parts.losses.push(format!("{name}: {cause}"));
        if parts.held.len() >= self.quorum.majority {
            return;
        }
        let failure = Error::new(ErrorKind::Lost, parts.losses.join("; "));
        parts.failure = Some(failure.clone());
        for rest in parts.held.drain(..) {
            rest.guard.give_up();
        }
        drop(parts);
        self.lost.cancel();
        let error = failure.of("hold", &self.key);
        report_loss(self.quorum.options.observer.as_ref(), error);
    }

    /// Fails if the lock is lost or released.
    fn status(&self, operation: &'static str) -> Result<(), Error> {
        let failure = lock(&self.parts).failure.clone();
        failure.map_or(Ok(()), |failure| Err(failure.of(operation, &self.key)))
    }

    fn remaining(&self) -> Duration {
        let parts = lock(&self.parts);
        let left = parts.held.iter().map(|part| part.guard.remaining());
        let mut left: Vec<Duration> = left.collect();
        left.sort_unstable();
        let majority = left.iter().rev().nth(self.quorum.majority - 1);
        majority.copied().unwrap_or_default()
    }

    /// Makes a call about each part at once. A call that has begun runs to its end.
    async fn call<F>(
        &self,
        operation: &'static str,
        call: impl Fn(Arc<Hold>) -> F,
    ) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.status(operation)?;
        let calls =
            |part: &Part| Box::pin(call(Arc::clone(part.guard.hold()))) as BoxFuture<'static, _>;
        let calls = lock(&self.parts).held.iter().map(calls).collect();
        self.agree(operation, calls).await
    }

    /// Ends the lock by the release of its parts.
    fn release(&self) -> Result<Calls, Error> {
        let mut parts = lock(&self.parts);
        if let Some(failure) = &parts.failure {
            return Err(failure.clone().of("release", &self.key));
        }
        parts.failure = Some(Error::misuse("it was released already"));
        let release = |part: Part| Box::pin(part.guard.release()) as BoxFuture<'static, _>;
        Ok(parts.held.drain(..).map(release).collect())
    }

    /// Waits until a majority has agreed, or all have answered. The other calls go on.
    async fn agree(&self, operation: &'static str, mut calls: Calls) -> Result<(), Error> {
        let (mut agreed, mut left, mut kind) = (0, calls.len(), ErrorKind::Unavailable);
        let mut causes = vec!["no majority of the servers".to_owned()];
        while let Some(answer) = calls.next().await {
            match answer {
                Ok(()) => agreed += 1,
                Err(error) => {
                    causes.push(error.cause().to_owned());
                    match error.kind() {
                        ErrorKind::Lost => left -= 1,
                        other => kind = other,
                    }
                }
            }
            if agreed >= self.quorum.majority {
                return Ok(());
            }
        }
        if left < self.quorum.majority {
            kind = ErrorKind::Lost;
        }
        Err(Error::new(kind, causes.join("; ")).of(operation, &self.key))
    }
}

/// A lock that a majority of the servers has granted, until its release or its loss. Dropping it releases the lock in the
/// background, as for a [`Guard`].
#[must_use = "a guard that is dropped releases the lock"]
pub struct QuorumGuard {
    pub(super) lock: Arc<Together>,
}

impl QuorumGuard {
    /// The key of the lock, with the client's prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.lock.key
    }

    /// The fencing token, the same on all servers of the majority: later grants of the lock have higher ones.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.lock.token
    }

    /// Nobody else has the lock, by the clock alone. It is false also while a majority of the servers is silent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long [`is_held`](Self::is_held) stays true without another reply of a server.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lock.remaining()
    }

    /// Waits until the lock is lost, and returns the error with what each server reported. It never ends while the lock
    /// is held, and not by a release.
    pub async fn lost(&self) -> Error {
        self.lock.lost.cancelled().await;
        self.loss()
            .unwrap_or_else(|| Error::closed().of("hold", self.key()))
    }

    /// The error with the reason, if the lock is lost.
    #[must_use]
    pub fn loss(&self) -> Option<Error> {
        let error = self.lock.status("hold").err()?;
        (error.kind() == ErrorKind::Lost).then_some(error)
    }

    /// Is cancelled when the lock is lost, not when it is released.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.lock.lost.child_token()
    }

    /// Asks the servers whether the lock is still held.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if a majority does not have it any more, [`Unavailable`](ErrorKind::Unavailable) if too
    /// few answer.
    pub async fn check(&self) -> Result<(), Error> {
        self.lock.call("check", Hold::check).await
    }

    /// Gives the lock another lease, from now on, as [`Guard::extend`](crate::Guard::extend).
    ///
    /// # Errors
    /// As [`check`](Self::check), and [`Misuse`](ErrorKind::Misuse) for a lease that is too short.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let extend = |hold: Arc<Hold>| hold.extend(lease);
        self.lock.call("extend", extend).await
    }

    /// Gives the lock back on all servers. It returns when a majority has answered; the sessions repeat what the others
    /// have not answered.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if the lock was lost before, [`Unavailable`](ErrorKind::Unavailable) if too few servers
    /// have answered in time.
    pub async fn release(self) -> Result<(), Error> {
        let lock = Arc::clone(&self.lock);
        let releasing = async move {
            let released = match lock.release() {
                Ok(calls) => lock.agree("release", calls).await,
                Err(error) => Err(error),
            };
            if let Some(observer) = &lock.quorum.options.observer {
                observer.released(&lock.key, lock.taken.elapsed(), released.as_ref().err());
            }
            released
        };
        run(releasing).await
    }
}

impl Drop for QuorumGuard {
    fn drop(&mut self) {
        drop(self.lock.release()); // which drops the guards of the parts, unless it has ended already
    }
}

impl fmt::Debug for QuorumGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        f.debug_struct("QuorumGuard")
            .field("key", &key)
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
