//! The client: the way to the locks, and the grants it holds.

use crate::backend::Obtained;
use crate::builder::{Builder, Defaults};
use crate::held::{Held, Owned};
use crate::holder::{self, Holder};
use crate::lock::Lock;
use crate::observer::Reports;
use crate::owner::Names;
use crate::registry::{Place, Turn};
use crate::request::{Change, Grant, Life, Mode, Request};
use crate::server::CallError;
use crate::server::commands::Call;
use crate::task::Task;
use crate::{Error, Guard, Loss};
use futures_util::future::join_all;
use redis::IntoConnectionInfo;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// The way to the locks: one for a process, cloned to wherever it is needed.
///
/// It has one connection to each server, by which the server keeps the locks of this process, and one more
/// for each call that waits in line; those are used again. It is made within a tokio runtime, and all
/// that it does in the background is done there.
#[derive(Clone)]
pub struct Locks {
    shared: Arc<Shared>,
}

struct Shared {
    owned: Owned,
    names: Names,
    defaults: Defaults,
    closing: CancellationToken,
}

impl Locks {
    /// On the server of an existing client: its address, user, password, database and TLS. `service` is
    /// what owners begin with. It connects when it first has something to send.
    ///
    /// # Errors
    /// Outside of a tokio runtime.
    pub fn new(client: &redis::Client, service: impl Into<String>) -> Result<Self, Error> {
        let server = client.get_connection_info().clone();
        Self::builder().service(service).single(server)
    }

    /// On one server, with nothing else set.
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

    pub(crate) fn with(owned: Owned, names: Names, defaults: Defaults) -> Self {
        Self {
            shared: Arc::new(Shared {
                owned,
                names,
                defaults,
                closing: CancellationToken::new(),
            }),
        }
    }

