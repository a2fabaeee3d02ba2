//! A lock, before it is acquired.

use crate::acquire::{acquiring, take};
use crate::background::sleep;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::pauses::Pauses;
use crate::state::Terms;
use crate::task::Task;
use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How a lock will be acquired. It can be used any number of times.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let locks = redis_lock_client::testing::StandIn::new().locks();
/// use redis_lock_client::ErrorKind;
/// use std::time::Duration;
///
/// let lock = locks.lock("lock:orders:42").wait(Duration::from_secs(10));
/// let guard = lock.acquire().await?;
/// let error = lock.try_acquire().await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Busy);
/// guard.release().await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
#[must_use = "nothing is acquired before a call of acquire"]
pub struct Lock {
    pub(crate) locks: Locks,
    pub(crate) task: Option<Task>,
    pub(crate) terms: Terms,
}

impl Lock {
    pub(crate) fn new(locks: &Locks, task: Option<&Task>, key: &[u8], limit: Option<u32>) -> Self {
        let prefix = locks.core.options.prefix.as_bytes();
        let terms = Terms {
            key: [prefix, key].concat().into(),
            limit,
            ..Terms::default()
        };
        Self {
            locks: locks.clone(),
            task: task.cloned(),
            terms,
        }
    }

    /// Limits the wait. When it is over, the error is [`Busy`](ErrorKind::Busy). Zero does not wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// Makes this lease the whole life of the grant: only [`Guard::extend`] renews it. With zero an acquire fails with
    /// [`Misuse`](ErrorKind::Misuse).
    pub fn fixed(mut self, lease: Duration) -> Self {
        self.terms.fixed = Some(lease);
        self
    }

    /// Ends the grant after this time: then it is lost.
    pub fn at_most(mut self, most: Duration) -> Self {
        self.terms.at_most = Some(most);
        self
    }

