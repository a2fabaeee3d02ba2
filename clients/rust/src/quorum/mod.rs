//! Locks that a majority of several servers keep together.

mod acquire;
mod ballot;
mod guard;
mod vote;

pub use guard::QuorumGuard;

use crate::acquire::Terms;
use crate::core::Options;
use crate::error::{Error, ErrorKind};
use crate::locks::Locks;
use crate::observer::Observer;
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
#[derive(Clone)]
pub struct Quorum {
    shared: Arc<Shared>,
}

struct Shared {
    members: Vec<Member>,
    majority: usize,
    options: Options,
}

/// One of the servers.
struct Member {
    locks: Locks,
    name: String,
}

impl Member {
    /// The connection of its session has broken.
    fn is_down(&self) -> bool {
        self.locks.core().lock().loops.iter().any(|it| it.is_down)
    }
}

/// Reports connections, which concern one server. The rest concerns a lock of all of them.
struct Connections(Arc<dyn Observer>);

impl Observer for Connections {
    fn connection(&self, server: &str, broken: Option<&str>) {
        self.0.connection(server, broken);
    }
}

impl Quorum {
    /// `open` makes the locks of a server.
    pub(crate) fn new(
        options: Options,
        servers: usize,
        open: impl Fn(usize, Options) -> (String, Locks),
    ) -> Self {
        let observer = options
            .observer
            .clone()
            .map(|it| Arc::new(Connections(it)) as Arc<dyn Observer>);
        let of_members = Options {
            observer,
            ..options.clone()
        };
        let members = (0..servers).map(|place| {
            let (address, locks) = open(place, of_members.clone());
            Member {
                name: format!("server {} ({address})", place + 1),
                locks,
            }
        });
        let members: Vec<Member> = members.collect();
        Self {
            shared: Arc::new(Shared {
                majority: members.len() / 2 + 1,
                members,
                options,
            }),
        }
    }

    /// A lock that one holder has alone.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> QuorumLock {
        let first = self.shared.members[0].locks.lock(key);
        QuorumLock {
            quorum: self.clone(),
            key: first.key().into(),
            terms: first.terms().clone(),
        }
    }

    /// Ends all waits and releases all locks, as [`Locks::close`].
    ///
    /// # Errors
    /// The first of the locks that could not be released.
    pub async fn close(&self) -> Result<(), Error> {
        let closing = self
            .shared
            .members
            .iter()
            .map(|member| member.locks.close());
        futures_util::future::join_all(closing)
            .await
            .into_iter()
            .collect()
    }
}

/// How a lock of a [`Quorum`] will be acquired. It can be used any number of times.
#[derive(Clone)]
#[must_use = "nothing is acquired before a call of acquire"]
pub struct QuorumLock {
    quorum: Quorum,
    key: Arc<[u8]>,
    terms: Terms,
}

impl QuorumLock {
    /// Limits the wait, as [`Lock::wait`](crate::Lock::wait).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// Makes this lease the whole life of the grant, as [`Lock::fixed`](crate::Lock::fixed).
    pub fn fixed(mut self, lease: Duration) -> Self {
        self.terms.set_fixed(lease);
        self
    }

    /// Ends the grant after this time, as [`Lock::at_most`](crate::Lock::at_most).
    pub fn at_most(mut self, most: Duration) -> Self {
        self.terms.at_most = Some(most);
        self
    }

    /// Acquires the lock. It waits in the line of the first server that answers, without a limit of its own unless
    /// [`wait`](Self::wait) sets one. Dropping the future gives the wait up.
    ///
    /// # Errors
    /// Every [`ErrorKind`]; the cause names each server and its last error.
    pub async fn acquire(&self) -> Result<QuorumGuard, Error> {
        self.acquire_within(self.terms.wait).await
    }

    /// Acquires the lock if it is free now. Otherwise the error is [`Busy`](ErrorKind::Busy), also if others acquire it at
    /// the same time and none of them gets it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<QuorumGuard, Error> {
        self.acquire_within(Some(Duration::ZERO)).await
    }

    async fn acquire_within(&self, wait: Option<Duration>) -> Result<QuorumGuard, Error> {
        let dropped = CancellationToken::new();
        let terms = Terms {
            wait,
            ..self.terms.clone()
        };
        let taking = acquire::taking(
            Arc::clone(&self.quorum.shared),
            Arc::clone(&self.key),
            terms,
            dropped.clone(),
        );
        let _dropped = dropped.drop_guard();
        crate::background::run(taking).await
    }

    /// Works under the lock, as [`Lock::with`](crate::Lock::with).
    ///
    /// # Errors
    /// As [`Lock::with`](crate::Lock::with).
    pub async fn with<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&QuorumGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.acquire().await?;
        let worked = tokio::select! {
            biased;
            loss = guard.lost() => return Err(loss.into()),
            worked = work(&guard) => worked,
        };
        match (guard.release().await, worked) {
            (Err(error), Ok(_)) if error.kind() == ErrorKind::Lost => Err(error.into()),
            (_, worked) => worked,
        }
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.members.iter().map(|member| &member.name);
        f.debug_list().entries(names).finish()
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(&self.key);
        f.debug_struct("QuorumLock")
            .field("key", &key)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
