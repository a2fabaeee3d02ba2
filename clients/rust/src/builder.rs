//! How a client is set up.

use crate::backend::Backend;
use crate::background::Background;
use crate::held::Owned;
use crate::observer::Reports;
use crate::owner::Names;
use crate::quorum::Quorum;
use crate::request::Life;
use crate::server::{Cluster, Common, Direct, Node, Route, Sentinel, Times};
use crate::{Error, Locks, Observer};
use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};
use std::sync::Arc;
use std::time::Duration;

/// Sets up [`Locks`]; see [`Locks::builder`]. The last call says where the locks are.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    service: String,
    defaults: Defaults,
    reports: Reports,
}

/// What a lock is taken with unless it is told otherwise, and what calls may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) life: Life,
    pub(crate) wait: Duration,
    pub(crate) times: Times,
}

impl Default for Builder {
    fn default() -> Self {
        let program = std::env::args_os().next();
        let name = program
            .as_deref()
            .map(std::path::Path::new)
            .and_then(std::path::Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        Self {
            service: name.unwrap_or_else(|| "client".to_owned()),
            defaults: Defaults {
                life: Life {
                    lease: Duration::from_secs(10),
                    keep: Some(Duration::from_secs(30)),
                    at_most: None,
                },
                wait: Duration::ZERO,
                times: Times {
                    reply: Duration::from_secs(1),
                    release: Duration::from_secs(2),
                    close: Duration::from_secs(2),
                },
            },
            reports: Reports::default(),
        }
    }
}

impl Builder {
    /// What owners begin with: `service:host:pid:uuid`. Without it, the name of the program.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// The lease of locks that name none; see [`Lock::lease`](crate::Lock::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.defaults.life.lease = lease;
        self
    }

    /// The silence that locks bear that name none; see [`Lock::keep`](crate::Lock::keep).
    pub fn keep(mut self, silence: Duration) -> Self {
        self.defaults.life.keep = Some(silence);
        self
    }