    /// The key of the lock, with the client's prefix.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.terms.key
    }

    /// Acquires the lock. It waits in line, without a limit of its own unless [`wait`](Self::wait) sets one. Dropping the
    /// future, by `tokio::time::timeout` for example, gives the wait up: neither a hold nor a place in line stays behind.
    ///
    /// # Errors
    /// Every [`ErrorKind`].
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_until(CancellationToken::new()).await
    }

    /// Acquires the lock if it is free now. Otherwise the error is [`Busy`](ErrorKind::Busy).
    ///
    /// # Errors
    /// Every [`ErrorKind`].
    pub async fn try_acquire(&self) -> Result<Guard, Error> {
        self.clone().wait(Duration::ZERO).acquire().await
    }

    /// Acquires the lock unless `stop` ends first: then the result is none, after the wait has been given up.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let locks = redis_lock_client::testing::StandIn::new().locks();
    /// let held = locks.lock("lock:orders:42").acquire().await?;
    /// let shutdown = async {}; // tokio::signal::ctrl_c(), for example
    /// let guard = locks.lock("lock:orders:42").acquire_unless(shutdown).await?;
    /// assert!(guard.is_none());
    /// held.release().await?;
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Every [`ErrorKind`].
    pub async fn acquire_unless(&self, stop: impl Future) -> Result<Option<Guard>, Error> {
        let given_up = CancellationToken::new();
        let mut acquiring = pin!(self.acquire_until(given_up.clone()));
        tokio::select! {
            biased;
            acquired = &mut acquiring => return acquired.map(Some),
            _ = stop => given_up.cancel(),
        }
        Ok(acquiring.await.ok())
    }

    /// Acquires the lock unless it is given up.
    pub(crate) async fn acquire_until(&self, given_up: CancellationToken) -> Result<Guard, Error> {
        if let Some(held) = self.task.as_ref().and_then(|task| task.held(self.key())) {
            return held.enter(self.terms.limit).await;
        }
        let options = &self.locks.core.options;
        let taking = take(self.clone(), given_up.clone());
        acquiring(options, Arc::clone(&self.terms.key), given_up, taking).await
    }

    /// Takes over a grant that another process has [detached](Guard::detach), by its owner and token. Without
    /// [`fixed`](Self::fixed) the session renews it from now on. One release gives back all its holds.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = redis_lock_client::testing::StandIn::new();
    /// # let (locks, other) = (server.locks(), server.locks());
    /// use std::time::Duration;
    ///
    /// let guard = locks.lock("lock:upload:7").acquire().await?;
    /// let (owner, token) = (guard.owner().to_owned(), guard.token());
    /// guard.detach(Duration::from_secs(60)).await?;
    /// // In the process that is given the owner and the token:
    /// let guard = other.lock("lock:upload:7").adopt(owner, token).await?;
    /// guard.release().await?;
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) if the grant has ended, [`Unavailable`](ErrorKind::Unavailable) without an answer,
    /// [`Refused`](ErrorKind::Refused) by the server.
    pub async fn adopt(&self, owner: impl Into<String>, token: u64) -> Result<Guard, Error> {
        let mut lock = self.clone().wait(Duration::ZERO);
        lock.task = None;
        lock.terms.adopts = Some((owner.into().into(), token));
        lock.acquire().await
    }

    /// Works under the lock: acquires it, works, releases it. When the lock is lost, the work is dropped where it stands.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let locks = redis_lock_client::testing::StandIn::new().locks();
    /// use redis_lock_client::Error;
    ///
    /// let lock = locks.lock("lock:orders:42");
    /// let paid = lock.with(async |guard| {
    ///     guard.check().await?; // before a step that matters
    ///     Ok::<_, Error>("paid")
    /// });
    /// assert_eq!(paid.await?, "paid");
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the work, as they are. As [`acquire`](Self::acquire). [`Lost`](ErrorKind::Lost) if the lock was lost
    /// before the release and the work had succeeded. When the release gets no answer, the work is done all the same, and
    /// its result is returned.
    pub async fn with<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.acquire().await?;
        work_under(guard, Guard::lost, Guard::release, work).await
    }

    /// Leads: waits for the lock as long as it takes, works while it holds it, and starts again when the work has ended
    /// or the lock is lost. It goes on until it is dropped, or until the work returns an error.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let locks = redis_lock_client::testing::StandIn::new().locks();
    /// use redis_lock_client::Error;
    /// use std::time::Duration;
    ///
    /// let lock = locks.lock("lock:leader");
    /// let leading = lock.lead(|guard| async move {
    ///     println!("leads, with {}", guard.token());
    ///     tokio::time::sleep(Duration::from_secs(60)).await;
    ///     Ok::<_, Error>(())
    /// });
    /// let shutdown = tokio::time::sleep(Duration::from_millis(100));
    /// tokio::select! {
    ///     Err(error) = leading => println!("leads no more: {error}"),
    ///     () = shutdown => {}
    /// }
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of the work. Of the lock, those that waiting cannot change.
    pub async fn lead<W, E>(&self, mut work: impl FnMut(Arc<Guard>) -> W) -> Result<Infallible, E>
    where
        W: Future<Output = Result<(), E>>,
        E: From<Error>,
    {
        let mut pauses = Pauses::default();
        loop {
            let guard = match self.acquire().await {
                Ok(guard) => Arc::new(guard),
                Err(error) if error.kind().may_pass() => {
                    tracing::warn!(%error, "nobody can lead");
                    sleep(pauses.next()).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            pauses = Pauses::default();
            tokio::select! {
                biased;
                _ = guard.lost() => {}
                worked = work(Arc::clone(&guard)) => worked?,
            }
            // If the work has left it to somebody, it is released when that one drops it.
            if let Some(guard) = Arc::into_inner(guard)
                && let Err(error) = guard.release().await
            {
                tracing::warn!(%error, "a lock was not released");
            }
        }
    }
}

/// Works under a lock that is held, and releases it. When it is lost, the work is dropped where it stands.
pub(crate) async fn work_under<G, T, E: From<Error>>(
    guard: G,
    lost: impl AsyncFn(&G) -> Error,
    release: impl AsyncFnOnce(G) -> Result<(), Error>,
    work: impl AsyncFnOnce(&G) -> Result<T, E>,
) -> Result<T, E> {
    let worked = tokio::select! {
        biased;
        error = lost(&guard) => return Err(error.into()),
        worked = work(&guard) => worked,
    };
    match (release(guard).await, worked) {
        (Err(error), Ok(_)) if error.kind() == ErrorKind::Lost => Err(error.into()),
        (Err(error), worked) => {
            tracing::warn!(%error, "a lock was not released");
            worked
        }
        (Ok(()), worked) => worked,
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        let mut debug = f.debug_struct("Lock");
        debug.field("key", &key).finish_non_exhaustive()
    }
}
