//! One lock, and how it is to be taken.

mod working;

use crate::locks::Locks;
use crate::owner::{self, Owner};
use crate::request::{self, Grant, Life, Mode, Request, Wait};
use crate::{Error, Guard};
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
    owner: Owner,
    life: Life,
    /// Zero for not at all, the longest time for ever.
    wait: Duration,
    replicas: u32,
}

impl Lock {
    pub(crate) fn new(locks: Locks, key: &[u8], mode: Mode) -> Self {
        let defaults = locks.defaults();
        Self {
            locks,
            key: key.to_vec(),
            mode,
            owner: Owner::Fresh,
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
        self.wait = wait;
        self
    }

    /// Lets [`acquire`](Self::acquire) wait in line as long as it takes.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Duration::MAX;
        self
    }

    /// Takes the lock under a name of the caller's choice: for a holder that is more than one task of
    /// one process, such as a user with a seat. Without it, each acquire has an owner of its own,
    /// `service:host:pid:uuid`. Not for a permit, which has one of its own ([`Error::Misuse`]).
    ///
    /// Who is the same owner is the same holder: in this client, an acquire of what the owner
    /// holds already is a further hold ([`Guard::enter`]), with the longer lease and silence of the two;
    /// from another process it is the same hold, whose release ends it for both. Several processes can be
    /// one owner with a [`fixed`](Self::fixed) lease only: what is kept has the last of them to ask, and
    /// the others are told that it is [lost](crate::Loss::KeptElsewhere).
    /// An acquire that is given up while the server does not answer is called off once, and not again: what it
    /// may have got then ends with its lease, unless the same owner asks for it before.
    /// So never give one owner to two tasks that are to keep each other out. On a
    /// [quorum](crate::Builder::quorum) it is for [`adopt`](Self::adopt) only.
    pub fn owner(self, owner: impl Into<String>) -> Self {
        self.by(Owner::Named(owner.into()))
    }

    pub(crate) fn by(mut self, owner: Owner) -> Self {
        self.owner = owner;
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
        self.take(Duration::ZERO).await
    }

    /// Goes on with a grant that was made elsewhere, or left by [`Guard::detach`]: renews it with this
    /// lock's lease, and keeps it. Its owner is to be given by [`owner`](Self::owner).
    ///
    /// # Errors
    /// [`Error::Lost`] when the grant is no more; [`Error::Misuse`] without an owner; else as
    /// [`try_acquire`](Self::try_acquire).
    pub async fn adopt(&self, token: u64) -> Result<Guard, Error> {
        let Owner::Named(owner) = self.owner.clone() else {
            return Err(Error::misuse("to adopt a grant, name its owner"));
        };
        owner::check(&owner)?;
        request::check(self.life, self.mode)?;
        let key = self.key.clone();
        self.locks
            .adopt_as(Grant { key, owner, token }, self.life)
            .await
    }

    async fn take(&self, wait: Duration) -> Result<Guard, Error> {
        let acquiring = self.locks.reports().acquiring(&self.key);
        let taken = match self.request(wait) {
            Ok(request) => self.locks.acquire(request).await,
            Err(error) => Err(error),
        };
        acquiring.over(taken.as_ref().map(Some));
        taken
    }

    fn request(&self, wait: Duration) -> Result<Request, Error> {
        request::check(self.life, self.mode)?;
        let whose = match (self.mode, &self.owner) {
            (Mode::Limit(_), Owner::Named(_)) => {
                return Err(Error::misuse("a permit has an owner of its own"));
            }
            // One permit is one owner to the server.
            (Mode::Limit(_), _) => Owner::Fresh,
            (Mode::Exclusive | Mode::Shared, owner) => owner.clone(),
        };
        let owner = match &whose {
            Owner::Named(name) => {
                owner::check(name)?;
                name.clone()
            }
            Owner::Task(task) => task.name(),
            Owner::Fresh => self.locks.fresh_owner(),
        };
        Ok(Request {
            key: self.key.clone(),
            owner,
            whose,
            mode: self.mode,
            life: self.life,
            wait: Wait::of(wait, self.locks.defaults().times.reply),
            replicas: self.replicas,
            over: None,
        })
    }
}
