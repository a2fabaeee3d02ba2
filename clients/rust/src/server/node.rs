//! One server and the connections to it.

use super::CallError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, RedisError, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// A server at one address.
pub(crate) struct Node {
    client: redis::Client,
    address: String,
    /// How long it may take to connect, and to answer a call that does not wait.
    response_timeout: Duration,
    /// The connection for all calls but those that wait.
    shared: Mutex<Option<Link>>,
}

/// A connection. It closes when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    number: u64,
}

impl Node {
    pub(crate) fn new(
        info: ConnectionInfo,
        response_timeout: Duration,
    ) -> Result<Self, RedisError> {
        let settings = info.tcp_settings().clone().set_nodelay(true);
        let address = info.addr().to_string();
        Ok(Self {
            client: redis::Client::open(info.set_tcp_settings(settings))?,
            address,
            response_timeout,
            shared: Mutex::new(None),
        })
    }

    /// `host:port`, or a path.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The connection that calls share; a new one where there is none.
    pub(crate) async fn shared(&self) -> Result<Link, CallError> {
        let mut shared = self.shared.lock().await;
        if let Some(link) = &*shared {
            return Ok(link.clone());
        }
        let link = self.own().await?;
        *shared = Some(link.clone());
        Ok(link)
    }

    /// A connection of the caller's own.
    pub(crate) async fn own(&self) -> Result<Link, CallError> {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        // Each call has a limit of its own; a connection's would end the calls that wait.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.response_timeout))
            .set_response_timeout(None);
        let connect = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        // The handshake is no part of the library's own limit.
        let connection = timeout(self.response_timeout, connect)
            .await
            .map_err(|_| CallError::silence())??;
        Ok(Link {
            connection,
            number: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Gives up a connection that has failed, unless that has been done already.
    pub(crate) async fn discard(&self, link: &Link) {
        let mut shared = self.shared.lock().await;
        if shared
            .as_ref()
            .is_some_and(|kept| kept.number == link.number)
        {
            *shared = None;
        }
    }

    /// Sends a call that does not wait on the shared connection.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, CallError> {
        let link = self.shared().await?;
        self.call_on(&link, command).await
    }

    /// Sends a call that does not wait on this connection, and gives it up when it fails.
    pub(crate) async fn call_on(&self, link: &Link, command: &Cmd) -> Result<Value, CallError> {
        let answer = timeout(self.response_timeout, link.send(command)).await;
        let answer = answer.unwrap_or_else(|_| Err(CallError::silence()));
        if let Err(CallError::Broken(_)) = answer {
            self.discard(link).await;
        }
        answer
    }

    /// Whether the server answers.
    pub(crate) async fn is_alive(&self) -> bool {
        match self.call(&redis::cmd("PING")).await {
            Ok(_) | Err(CallError::Refused(_) | CallError::NotHere(_)) => true,
            Err(_) => false,
        }
    }
}

impl Link {
    /// Sends a call and waits for the answer, however long it takes. Calls are sent in the order in
    /// which they are made.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, CallError> {
        let mut connection = self.connection.clone();
        Ok(command.query_async(&mut connection).await?)
    }
}

/// The same way of connecting, to another place.
pub(crate) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host: host.to_owned(),
            port,
            insecure,
            tls_params,
        },
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    info.clone().set_addr(address)
}
