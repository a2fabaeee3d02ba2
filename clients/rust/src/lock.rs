//! One lock, and how it is to be taken.

use crate::locks::Locks;
use crate::request::{Grant, Life, Mode, Request, Wait};
use crate::{Error, Guard, owner};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// A lock by its name, with how it is to be taken. Making one sends nothing; it can be cloned, and
/// used again and again.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let server = testbed::Server::start();
/// # let url = format!("redis://127.0.0.1:{}/", server.port());
/// use redis_lock_client::{Error, Locks};
/// use std::time::Duration;
///
/// let locks = Locks::open(url)?;
/// let lock = locks.lock("lock:{order}:42").wait(Duration::from_secs(5));
///
/// let guard = lock.acquire().await?;
/// assert!(matches!(lock.try_acquire().await, Err(Error::Busy)));
/// guard.release().await?;
/// assert!(lock.try_acquire().await.is_ok());
/// # locks.close().await;
/// # Ok::<_, Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Lock {
    locks: Locks,
    key: Vec<u8>,
    mode: Mode,
    owner: Option<String>,
    life: Life,
    wait: Wait,
    replicas: u32,
}

impl Lock {
    pub(crate) fn new(locks: Locks, key: &[u8], mode: Mode) -> Self {
        let defaults = locks.defaults();
        Self {
            locks,
            key: key.to_vec(),
            mode,
            owner: None,
            life: defaults.life,
            wait: defaults.wait,
            replicas: 0,
        }
    }

    /// How long others wait when this process has died: the server renews the lease until then. 10 seconds,
    /// if nothing else is said; it should be longer than a failover takes, and a stall of the server.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.life.lease = lease;
        self
    }

    /// How long this process may stand still, or the network be silent, and keep the lock. 30 seconds, if
    /// nothing else is said.
    pub fn keep(mut self, silence: Duration) -> Self {
        self.life.keep = Some(silence);
        self
    }

    /// Nobody renews the lease: the lock is lost when it ends.
    pub fn fixed(mut self) -> Self {
        self.life.keep = None;
        self
    }

    /// The lock is kept for so long at most, and is lost then.
    pub fn at_most(mut self, time: Duration) -> Self {
        self.life.at_most = Some(time);
        self
    }

    /// Lets [`acquire`](Self::acquire) wait in line for so long. Without it, it does not wait.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = if wait.is_zero() {
            Wait::No
        } else {
            Wait::AtMost(wait)
        };
        self
    }

    /// Lets [`acquire`](Self::acquire) wait in line as long as it takes.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Wait::Forever;
        self
    }

    /// Takes the lock under a name of the caller's choice: for a holder that is more than one task of
    /// one process, such as a user with a seat. Without it, each acquire has an owner of its own,
    /// `service:host:pid:uuid`. A permit always has one of its own.
    ///
    /// Who is the same owner is the same holder: in this client, an acquire of what the owner
    /// holds already is a further hold ([`Guard::enter`]); from another process it is the same hold. Of
    /// two processes that keep it, each would take it from the other again and again: there let the
    /// lease be [`fixed`](Self::fixed).
    /// So never give one owner to two tasks that are to keep each other out. On a
    /// [quorum](crate::Builder::quorum) it is for [`adopt`](Self::adopt) only.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Takes the lock only where so many replicas have acknowledged it; else it is given back, and the call
    /// fails with [`Error::Unavailable`].
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Takes the lock. When it is not free, waits for it in the server's line, first come, first served, as
    /// long as [`wait`](Self::wait) said. An answer comes within the time to wait and, when the server is
    /// silent, the time of a reply more. Connections that fail and failovers are survived within that time,
    /// but the place in the line is lost with the server that had it.
    ///
    /// Dropping the future cancels the wait: it leaves the line at once, and a grant that was made
    /// in the last moment is given back. A future that is kept but not polled any more goes on waiting,
    /// and its lock is kept until its guard is taken out and dropped.
    ///
    /// # Errors
    /// [`Error::Busy`] when it was not free in time; [`Error::Deadlock`] and [`Error::NotAlone`] at once;
    /// [`Error::Unavailable`], [`Error::Refused`] and [`Error::Misuse`] when it could not be taken.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.take(self.wait).await
    }

    /// The same, unless `stop` comes back first: then the wait is called off, and none is returned when that is
    /// done. So, other than after dropping [`acquire`](Self::acquire), the caller knows that it neither
    /// holds nor waits any more.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_unless(&self, stop: impl Future) -> Result<Option<Guard>, Error> {
        let acquiring = self.locks.reports().acquiring(&self.key);
        let taken = match self.request(self.wait) {
            Ok(request) => self.locks.acquire_unless(request, stop).await,
            Err(error) => Err(error),
        };
        acquiring.over(taken.as_ref().map(Option::as_ref));
        taken
    }

    /// Takes the lock if it is free, without waiting.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Guard, Error> {
        self.take(Wait::No).await
    }

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

    /// Goes on with a grant that was made elsewhere, or left by [`Guard::detach`]: renews it with this
    /// lock's lease, and keeps it. Its owner is to be given by [`owner`](Self::owner).
    ///
    /// # Errors
    /// [`Error::Lost`] when the grant is no more; [`Error::Misuse`] without an owner; else as
    /// [`try_acquire`](Self::try_acquire).
    pub async fn adopt(&self, token: u64) -> Result<Guard, Error> {
        let owner = self.owner.clone();
        let owner = owner.ok_or(Error::misuse("to adopt a grant, name its owner"))?;
        owner::check(&owner)?;
        let key = self.key.clone();
        self.locks
            .adopt_as(Grant { key, owner, token }, self.life)
            .await
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
    /// Those of `look` and `work`; else as [`with_lock`](Self::with_lock).
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
        let mut together = self.clone();
        together.mode = Mode::Shared;
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            match self.try_acquire().await {
                Ok(guard) => {
                    let (look, work) = (&mut look, &mut work);
                    let looked = async |guard| match look().await? {
                        Some(found) => Ok(found),
                        None => work(guard).await,
                    };
                    return under(guard, looked).await;
                }
                Err(Error::Busy) => {
                    // All who wait get in together when the one who works leaves.
                    together.acquire().await?.release().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn take(&self, wait: Wait) -> Result<Guard, Error> {
        let acquiring = self.locks.reports().acquiring(&self.key);
        let taken = match self.request(wait) {
            Ok(request) => self.locks.acquire(request).await,
            Err(error) => Err(error),
        };
        acquiring.over(taken.as_ref().map(Some));
        taken
    }

    fn request(&self, wait: Wait) -> Result<Request, Error> {
        // One permit is one owner to the server.
        let chosen = self
            .owner
            .clone()
            .filter(|_| !matches!(self.mode, Mode::Limit(_)));
        if let Some(owner) = &chosen {
            owner::check(owner)?;
        }
        Ok(Request {
            key: self.key.clone(),
            is_owner_chosen: chosen.is_some(),
            owner: chosen.unwrap_or_else(|| self.locks.fresh_owner()),
            mode: self.mode,
            life: self.life,
            wait,
            replicas: self.replicas,
            over: None,
        })
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
