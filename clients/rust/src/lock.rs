//! One lock, and how it is to be taken.

use crate::backend::{Request, Wait};
use crate::client::Client;
use crate::{Error, Guard, owner};
use std::time::Duration;

/// A lock by its name, with how it is to be taken. Making one sends nothing; it can be cloned, and
/// used again and again.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let server = testbed::Server::start();
/// # let url = format!("redis://127.0.0.1:{}/", server.port());
/// use redis_lock_client::Client;
/// use std::time::Duration;
///
/// let client = Client::open(url)?;
/// let lock = client
///     .lock("lock:{order}:42")
///     .lease(Duration::from_secs(10))
///     .wait(Duration::from_secs(5));
///
/// let guard = lock.acquire().await?;
/// assert!(lock.try_acquire().await?.is_none());
/// guard.release().await?;
/// assert!(lock.try_acquire().await?.is_some());
/// # client.shutdown().await;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Lock {
    client: Client,
    key: Vec<u8>,
    owner: Option<String>,
    lease: Duration,
    wait: Wait,
    renews: bool,
}

impl Lock {
    pub(crate) fn new(client: Client, key: &[u8]) -> Self {
        let (lease, wait) = client.defaults();
        Self {
            client,
            key: key.to_vec(),
            owner: None,
            lease,
            wait,
            renews: true,
        }
    }

    /// How long the server keeps the lock for a holder that it does not hear of. Each renewal begins
    /// it anew.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long [`acquire`](Self::acquire) waits in line.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Wait::AtMost(wait);
        self
    }

    /// Lets [`acquire`](Self::acquire) wait in line as long as it takes.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Wait::Forever;
        self
    }

    /// Takes the lock under a name of the caller's choice: for a holder that is more than one task of
    /// one process, such as a user with a seat. Without it, each acquire has an owner of its own,
    /// `service:host:pid:uuid`.
    ///
    /// Who is the same owner is the same holder: in this client, an acquire of what the owner
    /// holds already is a further hold ([`Guard::enter`]); from another process it is the same hold.
    /// So never give one owner to two tasks that are to keep each other out. When such an acquire is
    /// dropped or fails without an answer, *all* that the owner holds of this lock is given up. On a
    /// [quorum](crate::Builder::quorum) it is for [`resume`](Self::resume) only.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Leaves the guard unrenewed: it is lost when its lease ends.
    pub fn without_renewal(mut self) -> Self {
        self.renews = false;
        self
    }

    /// Takes the lock; when it is not free, waits for it in the server's line, first come, first
    /// served. An answer comes within the time to wait and, when the server is silent, one response
    /// time-out more. Connections that fail and failovers are survived within that time, but the
    /// place in the line is lost with the server that kept it.
    ///
    /// Dropping the future cancels the wait: it leaves the line at once, and a grant that was made
    /// in the last moment is given back. A future that is kept but not polled any more goes on waiting,
    /// and its lock is renewed until its guard is taken out and dropped.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it was not free in time; [`Error::Unreachable`], [`Error::Refused`] and
    /// [`Error::ShutDown`] when it could not be taken.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        self.take(self.wait).await?.ok_or(Error::TimedOut)
    }

    /// Takes the lock if it is free, without waiting; none if it is not.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but not `TimedOut`.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        self.take(Wait::No).await
    }

    /// Does some work under the lock: acquires it, works, releases it. When the lock is lost, the
    /// work is dropped where it stands.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = testbed::Server::start();
    /// # let url = format!("redis://127.0.0.1:{}/", server.port());
    /// # let client = redis_lock_client::Client::open(url)?;
    /// # async fn write(_value: u32, _fence: u64) {}
    /// let answer = client
    ///     .lock("lock:answer")
    ///     .with_lock(async |guard| {
    ///         write(42, guard.token()).await;
    ///         42
    ///     })
    ///     .await?;
    /// assert_eq!(answer, 42);
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Lost`] when the lock was lost before the work was
    /// done, or found to be when it was released. When the release gets no answer, the work is done
    /// all the same, and its result is returned.
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.acquire().await?;
        let outcome = tokio::select! {
            biased;
            loss = guard.lost() => return Err(Error::Lost(loss)),
            outcome = work(&guard) => outcome,
        };
        match guard.release().await {
            Err(Error::Lost(loss)) => Err(Error::Lost(loss)),
            Err(error) => {
                tracing::warn!(%error, "the lock was not released: its lease will end it");
                Ok(outcome)
            }
            Ok(()) => Ok(outcome),
        }
    }

    /// Goes on with a grant that was left by [`Guard::detach`], here or in another process: renews it
    /// with this lock's lease. The owner is to be given by [`owner`](Self::owner).
    ///
    /// # Errors
    /// [`Error::Lost`] when the grant is no more; [`Error::Invalid`] without an owner; else as
    /// [`try_acquire`](Self::try_acquire).
    pub async fn resume(&self, token: u64) -> Result<Guard, Error> {
        let owner = self.owner.clone();
        let owner = owner.ok_or(Error::Invalid("to resume a grant, name its owner"))?;
        owner::check(&owner)?;
        let granted = self
            .client
            .resume(&self.key, owner, token, self.lease)
            .await?;
        self.client.hold(granted, self.lease, self.renews).await
    }

    async fn take(&self, wait: Wait) -> Result<Option<Guard>, Error> {
        let owner = match &self.owner {
            Some(owner) => {
                owner::check(owner)?;
                if let Some(guard) = self.client.enter(&self.key, owner).await? {
                    return Ok(Some(guard));
                }
                owner.clone()
            }
            None => self.client.fresh_owner(),
        };
        let request = Request {
            key: self.key.clone(),
            owner,
            is_owner_chosen: self.owner.is_some(),
            lease: self.lease,
            wait,
        };
        self.client.acquire(request, self.renews).await
    }
}
