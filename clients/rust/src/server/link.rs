//! One connection.

use super::CallError;
use super::commands::Call;
use crate::class::Kind;
use futures_util::future::join;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, PushInfo, PushKind, RedisError, Value};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A connection that calls can share. It closes with its last clone, when [`close`](Self::close) is called,
/// or when the server does.
#[derive(Clone)]
pub(crate) struct Link {
    /// None when it has been closed here: only so it ends while others know of it still.
    connection: Arc<Mutex<Option<MultiplexedConnection>>>,
    closed: CancellationToken,
    /// It was closed because nothing came.
    was_silent: Arc<AtomicBool>,
    /// By which the server knows it, where that was asked for and may be known.
    id: Option<u64>,
}

impl Link {
    /// Connects, and tells the server by which name it should be listed. Asks for the id where it is needed.
    pub(crate) async fn open(
        client: &redis::Client,
        name: &str,
        needs_id: bool,
        limit: Duration,
    ) -> Result<Self, RedisError> {
        let closed = CancellationToken::new();
        let heard = closed.clone();
        // The library tells of the end of a connection as it tells of what the server pushes.
        let on_push = move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                heard.cancel();
            }
            Ok::<(), Infallible>(())
        };
        // Each call has a limit of its own; a connection's would end the calls that wait.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(limit))
            .set_response_timeout(None)
            .set_push_sender(on_push);
        let connect = async {
            let connection = client.get_multiplexed_async_connection_with_config(&config);
            let mut link = Self {
                connection: Arc::new(Mutex::new(Some(connection.await?))),
                closed: closed.clone(),
                was_silent: Arc::default(),
                id: None,
            };
            // Where that is not allowed, it has no name.
            let name = Call::words(&["CLIENT", "SETNAME", name]);
            let (_, id) = join(link.send(&name), async {
                let asking = needs_id.then(|| Call::words(&["CLIENT", "ID"]))?;
                link.send(&asking).await.ok()
            })
            .await;
            link.id = match id {
                Some(Value::Int(id)) => u64::try_from(id).ok(),
                _ => None,
            };
            Ok(link)
        };
        // The handshake is no part of the library's own limit.
        let silence = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        timeout(limit, connect).await.unwrap_or_else(silence)
    }

    /// Sends a call and waits for the answer, however long it takes. Calls are sent in the order in
    /// which they are made.
    pub(crate) async fn send(&self, call: &Call) -> Result<Value, CallError> {
        let mut connection = self.connection()?;
        self.unless_closed(call.kind, call.command.query_async(&mut connection))
            .await
    }

    /// The same with `ASKING`, with no other call in between.
    pub(crate) async fn send_asking(&self, call: &Call) -> Result<Value, CallError> {
        let mut connection = self.connection()?;
        let mut both = Pipeline::new();
        both.cmd("ASKING").add_command(Cmd::clone(&call.command));
        let answer = async {
            let answers = connection.req_packed_commands(&both, 1, 1).await?;
            answers
                .into_iter()
                .next_back()
                .unwrap_or(Value::Nil)
                .extract_error()
        };
        self.unless_closed(call.kind, answer).await
    }

    pub(crate) fn id(&self) -> Option<u64> {
        self.id
    }

    /// Comes back when it is closed, by whoever did it.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Whether it was closed because nothing came. Other connections to the server may be as deaf.
    pub(crate) fn was_silent(&self) -> bool {
        self.was_silent.load(Ordering::Relaxed)
    }

    /// Ends it for all who use it, because nothing came.
    pub(crate) fn close_as_silent(&self) {
        self.was_silent.store(true, Ordering::Relaxed);
        self.close();
    }

    /// Ends it for all who use it.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        drop(self.locked().take());
    }

    fn connection(&self) -> Result<MultiplexedConnection, CallError> {
        self.locked().clone().ok_or_else(CallError::closed)
    }

    fn locked(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn unless_closed(
        &self,
        kind: Kind,
        answer: impl Future<Output = Result<Value, RedisError>>,
    ) -> Result<Value, CallError> {
        tokio::select! {
            biased; // what has been answered before the end has been answered
            answer = answer => answer.map_err(|error| CallError::of(error, kind)),
            () = self.closed() => Err(CallError::closed()),
        }
    }
}
