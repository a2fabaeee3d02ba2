//! Work under a lock.

use super::Lock;
use crate::request::Mode;
use crate::{Error, Guard};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

impl Lock {
    /// Does some work under the lock: acquires it, works, releases it. When the lock is lost, the
    /// work is dropped where it stands.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = testbed::Server::start();
    /// # let url = format!("redis://127.0.0.1:{}/", server.port());
    /// # let locks = redis_lock_client::Locks::open(url)?;
    /// # async fn write(_value: u32, _fence: u64) {}
    /// use redis_lock_client::Error;
    ///
    /// let answer = locks
    ///     .lock("lock:answer")
    ///     .with_lock(async |guard| {
    ///         write(42, guard.token()).await;
    ///         Ok::<_, Error>(42)
    ///     })
    ///     .await?;
    /// assert_eq!(answer, 42);
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The work's own. As [`acquire`](Self::acquire). [`Error::Lost`] when the lock was lost before the
    /// work was done, or found to be when it was released and the work had succeeded. When the release gets
    /// no answer, the work is done all the same, and its result is returned.
    pub async fn with_lock<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.acquire().await?;
        let outcome = tokio::select! {
            biased;
            loss = guard.lost() => return Err(Error::Lost(loss).into()),
            outcome = work(&guard) => outcome,
        };
        told(guard.release().await, outcome)
    }

    /// Leads: takes the lock, waits for it as long as it takes, works under it, and begins anew whenever the
    /// work has ended or the lock was lost. It goes on until it is dropped.
    ///
    /// # Errors
    /// What waiting cannot change: [`Error::Refused`], [`Error::Misuse`] and the like. When no server
    /// answers, it goes on trying.
    pub async fn lead<W>(&self, mut work: impl FnMut(Arc<Guard>) -> W) -> Result<Infallible, Error>
    where
        W: Future<Output = ()>,
    {
        let lock = self.clone().wait_forever();
        loop {
            let led = match lock.acquire().await {
                Ok(guard) => {
                    let work = &mut work;
                    under(guard, |guard| async {
                        work(guard).await;
                        Ok::<_, Error>(())
                    })
                    .await
                }
                Err(error) => Err(error),
            };
            match led {
                Ok(()) | Err(Error::Lost(_)) => {}
                Err(error @ Error::Unavailable(_)) => {
                    tracing::warn!(%error, "nobody can lead");
                    self.locks.pause().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Does a piece of work once for all who want its result: `look` says whether it is there. Who finds
    /// nothing does the `work` under the lock, or waits until the one who does it is done and looks again.
    /// Waits as long as [`wait`](Self::wait) said for each turn.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = testbed::Server::start();
    /// # let url = format!("redis://127.0.0.1:{}/", server.port());
    /// # let locks = redis_lock_client::Locks::open(url)?;
    /// # let cache = std::sync::Mutex::new(None);
    /// let report = locks
    ///     .lock("lock:report")
    ///     .wait_forever()
    ///     .once(
    ///         || async { Ok(*cache.lock().unwrap()) },
    ///         |_guard| async {
    ///             *cache.lock().unwrap() = Some(42);
    ///             Ok::<_, redis_lock_client::Error>(42)
    ///         },
    ///     )
    ///     .await?;
    /// assert_eq!(report, 42);
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `look` and `work`; [`Error::Misuse`] where the lock is shared or a permit; else as
    /// [`with_lock`](Self::with_lock).
    pub async fn once<T, E, L, W>(
        &self,
        mut look: impl FnMut() -> L,
        mut work: impl FnMut(Arc<Guard>) -> W,
    ) -> Result<T, E>
    where
        E: From<Error>,
        L: Future<Output = Result<Option<T>, E>>,
        W: Future<Output = Result<T, E>>,
    {
        if self.mode != Mode::Exclusive {
            return Err(Error::misuse("work is done once under an exclusive lock").into());
        }
        let mut together = self.clone();
        together.mode = Mode::Shared;
        // Where they cannot wait together, they come in one after the other.
        let mut is_first = self.locks.can_share();
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            let wait = if is_first { Duration::ZERO } else { self.wait };
            match self.take(wait).await {
                Ok(guard) => {
                    let (look, work) = (&mut look, &mut work);
                    let looked = async |guard| match look().await? {
                        Some(found) => Ok(found),
                        None => work(guard).await,
                    };
                    return under(guard, looked).await;
                }
                Err(Error::Busy) if is_first => {
                    // All who wait get in together when the one who works leaves.
                    // What becomes of that hold says nothing of the work.
                    let _ = together.acquire().await?.release().await;
                    // Who finds nothing then stands in line: those who share it for other ends may stay.
                    is_first = false;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Does some work under a lock, until it is done or the lock is lost, and releases it.
async fn under<T, E: From<Error>, W>(
    guard: Guard,
    work: impl FnOnce(Arc<Guard>) -> W,
) -> Result<T, E>
where
    W: Future<Output = Result<T, E>>,
{
    let guard = Arc::new(guard);
    let outcome = tokio::select! {
        biased;
        loss = guard.lost() => return Err(Error::Lost(loss).into()),
        outcome = work(Arc::clone(&guard)) => outcome,
    };
    match Arc::into_inner(guard) {
        Some(guard) => told(guard.release().await, outcome),
        // Somebody has it still, and releases it by dropping it.
        None => outcome,
    }
}

/// What came of some work and of the release after it: a loss never hides the work's own error.
fn told<T, E: From<Error>>(released: Result<(), Error>, outcome: Result<T, E>) -> Result<T, E> {
    match (released, outcome) {
        (Err(Error::Lost(loss)), Ok(_)) => Err(Error::Lost(loss).into()),
        (Err(error), outcome) => {
            tracing::warn!(%error, "the lock was not released");
            outcome
        }
        (Ok(()), outcome) => outcome,
    }
}