    /// How long locks wait that do not say; see [`Lock::wait`](crate::Lock::wait).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.defaults.wait = wait;
        self
    }

    /// How long a server may take to connect and to answer a call that does not wait, until the
    /// call is repeated on a new connection; without it, one second. It is also how long an acquire takes
    /// at most that does not wait.
    pub fn reply_time(mut self, time: Duration) -> Self {
        self.defaults.times.reply = time;
        self
    }

    /// How long a release takes at most; without it, two seconds.
    pub fn release_time(mut self, time: Duration) -> Self {
        self.defaults.times.release = time;
        self
    }

    /// How long [`Locks::close`] takes at most; without it, two seconds.
    pub fn close_time(mut self, time: Duration) -> Self {
        self.defaults.times.close = time;
        self
    }

    /// Who is told what happens to the locks, for metrics; without it, nobody is.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.reports = Reports::to(observer);
        self
    }

    /// One server.
    ///
    /// # Errors
    /// When the address is none, or outside of a tokio runtime.
    pub fn single(self, server: impl IntoConnectionInfo) -> Result<Locks, Error> {
        self.direct(|common| {
            let node = Node::new(server.into_connection_info()?, common)?;
            Ok(Route::Single(Arc::new(node)))
        })
    }

    /// The server that the Sentinels call the primary of this name. `server` is how to connect to
    /// it: user, password, database, TLS; the host in it is not used (`redis://user:password@-/`).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use redis_lock_client::Locks;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379/", "redis://10.0.0.2:26379/"];
    /// let locks = Locks::builder()
    ///     .service("shop")
    ///     .sentinel("lock", sentinels, "redis://worker:secret@-/")?;
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When an address is none, when there is no Sentinel, or outside of a tokio runtime.
    pub fn sentinel<S: IntoConnectionInfo>(
        self,
        name: impl Into<String>,
        sentinels: impl IntoIterator<Item = S>,
        server: impl IntoConnectionInfo,
    ) -> Result<Locks, Error> {
        self.direct(|common| {
            let sentinels = all(sentinels)?;
            let server = server.into_connection_info()?;
            let sentinel = Sentinel::new(name.into(), sentinels, server, common)?;
            Ok(Route::Sentinel(Box::new(sentinel)))
        })
    }

    /// A cluster. Some of its nodes are enough; the others are found, and connected to in the same
    /// way as the first of these.
    ///
    /// # Errors
    /// When an address is none, when there is no node, or outside of a tokio runtime.
    pub fn cluster<S: IntoConnectionInfo>(
        self,
        nodes: impl IntoIterator<Item = S>,
    ) -> Result<Locks, Error> {
        self.direct(|common| Ok(Route::Cluster(Box::new(Cluster::new(all(nodes)?, common)?))))
    }

    /// Several independent servers that decide together: a lock is held when more than half of them
    /// have granted it, all with one token. None is another's replica. Each client gives the same
    /// servers, best in the same order. How it works, what it needs and when one server with a replica is
    /// enough: `docs/quorum.md`.
    ///
    /// - Owners are made anew for each attempt: [`Lock::owner`](crate::Lock::owner) is refused, but
    ///   to [`adopt`](crate::Lock::adopt).
    /// - Who waits is served roughly in the order of coming.
    /// - Each server has half of [`reply_time`](Self::reply_time) to answer, and at most a
    ///   tenth of the lease. Those that are down are looked for in the background, and keep nobody
    ///   waiting.
    /// - A guard may be trusted for a little less than its lease: 1 % and 2 ms, for clocks that
    ///   do not run at the same speed.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let running = [(); 5].map(|()| testbed::Server::start());
    /// # let servers = running.each_ref().map(|server| ("127.0.0.1", server.port()));
    /// use redis_lock_client::Locks;
    ///
    /// let locks = Locks::builder().service("shop").quorum(servers)?;
    /// let guard = locks.lock("lock:report").acquire().await?;
    /// println!("fence with {}", guard.token());
    /// guard.release().await?;
    /// # locks.close().await;
    /// # Ok::<_, redis_lock_client::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// When an address is none or given twice, when the servers are fewer than three or an even
    /// number (the last one would only be one more that can fail), or outside of a tokio runtime.
    pub fn quorum<S: IntoConnectionInfo>(
        self,
        servers: impl IntoIterator<Item = S>,
    ) -> Result<Locks, Error> {
        let background = Background::here()?;
        let servers = all(servers).map_err(|error| unusable(&error))?;
        let names = Names::new(&self.service);
        let times = self.defaults.times;
        let reports = &self.reports;
        let backend = Quorum::new(servers, names.clone(), times, &background, reports)?;
        Ok(self.finish(Arc::new(backend), background, names))
    }

    fn direct(
        self,
        route: impl FnOnce(&Common) -> Result<Route, RedisError>,
    ) -> Result<Locks, Error> {
        let background = Background::here()?;
        let direct = Direct::new(route, &background, self.defaults.times, &self.reports);
        let names = Names::new(&self.service);
        let direct = Arc::new(direct.map_err(|error| unusable(&error))?);
        Ok(self.finish(direct, background, names))
    }

    fn finish(self, backend: Arc<dyn Backend>, background: Background, names: Names) -> Locks {
        let owned = Owned {
            backend,
            background,
            registry: Arc::default(),
            reports: self.reports,
            reply_time: self.defaults.times.reply,
            release_time: self.defaults.times.release,
        };
        Locks::with(owned, names, self.defaults)
    }
}

/// An address that is none.
fn unusable(error: &RedisError) -> Error {
    Error::Misuse(error.to_string().into())
}

fn all<S: IntoConnectionInfo>(
    places: impl IntoIterator<Item = S>,
) -> Result<Vec<ConnectionInfo>, RedisError> {
    places.into_iter().map(S::into_connection_info).collect()
}