    /// A lock that one holder has alone. In a cluster, keys with the same part in braces are on the same
    /// node.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.clone(), key.as_ref(), Mode::Exclusive)
    }

    /// The same lock for those who share it: a reader's, where [`lock`](Self::lock) is the writer's.
    pub fn shared(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.clone(), key.as_ref(), Mode::Shared)
    }

    /// One of the permits of a semaphore: at most `of` hold it at once. Each has an owner of its own.
    pub fn permit(&self, key: impl AsRef<[u8]>, of: u32) -> Lock {
        Lock::new(self.clone(), key.as_ref(), Mode::Limit(of))
    }

    /// One owner for several locks: what a task takes twice it enters, and that two tasks wait for each
    /// other is found at once.
    #[must_use]
    pub fn task(&self) -> Task {
        Task::new(self.clone(), self.fresh_owner())
    }

    /// Goes on with a grant that was made elsewhere, or left by [`Guard::detach`]. With another lease or a
    /// fixed one: [`Lock::adopt`].
    ///
    /// # Errors
    /// [`Error::Lost`] when the grant is no more, [`Error::Unavailable`] when no answer came.
    pub async fn adopt(
        &self,
        key: impl AsRef<[u8]>,
        owner: impl Into<String>,
        token: u64,
    ) -> Result<Guard, Error> {
        self.lock(key).owner(owner).adopt(token).await
    }

    /// Who holds the lock now, the oldest grant first; empty when it is free.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no answer came in the time of a reply; what the server refuses.
    pub async fn holders(&self, key: impl AsRef<[u8]>) -> Result<Vec<Holder>, Error> {
        let mut command = redis::cmd("LOCK.HOLDERS");
        command.arg(key.as_ref());
        let answer = self.look(key.as_ref(), Call::other(command)).await?;
        holder::read(&answer).ok_or_else(|| Error::unexpected(&answer))
    }

    /// Ends all grants of the lock, whoever has them, and lets the first in line in. Its holders are told
    /// that it is lost. Whether anybody held it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no answer came in the time of a reply; what the server refuses.
    pub async fn force_unlock(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let mut command = redis::cmd("DEL");
        command.arg(key.as_ref());
        let answer = self.look(key.as_ref(), Call::other(command)).await?;
        Ok(answer != redis::Value::Int(0))
    }

    /// Cancels what waits, and releases all locks, also those whose guards are still there: those are told
    /// [`Loss::Closed`]. To be awaited before the process ends, as at `SIGTERM`, when the work under the
    /// locks is done or stopped. It takes two seconds at most; what has got no answer by then ends with its
    /// lease.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let server = testbed::Server::start();
    /// # let url = format!("redis://127.0.0.1:{}/", server.port());
    /// use redis_lock_client::{Error, Locks, Loss};
    ///
    /// let locks = Locks::open(url)?;
    /// let guard = locks.lock("lock:a").acquire().await?;
    ///
    /// locks.close().await;
    /// assert_eq!(guard.lost().await, Loss::Closed);
    /// assert!(matches!(locks.lock("lock:a").acquire().await, Err(Error::Misuse(_))));
    /// # Ok::<_, Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn close(&self) {
        let until = Instant::now() + self.shared.defaults.times.close;
        self.shared.closing.cancel();
        let held = self.shared.owned.registry.close();
        tracing::debug!(locks = held.len(), "closing");
        let releases = held.iter().filter(|held| !held.is_over()).map(|held| {
            held.lose(Loss::Closed);
            async {
                let released = timeout_at(until, held.release_all()).await;
                held.tell_release(&released.unwrap_or_else(|_| Err(CallError::silence().into())));
            }
        });
        join_all(releases).await;
        let left = until.saturating_duration_since(Instant::now());
        self.shared.owned.background.finish(left).await;
        self.shared.owned.backend.close();
    }

    pub(crate) fn fresh_owner(&self) -> String {
        self.shared.names.fresh()
    }

    pub(crate) fn reports(&self) -> &Reports {
        &self.shared.owned.reports
    }

    pub(crate) fn defaults(&self) -> Defaults {
        self.shared.defaults
    }

    /// A guard. A task of its own takes it, which [`close`](Self::close) can wait for whatever its caller
    /// does meanwhile.
    pub(crate) async fn acquire(&self, request: Request) -> Result<Guard, Error> {
        let locks = self.clone();
        let taking = async move { locks.unless_closing(locks.take(request)).await };
        self.shared.owned.background.run(taking).await
    }

    /// The same, unless `stop` comes first: then none, when all is called off.
    pub(crate) async fn acquire_unless(
        &self,
        mut request: Request,
        stop: impl Future,
    ) -> Result<Option<Guard>, Error> {
        let (over, mut is_over) = mpsc::channel(1);
        request.over = Some(over);
        let (locks, stopped) = (self.clone(), CancellationToken::new());
        let told = stopped.clone();
        let taking = async move {
            let taken = tokio::select! {
                biased;
                guard = locks.unless_closing(locks.take(request)) => Some(guard?),
                () = told.cancelled() => None,
            };
            if taken.is_none() {
                is_over.recv().await;
            }
            Ok(taken)
        };
        let mut taking = pin!(self.shared.owned.background.run(taking));
        tokio::select! {
            biased;
            outcome = &mut taking => outcome,
            _ = stop => {
                stopped.cancel();
                taking.await
            }
        }
    }

    async fn take(&self, request: Request) -> Result<Guard, Error> {
        let Owned {
            registry, backend, ..
        } = &self.shared.owned;
        let chosen = request.is_owner_chosen;
        let until = request.wait.until(Duration::ZERO);
        let place = chosen.then(|| registry.place(&request.key, &request.owner));
        let turn = match &place {
            Some(place) => Some(self.turn(place, &request).await?),
            None => None,
        };
        if let Some(held) = place.as_ref().and_then(|place| place.held()) {
            held.enter(request.mode).await?;
            return Ok(Guard::new(held));
        }
        let request = Request {
            wait: request.wait.rest(until),
            ..request
        };
        let obtained = backend.acquire(&request, turn.clone()).await?;
        self.hold(obtained.ok_or(Error::Busy)?, request.life, place)
    }

    /// Waits until no other acquire of the same owner is under way.
    async fn turn(&self, place: &Arc<Place>, request: &Request) -> Result<Turn, Error> {
        match request.wait.until(self.shared.defaults.times.reply) {
            Some(until) => timeout_at(until, place.turn())
                .await
                .map_err(|_| Error::Busy),
            None => Ok(place.turn().await),
        }
    }

    pub(crate) async fn adopt_as(&self, grant: Grant, life: Life) -> Result<Guard, Error> {
        let locks = self.clone();
        let adopting = async move {
            let Owned {
                registry, backend, ..
            } = &locks.shared.owned;
            let place = registry.place(&grant.key, &grant.owner);
            let mut adoption = Adoption {
                locks: locks.clone(),
                grant: grant.clone(),
                is_open: life.keep.is_some(),
            };
            let change = Change {
                lease: Some(life.lease),
                keep: life.keep,
                shares: false,
            };
            let until = Instant::now() + locks.shared.defaults.times.reply;
            let renewal = backend.renew(&grant, change, until);
            let renewed = locks.unless_closing(renewal).await;
            adoption.is_open &= matches!(renewed, Err(Error::Unavailable(_)));
            let guard = locks.hold(renewed?, life, Some(place))?;
            guard.follow();
            Ok(guard)
        };
        self.shared.owned.background.run(adopting).await
    }

    /// A guard for a new grant, which is looked after from now on.
    fn hold(
        &self,
        obtained: Obtained,
        life: Life,
        place: Option<Arc<Place>>,
    ) -> Result<Guard, Error> {
        let owned = &self.shared.owned;
        let held = Held::new(owned.clone(), &obtained, life, place.clone());
        let held = Arc::new(held);
        let Grant { owner, token, .. } = held.grant();
        tracing::debug!(key = %held.key(), owner, token, "lock acquired");
        if !owned.registry.add(&held) {
            held.release_unheard();
            return Err(Error::closed());
        }
        if let Some(place) = place {
            place.set(&held);
        }
        let guard = Guard::new(Arc::clone(&held));
        owned.backend.look_after(&held, obtained.keeper);
        Ok(guard)
    }

    async fn look(&self, key: &[u8], call: Call) -> Result<redis::Value, Error> {
        let (locks, key) = (self.clone(), key.to_vec());
        let looking = async move {
            let backend = &locks.shared.owned.backend;
            locks.unless_closing(backend.look(&key, call)).await
        };
        self.shared.owned.background.run(looking).await
    }

    async fn unless_closing<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => Err(Error::closed()),
            outcome = call => outcome,
        }
    }

    /// Some pause before what has failed is tried again.
    pub(crate) async fn pause(&self) {
        let reply = self.shared.defaults.times.reply;
        let _ = timeout(reply, self.shared.closing.cancelled()).await;
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("defaults", &self.shared.defaults)
            .finish_non_exhaustive()
    }
}

/// The taking over of a grant. Where it ends without one, the grant may be kept by this client all the same.
struct Adoption {
    locks: Locks,
    grant: Grant,
    is_open: bool,
}

impl Drop for Adoption {
    fn drop(&mut self) {
        if self.is_open {
            let backend = &self.locks.shared.owned.backend;
            backend.keep_no_more(self.grant.clone());
        }
    }
}
