//! How a client is set up.

use crate::backend::Wait;
use crate::background::Background;
use crate::owner::Names;
use crate::quorum::Quorum;
use crate::server::{Cluster, Direct, Node, Route, Sentinel};
use crate::{Client, Error};
use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};
use std::sync::Arc;
use std::time::Duration;

/// Sets up a [`Client`]; see [`Client::builder`]. The last call says where the locks are.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    service: String,
    defaults: Defaults,
}

/// What a lock is taken with unless it is told otherwise, and what calls may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) lease: Duration,
    pub(crate) wait: Wait,
    pub(crate) response_timeout: Duration,
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
                lease: Duration::from_secs(30),
                wait: Wait::AtMost(Duration::from_secs(30)),
                response_timeout: Duration::from_secs(3),
            },
        }
    }
}

impl Builder {
    /// What owners begin with: `service:host:pid:uuid`. Without it, the name of the program.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// The lease of locks that name none; without it, 30 seconds. A lock is renewed when a third of
    /// its lease has passed. A shorter lease lets others go on sooner when a holder dies; a longer one
    /// survives longer pauses of the process and longer failovers.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.defaults.lease = lease;
        self
    }

    /// How long [`Lock::acquire`](crate::Lock::acquire) waits in line where a lock does not say;
    /// without it, 30 seconds.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.defaults.wait = Wait::AtMost(wait);
        self
    }

    /// How long a server may take to connect and to answer a call that does not wait, until the
    /// call is repeated on a new connection; without it, 3 seconds. It should be below a third of the
    /// lease. While a call waits in line, the server is asked so often whether it is still there.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.response_timeout = timeout;
        self
    }

    /// One server.
    ///
    /// # Errors
    /// When the address is none, or outside of a tokio runtime.
    pub fn single(self, server: impl IntoConnectionInfo) -> Result<Client, Error> {
        self.direct(|timeout| {
            let node = Node::new(server.into_connection_info()?, timeout)?;
            Ok(Route::Single(Arc::new(node)))
        })
    }

    /// The server that the Sentinels call the primary of this name. `server` is how to connect to
    /// it: user, password, database, TLS; the host in it is not used (`redis://user:password@-/`).
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use redis_lock_client::Client;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379/", "redis://10.0.0.2:26379/"];
    /// let client = Client::builder()
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
    ) -> Result<Client, Error> {
        self.direct(|timeout| {
            let sentinels = all(sentinels)?;
            let server = server.into_connection_info()?;
            let sentinel = Sentinel::new(name.into(), sentinels, server, timeout)?;
            Ok(Route::Sentinel(sentinel))
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
    ) -> Result<Client, Error> {
        self.direct(|timeout| Ok(Route::Cluster(Cluster::new(all(nodes)?, timeout)?)))
    }

    /// Several independent servers that decide together: a lock is held when more than half of them
    /// have granted it, all with one token. None is another's replica. Each client gives the same
    /// servers, best in the same order. How it works, what it needs and when one server with a replica is
    /// enough: `docs/quorum.md`.
    ///
    /// - Owners are made anew for each attempt: [`Lock::owner`](crate::Lock::owner) is refused, but
    ///   to [`resume`](crate::Lock::resume).
    /// - Who waits is served roughly in the order of coming.
    /// - Each server has half of [`response_timeout`](Self::response_timeout) to answer, and at most a
    ///   tenth of the lease. Those that are down are looked for in the background, and keep nobody
    ///   waiting.
    /// - A guard may be trusted for a little less than its lease: 1 % and 2 ms, for clocks that
    ///   do not run at the same speed.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let running = [(); 5].map(|()| testbed::Server::start());
    /// # let servers = running.each_ref().map(|server| ("127.0.0.1", server.port()));
    /// use redis_lock_client::Client;
    ///
    /// let client = Client::builder().service("shop").quorum(servers)?;
    /// let guard = client.lock("lock:report").acquire().await?;
    /// println!("fence with {}", guard.token());
    /// guard.release().await?;
    /// # client.shutdown().await;
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
    ) -> Result<Client, Error> {
        let background = Background::here()?;
        let servers = all(servers).map_err(Error::Unreachable)?;
        let names = Names::new(&self.service);
        let timeout = self.defaults.response_timeout;
        let backend = Quorum::new(servers, names.clone(), timeout, &background)?;
        Ok(Client::new(
            Arc::new(backend),
            background,
            names,
            self.defaults,
        ))
    }

    fn direct(
        self,
        route: impl FnOnce(Duration) -> Result<Route, RedisError>,
    ) -> Result<Client, Error> {
        let background = Background::here()?;
        let response_timeout = self.defaults.response_timeout;
        let route = route(response_timeout).map_err(Error::Unreachable)?;
        let backend = Direct {
            route: Arc::new(route),
            background: background.clone(),
            response_timeout,
        };
        let names = Names::new(&self.service);
        let backend = Arc::new(backend);
        Ok(Client::new(backend, background, names, self.defaults))
    }
}

fn all<S: IntoConnectionInfo>(
    places: impl IntoIterator<Item = S>,
) -> Result<Vec<ConnectionInfo>, RedisError> {
    places.into_iter().map(S::into_connection_info).collect()
}
