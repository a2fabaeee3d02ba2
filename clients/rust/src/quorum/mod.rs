//! Locks that a majority of several servers keep together.

mod acquire;
mod ballot;
mod guard;

pub use guard::QuorumGuard;

use crate::acquire::acquiring;
use crate::builder::{Builder, unusable};
use crate::error::Error;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::lock::{Lock, work_under};
use crate::locks::Locks;
use crate::observer::Observer;
use redis::{Client, IntoConnectionInfo, RedisError};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Locks that a majority of several servers keep together: no single server that fails, hangs or is cut off keeps a lock
/// from being acquired, or loses one. See `docs/quorum.md` of redis-lock.
///
/// Each server renews its part of a lock for as long as the process polls its session there. When a server loses its
/// part, the lock goes on with the others. With fewer than a majority it is lost. Locks of a quorum are exclusive, and an
/// acquire of a lock that its caller holds waits.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let servers = [(); 3].map(|()| testbed::Server::start());
/// # let urls = servers.each_ref().map(|it| format!("redis://127.0.0.1:{}/", it.port()));
/// use redis_lock_client::Locks;
/// use std::time::Duration;
///
/// let quorum = Locks::builder().service("reports").quorum(urls)?;
/// let guard = quorum.lock("lock:report").wait(Duration::from_secs(10)).acquire().await?;
/// guard.check().await?; // before a step that matters
/// println!("fence writes with {}", guard.token());
/// guard.release().await?;
/// quorum.close().await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Quorum {
    shared: Arc<Shared>,
}

struct Shared {
    members: Vec<Member>,
    majority: usize,
    options: Builder,
}

/// One of the servers.
struct Member {
    locks: Locks,
    name: String,
}

impl Member {
    /// The connection of its session has broken.
    fn is_down(&self) -> bool {
        let core = &self.locks.core;
        core.with(|state| state.nodes.iter().any(|it| it.fault.is_some()))
    }
}

/// Reports connections, which concern one server. The rest concerns a lock of all of them.
struct Connections(Arc<dyn Observer>);

impl Observer for Connections {
    fn connection(&self, server: &str, broken: Option<&str>) {
        self.0.connection(server, broken);
    }
}

impl Builder {
    /// Locks that a majority of these servers keep together. They fail by themselves: none is a replica of another. All
    /// processes name them in the same order. [`Quorum`] has an example.
    ///
    /// # Errors
    /// [`Misuse`](crate::ErrorKind::Misuse) for a wrong address, or fewer than three servers.
    pub fn quorum<S: IntoConnectionInfo>(
        self,
        servers: impl IntoIterator<Item = S>,
    ) -> Result<Quorum, Error> {
        let open = |server: S| Client::open(server.into_connection_info()?);
        let servers: Result<Vec<Client>, RedisError> = servers.into_iter().map(open).collect();
        let servers = servers.map_err(|error| unusable(&error))?;
        if servers.len() < 3 {
            return Err(Error::misuse("a quorum needs at least 3 servers").of("open", b""));
        }
        let mut of_one = self.clone();
        of_one.observer = match &self.observer {
            Some(observer) => Some(Arc::new(Connections(Arc::clone(observer)))),
            None => None,
        };
        let member = |(place, client): (usize, &Client)| {
            let address = client.get_connection_info().addr();
            Member {
                name: format!("server {} ({address})", place + 1),
                locks: of_one.clone().client(client),
            }
        };
        let shared = Shared {
            members: servers.iter().enumerate().map(member).collect(),
            majority: servers.len() / 2 + 1,
            options: self,
        };
        Ok(Quorum {
            shared: Arc::new(shared),
        })
    }
}

impl Quorum {
    /// A lock that one holder has alone.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> QuorumLock {
        QuorumLock {
            quorum: self.clone(),
            lock: self.shared.members[0].locks.lock(key),
        }
    }

    /// Ends all waits and releases all locks, as [`Locks::close`].
    ///
    /// # Errors
    /// The first of the locks that could not be released.
    pub async fn close(&self) -> Result<(), Error> {
        let closing = self.shared.members.iter().map(|it| it.locks.close());
        let closed = futures_util::future::join_all(closing).await;
        closed.into_iter().collect()
    }
}

/// How a lock of a [`Quorum`] will be acquired: an example is there. It can be used any number of times.
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired before a call of acquire"]
pub struct QuorumLock {
    quorum: Quorum,
    /// That of the first server.
    lock: Lock,
}

impl QuorumLock {
    fn with_lock(self, change: impl FnOnce(Lock) -> Lock) -> Self {
        let lock = change(self.lock);
        Self { lock, ..self }
    }

    /// Limits the wait, as [`Lock::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        self.with_lock(|lock| lock.wait(wait))
    }

    /// Makes this lease the whole life of the grant, as [`Lock::fixed`].
    pub fn fixed(self, lease: Duration) -> Self {
        self.with_lock(|lock| lock.fixed(lease))
    }

    /// Ends the grant after this time, as [`Lock::at_most`].
    pub fn at_most(self, most: Duration) -> Self {
        self.with_lock(|lock| lock.at_most(most))
    }

    /// Acquires the lock. It waits in the line of the first server that answers, without a limit of its own unless
    /// [`wait`](Self::wait) sets one. Dropping the future gives the wait up.
    ///
    /// # Errors
    /// Every [`ErrorKind`]; the cause names each server and its last error.
    pub async fn acquire(&self) -> Result<QuorumGuard, Error> {
        let (shared, lock) = (&self.quorum.shared, &self.lock);
        let (options, key) = (&shared.options, Arc::clone(&lock.terms.key));
        let given_up = CancellationToken::new();
        let taking = acquire::take(Arc::clone(shared), lock.clone(), given_up.clone());
        acquiring(options, key, given_up, taking).await
    }

    /// Acquires the lock if it is free now. Otherwise the error is [`Busy`](ErrorKind::Busy), also if others acquire it at
    /// the same time and none of them gets it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<QuorumGuard, Error> {
        self.clone().wait(Duration::ZERO).acquire().await
    }

    /// Works under the lock, as [`Lock::with`].
    ///
    /// ```no_run
    /// # use redis_lock_client::{Error, Quorum};
    /// # async fn report(quorum: &Quorum) -> Result<(), Error> {
    /// let report = quorum.lock("lock:report");
    /// report.with(async |guard| guard.check().await).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lock::with`].
    pub async fn with<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&QuorumGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.acquire().await?;
        work_under(guard, QuorumGuard::lost, QuorumGuard::release, work).await
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.members.iter().map(|member| &member.name);
        f.debug_list().entries(names).finish()
    }
}
