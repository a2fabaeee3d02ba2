//! The locks of a program.

use crate::background::{run, timeout};
use crate::builder::Builder;
use crate::core::{Core, now};
use crate::error::Error;
use crate::lock::Lock;
use crate::server::Servers;
use crate::state::{State, command};
use crate::task::Task;
use futures_util::future::join_all;
use redis::{Client, IntoConnectionInfo};
use std::collections::HashSet;
use std::sync::Arc;
use tokio_util::sync::DropGuard;

/// The locks of one program on one server, Sentinel group or cluster: one for a process, cloned to wherever it is
/// needed.
///
/// Its session is polled on a thread of this crate, so that no code of yours can stop it. Its calls run on the runtime of
/// their caller, and each runtime has a connection of its own: any number of runtimes can use the same `Locks`.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let locks = redis_lock_client::testing::StandIn::new().locks();
/// let write = locks.lock("lock:orders:42");
/// let read = locks.shared("lock:prices");
/// let export = locks.permit("lock:exports", 3); // one of three
/// for lock in [write, read, export] {
///     let guard = lock.acquire().await?;
///     assert!(guard.is_held());
///     guard.release().await?;
/// }
/// locks.close().await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Locks {
    pub(crate) core: Arc<Core>,
    /// Ends the loops when nobody has the client any more.
    _open: Arc<DropGuard>,
}

impl Locks {
    /// Locks on the server of an existing client: its address, user, password, database and TLS. `service` begins the
    /// name of each owner, so that an operator sees whose a lock is. It connects with the first call.
    #[must_use]
    pub fn new(client: &Client, service: impl Into<String>) -> Self {
        Self::builder().service(service).client(client)
    }

    /// Locks on one server, with nothing else set.
    ///
    /// # Errors
    /// [`Misuse`](crate::ErrorKind::Misuse) for a wrong address.
    pub fn open(server: impl IntoConnectionInfo) -> Result<Self, Error> {
        Self::builder().single(server)
    }

    /// Sets options first, or uses Sentinels or a cluster.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn on(servers: Servers, options: Builder) -> Self {
        let core = Core::new(options, servers);
        let open = core.closing.clone().drop_guard();
        Self {
            core,
            _open: Arc::new(open),
        }
    }

    /// A lock that one holder has alone. The key is without the [prefix](Builder::prefix).
    pub fn lock(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self, None, key.as_ref(), Some(1))
    }

    /// The same lock together with other shared holders: for readers, where the writers use [`lock`](Self::lock).
    pub fn shared(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self, None, key.as_ref(), None)
    }

    /// One of `of` permits: a semaphore, if all callers give the same number, from 1 to 2^31 - 1. Each permit is an owner
    /// of its own.
    pub fn permit(&self, key: impl AsRef<[u8]>, of: u32) -> Lock {
        Lock::new(self, None, key.as_ref(), Some(of))
    }

    /// One owner for several locks: see [`Task`].
    #[must_use]
    pub fn task(&self) -> Task {
        Task {
            locks: self.clone(),
            owner: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Ends all waits and releases all locks. Call it when the work under the locks has stopped, at `SIGTERM` for
    /// example. It takes two seconds at most; a lock that could not be released by then is free a lease later. Dropping
    /// the future does not stop it.
    ///
    /// # Errors
    /// The first of the locks that could not be released.
    pub async fn close(&self) -> Result<(), Error> {
        let core = Arc::clone(&self.core);
        run(async move { close(&core).await }).await
    }
}

async fn close(core: &Arc<Core>) -> Result<(), Error> {
    let reply = core.options.reply;
    let end = now() + 2 * reply;
    let left = || end.saturating_sub(now());
    if core.closing.is_cancelled() {
        return Ok(());
    }
    let grants = core.with(State::close);
    core.closing.cancel();
    core.loops.close();
    let _ = timeout(reply, core.loops.wait()).await; // an OPEN may be under way
    let sessions = core.with(|state| state.sessions());
    let closing = sessions.into_iter().map(async |(node, session)| {
        let close = command!["LOCK.SESSION", "CLOSE", session];
        let reply = core.call(b"", Some(node), left(), &close).await;
        reply.fault().is_none().then_some(session)
    });
    let closed: HashSet<_> = join_all(closing).await.into_iter().flatten().collect();
    let is_left = |(_, session, _): &(_, u64, _)| !closed.contains(session);
    let grants = grants.into_iter().filter(is_left);
    let releasing = grants.map(async |(name, _, release)| {
        let reply = core.call(&name.key, None, left(), &release).await;
        let fault = reply.value.err().filter(|fault| !fault.is_gone())?;
        Some(fault.of("close", &name.key))
    });
    let failures = join_all(releasing).await;
    core.servers.close();
    failures.into_iter().flatten().next().map_or(Ok(()), Err)
}
