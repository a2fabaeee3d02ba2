//! The client: the way to the locks, and the grants it holds.

mod adoption;

use crate::backend::Obtained;
use crate::builder::{Builder, Defaults};
use crate::held::{Held, Owned};
use crate::holder::{self, Holder};
use crate::lock::Lock;
use crate::observer::Reports;
use crate::owner::{Names, Owner, TaskOwner};
use crate::registry::{Place, Turn};
use crate::request::{Grant, Life, Mode, Request, Wait};
use crate::server::commands::{self, Call};
use crate::server::{CallError, Own};
use crate::task::Task;
use crate::{Error, Guard, Loss};
use redis::IntoConnectionInfo;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
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
        Task::new(self.clone(), TaskOwner::new(self.shared.names.clone()))
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
        let answer = self
            .look(key.as_ref(), commands::holders(key.as_ref()), false)
            .await?;
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
        let answer = self.look(key.as_ref(), Call::other(command), true).await?;
        Ok(answer != redis::Value::Int(0))
    }

    /// Cancels what waits, and releases all locks, also those whose guards are still there: those are told
    /// [`Loss::Closed`]. To be awaited before the process ends, as at `SIGTERM`, when the work under the
    /// locks is done or stopped. It takes two seconds at most; what has got no answer by then ends with its
    /// lease. Dropping the future does not stop it.
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
        let locks = self.clone();
        let closing = async move { locks.close_all().await };
        self.shared.owned.background.see_through(closing).await;
    }

    async fn close_all(&self) {
        let until = Instant::now() + self.shared.defaults.times.close;
        let Owned {
            registry,
            backend,
            background,
            ..
        } = &self.shared.owned;
        self.shared.closing.cancel();
        let held = registry.close().into_iter();
        for held in held.filter(|held| !held.is_over()) {
            held.lose(Loss::Closed);
            background.start(async move {
                let released = timeout_at(until, held.release_all()).await;
                held.tell_release(&released.unwrap_or_else(|_| Err(CallError::silence().into())));
            });
        }
        let left = until.saturating_duration_since(Instant::now());
        background.finish(left).await;
        backend.close();
    }

    pub(crate) fn fresh_owner(&self) -> String {
        self.shared.names.fresh()
    }

    pub(crate) fn can_share(&self) -> bool {
        self.shared.owned.backend.can_share()
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

    async fn take(&self, mut request: Request) -> Result<Guard, Error> {
        let Owned {
            registry, backend, ..
        } = &self.shared.owned;
        let Some(identity) = request.whose.identity() else {
            let obtained = backend.acquire(&request, None).await?;
            return self.hold(
                obtained.ok_or(Error::Busy)?,
                request.life,
                None,
                Owner::Fresh,
            );
        };
        let place = registry.place(&request.key, identity);
        let turn = self.turn(&place, request.wait).await?;
        loop {
            let until = match request.wait {
                Wait::Now(end) => end,
                Wait::Until(_) | Wait::Forever => Instant::now() + self.shared.defaults.times.reply,
            };
            if let Some(joining) = place.join(&request.whose)
                && let Some(guard) = joining.joined(request.mode, until).await?
            {
                guard.lengthen(request.life, until).await?;
                if request.replicas > 0 {
                    let known = backend.acknowledge(guard.grant(), request.replicas, until);
                    known.await?;
                }
                return Ok(guard);
            }
            if let Owner::Task(task) = &request.whose {
                request.owner = task.name();
            }
            let obtained = backend.acquire(&request, Some(turn.clone())).await?;
            let obtained = obtained.ok_or(Error::Busy)?;
            if !place.is_released(obtained.granted.grant.token) {
                return self.hold(obtained, request.life, Some(place), request.whose);
            }
            // It would end when that release comes.
            self.give_back(obtained, request.whose.is_named()).await?;
        }
    }

    /// Releases a grant that nobody is to have, also when nobody waits for that.
    async fn give_back(&self, obtained: Obtained, is_named: bool) -> Result<(), Error> {
        let backend = Arc::clone(&self.shared.owned.backend);
        let until = Instant::now() + self.shared.defaults.times.release;
        let releasing = async move {
            let grant = &obtained.granted.grant;
            let own = is_named.then(|| Own::of(grant, obtained.keeper.as_ref()));
            match backend.release(grant, own, 0, until).await {
                Err(Error::Lost(loss)) if loss != Loss::KeptElsewhere => Ok(()),
                released => released,
            }
        };
        self.shared.owned.background.carry_on(releasing).await
    }

    /// Waits until no other acquire of the same owner is under way.
    async fn turn(&self, place: &Arc<Place>, wait: Wait) -> Result<Turn, Error> {
        let Some(end) = wait.end() else {
            return Ok(place.turn().await);
        };
        let turn = timeout_at(end, place.turn()).await;
        turn.map_err(|_| {
            let silence = place.is_undone().then(|| CallError::silence().into());
            silence.unwrap_or(Error::Busy)
        })
    }

    /// A guard for a new grant, which is looked after from now on.
    fn hold(
        &self,
        obtained: Obtained,
        life: Life,
        place: Option<Arc<Place>>,
        whose: Owner,
    ) -> Result<Guard, Error> {
        let owned = &self.shared.owned;
        let held = Held::new(owned.clone(), &obtained, life, place.clone(), whose);
        let held = Arc::new(held);
        let Grant { owner, token, .. } = held.grant();
        tracing::debug!(key = %held.key(), owner, token, "lock acquired");
        if !owned.registry.add(&held) {
            held.release_unheard();
            return Err(Error::closed());
        }
        let guard = Guard::new(Arc::clone(&held));
        if let Some(place) = place {
            place.set(&held);
        }
        owned.backend.look_after(&held, obtained.keeper);
        Ok(guard)
    }

    async fn look(&self, key: &[u8], call: Call, once: bool) -> Result<redis::Value, Error> {
        let (locks, key) = (self.clone(), key.to_vec());
        let looking = async move {
            let backend = &locks.shared.owned.backend;
            locks.unless_closing(backend.look(&key, call, once)).await
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
