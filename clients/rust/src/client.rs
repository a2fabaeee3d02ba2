//! The client: connections, the grants it holds, the task that renews them.

use crate::backend::{Backend, Grant, Granted, Request, Wait};
use crate::background::Background;
use crate::builder::{Builder, Defaults};
use crate::held::Held;
use crate::owner::Names;
use crate::registry::Registry;
use crate::{Error, Guard, Lock, Loss, renewal};
use futures_util::future::join_all;
use redis::IntoConnectionInfo;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The way to the locks: one for a process, cloned to wherever it is needed.
///
/// It has one connection to each server that it talks to, one more for each call that waits in line, and
/// one task that renews all locks. It is made within a tokio runtime, and all that it does in
/// the background is done there.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    background: Background,
    names: Names,
    defaults: Defaults,
    registry: Arc<Registry>,
    to_renew: mpsc::UnboundedSender<Arc<Held>>,
    closing: CancellationToken,
}

impl Client {
    /// A client for one server, with nothing else set. It connects when it first has something to
    /// send.
    ///
    /// # Errors
    /// When the address is none, or outside of a tokio runtime.
    pub fn open(server: impl IntoConnectionInfo) -> Result<Self, Error> {
        Self::builder().single(server)
    }

    /// To set things first, or for Sentinel, a cluster or a quorum.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        background: Background,
        names: Names,
        defaults: Defaults,
    ) -> Self {
        let (to_renew, new) = mpsc::unbounded_channel();
        background.start_service(renewal::look_after(new));
        Self {
            shared: Arc::new(Shared {
                backend,
                background,
                names,
                defaults,
                registry: Arc::default(),
                to_renew,
                closing: CancellationToken::new(),
            }),
        }
    }

    /// A lock of this name. In a cluster, keys with the same part in braces are on the same node.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.clone(), key.as_ref())
    }

    /// Stops renewing, cancels what waits, and releases all locks, also those whose guards are
    /// still there: those are told [`Loss::ShutDown`]. To be awaited before the process ends, as at
    /// `SIGTERM`, when the work under the locks is done or stopped. It takes at most four response
    /// time-outs; what has got no answer by then ends with its lease.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = testbed::Server::start();
    /// # let url = format!("redis://127.0.0.1:{}/", server.port());
    /// use redis_lock_client::{Client, Error, Loss};
    ///
    /// let client = Client::open(url)?;
    /// let guard = client.lock("lock:a").acquire().await?;
    ///
    /// client.shutdown().await;
    /// assert_eq!(guard.lost().await, Loss::ShutDown);
    /// assert!(matches!(client.lock("lock:a").acquire().await, Err(Error::ShutDown)));
    /// # Ok::<_, Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn shutdown(&self) {
        self.shared.closing.cancel();
        let patience = self.shared.defaults.response_timeout;
        let held = self.shared.registry.close();
        tracing::debug!(locks = held.len(), "shutting down");
        let until = Instant::now() + patience;
        let releases = held.iter().filter(|held| !held.is_over()).map(|held| {
            held.lose(Loss::ShutDown);
            held.release_all(until)
        });
        // Each release is limited by its own calls; this is for those that hang in between.
        let _ = tokio::time::timeout(patience * 2, join_all(releases)).await;
        self.shared.background.finish(patience * 2).await;
    }

    pub(crate) fn fresh_owner(&self) -> String {
        self.shared.names.fresh()
    }

    pub(crate) fn defaults(&self) -> (Duration, Wait) {
        let Defaults { lease, wait, .. } = self.shared.defaults;
        (lease, wait)
    }

    /// A guard, or none if the lock was not free in time. A task of its own takes it, which
    /// [`shutdown`](Self::shutdown) can wait for whatever its caller does meanwhile.
    pub(crate) async fn acquire(
        &self,
        request: Request,
        renews: bool,
    ) -> Result<Option<Guard>, Error> {
        let client = self.clone();
        let taking = async move {
            let acquire = client.shared.backend.acquire(&request);
            match client.unless_closing(acquire).await? {
                Some(granted) => client.hold(granted, request.lease, renews).await.map(Some),
                None => Ok(None),
            }
        };
        self.shared.background.run(taking).await
    }

    /// One more hold of what this owner holds already; none if it holds nothing.
    pub(crate) async fn enter(&self, key: &[u8], owner: &str) -> Result<Option<Guard>, Error> {
        let Some(held) = self.shared.registry.find(key, owner) else {
            return Ok(None);
        };
        held.enter().await?;
        Ok(Some(Guard::new(held, self.shared.background.clone())))
    }

    pub(crate) async fn resume(
        &self,
        key: &[u8],
        owner: String,
        token: u64,
        lease: Duration,
    ) -> Result<Granted, Error> {
        let key = key.to_vec();
        let grant = Grant { key, owner, token };
        let until = Instant::now() + self.shared.defaults.response_timeout;
        let renewal = self.shared.backend.renew(&grant, lease, until);
        self.unless_closing(renewal).await
    }

    /// A guard for a new grant, which is looked after from now on.
    pub(crate) async fn hold(
        &self,
        granted: Granted,
        lease: Duration,
        renews: bool,
    ) -> Result<Guard, Error> {
        let shared = &self.shared;
        let Grant { owner, token, .. } = &granted.grant;
        let key = String::from_utf8_lossy(&granted.grant.key);
        tracing::debug!(%key, owner, token, "lock acquired");
        let held = Arc::new(Held::new(
            Arc::clone(&shared.backend),
            Arc::clone(&shared.registry),
            granted,
            lease,
            renews,
            shared.defaults.response_timeout,
        ));
        if !shared.registry.add(&held) {
            held.release_all(held.soon()).await;
            return Err(Error::ShutDown);
        }
        let guard = Guard::new(Arc::clone(&held), shared.background.clone());
        // Nobody listens only when the runtime has ended, and then nothing runs any more.
        let _ = shared.to_renew.send(held);
        Ok(guard)
    }

    async fn unless_closing<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => Err(Error::ShutDown),
            outcome = call => outcome,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("defaults", &self.shared.defaults)
            .finish_non_exhaustive()
    }
}
