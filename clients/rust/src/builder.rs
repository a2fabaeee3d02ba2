//! How a client is set up.

use crate::error::Error;
use crate::locks::Locks;
use crate::observer::Observer;
use crate::server::{Server, Servers, Source};
use crate::state::LEAST_LEASE;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError, TlsMode};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Sets up [`Locks`]; see [`Locks::builder`]. The last call says where the locks are. Nothing is connected yet.
///
/// ```
/// use redis_lock_client::Locks;
/// use std::time::Duration;
///
/// let locks = Locks::builder()
///     .service("orders")
///     .prefix("lock:")
///     .lease(Duration::from_secs(5))
///     .single("redis://user:password@127.0.0.1:6379/0")?;
/// assert_eq!(locks.lock("orders:42").key(), b"lock:orders:42");
/// # Ok::<_, redis_lock_client::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    pub(crate) service: String,
    pub(crate) prefix: String,
    pub(crate) lease: Duration,
    pub(crate) silence: Duration,
    pub(crate) reply: Duration,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl Default for Builder {
    fn default() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        let service = program.file_name().unwrap_or_default().to_string_lossy();
        Self {
            service: service.into_owned(),
            prefix: String::new(),
            lease: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            reply: Duration::from_secs(1),
            observer: None,
        }
    }
}

impl Builder {
    /// Begins the name of each owner and names the session, so that an operator sees whose a lock is; by default the
    /// name of the program.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// Begins the key of each lock.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long others wait for a lock when this process has died: 10 seconds by default, at least 1.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(LEAST_LEASE);
        self
    }

    /// How long the process may be suspended and keep its locks: 30 seconds by default, at least 1.
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence.max(LEAST_LEASE);
        self
    }

    /// Limits each reply of the server, connecting included: 1 second by default, at least 1 millisecond.
    pub fn reply_time(mut self, reply: Duration) -> Self {
        self.reply = reply.max(Duration::from_millis(1));
        self
    }

    /// Is notified of what happens, for metrics: see [`Observer`].
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Locks on the server of this client.
    #[must_use]
    pub fn client(self, client: &Client) -> Locks {
        let server = Server::one(client.clone(), self.reply);
        Locks::on(Servers::one(server), self)
    }

    /// Locks on one server.
    ///
    /// # Errors
    /// [`Misuse`](crate::ErrorKind::Misuse) for a wrong address.
    pub fn single(self, server: impl IntoConnectionInfo) -> Result<Locks, Error> {
        let client = Client::open(server).map_err(|error| unusable(&error))?;
        Ok(self.client(&client))
    }

    /// Locks on the server that these Sentinels call the primary of this name. `server` says how to log in there: user,
    /// password, database, TLS; its host is not used (`redis://user:password@-/`).
    ///
    /// ```
    /// use redis_lock_client::Locks;
    ///
    /// let sentinels = ["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let locks = Locks::builder().sentinel("main", sentinels, "redis://user:password@-/")?;
    /// # Ok::<_, redis_lock_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Misuse`](crate::ErrorKind::Misuse) for a wrong address, or no Sentinel.
    pub fn sentinel<S: IntoConnectionInfo>(
        self,
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = S>,
        server: impl IntoConnectionInfo,
    ) -> Result<Locks, Error> {
        let master = master.into();
        let build = || -> Result<SentinelClient, RedisError> {
            let server = server.into_connection_info()?;
            let mut node = SentinelNodeConnectionInfo::default()
                .set_redis_connection_info(server.redis_settings().clone())
                .set_tcp_settings(server.tcp_settings().clone());
            if let ConnectionAddr::TcpTls { insecure, .. } = server.addr() {
                node = node.set_tls_mode(match insecure {
                    true => TlsMode::Insecure,
                    false => TlsMode::Secure,
                });
            }
            let (all, primary) = (all(sentinels)?, SentinelServerType::Master);
            SentinelClient::build(all, master.clone(), Some(node), primary)
        };
        let client = build().map_err(|error| unusable(&error))?;
        let server = Server::new(
            format!("primary of {master}"),
            Source::Sentinels(Arc::new(client.into())),
            self.reply,
        );
        Ok(Locks::on(Servers::one(server), self))
    }

    /// Locks on a cluster. Some of its nodes are enough; the others are found, and logged in to like the first of these.
    /// Keys with the same part in braces are on the same node.
    ///
    /// ```
    /// use redis_lock_client::Locks;
    ///
    /// let locks = Locks::builder().cluster(["redis://10.0.0.1:6379", "redis://10.0.0.2:6379"])?;
    /// # Ok::<_, redis_lock_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Misuse`](crate::ErrorKind::Misuse) for a wrong address, or no node.
    pub fn cluster<S: IntoConnectionInfo>(
        self,
        nodes: impl IntoIterator<Item = S>,
    ) -> Result<Locks, Error> {
        let nodes = all(nodes).map_err(|error| unusable(&error))?;
        let servers = Servers::cluster(&nodes, self.reply);
        let none = || Error::misuse("a cluster needs at least one node").of("open", b"");
        Ok(Locks::on(servers.ok_or_else(none)?, self))
    }
}

pub(crate) fn unusable(error: &RedisError) -> Error {
    Error::misuse(error.to_string()).of("open", b"")
}

fn all<S: IntoConnectionInfo>(
    places: impl IntoIterator<Item = S>,
) -> Result<Vec<ConnectionInfo>, RedisError> {
    places.into_iter().map(S::into_connection_info).collect()
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
