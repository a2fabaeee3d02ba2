//! Sends commands over connections of redis-rs, each within a time limit. Nothing is repeated here.

mod cluster;

pub(crate) use cluster::{Route, Servers};

use crate::background::{background, timeout};
use crate::error::{Error, ErrorKind as LockError};
use crate::mutex::lock;
use crate::state::Answer;
use crate::testing::StandIn;
use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tokio::sync::OnceCell;

/// One server, or the primary that Sentinels name.
pub(crate) struct Server {
    pub(crate) address: String,
    source: Source,
    reply: Duration,
    /// The connection of each runtime: one that is shut down takes its own along, and no other.
    links: Mutex<HashMap<Id, Arc<Link>>>,
}

pub(crate) enum Source {
    One(Box<Client>),
    Sentinels(Arc<tokio::sync::Mutex<SentinelClient>>),
    StandIn(StandIn),
}

/// A connection that opens when it is used first.
pub(crate) type Link = OnceCell<MultiplexedConnection>;

impl Server {
    pub(crate) fn one(client: Client, reply: Duration) -> Self {
        let address = client.get_connection_info().addr().to_string();
        Self::new(address, Source::One(Box::new(client)), reply)
    }

    pub(crate) fn new(address: String, source: Source, reply: Duration) -> Self {
        Self {
            address,
            source,
            reply,
            links: Mutex::default(),
        }
    }

    /// Connects. Its callers limit the time, by a clock that needs no runtime of the user.
    fn connect(&self) -> BoxFuture<'_, Result<MultiplexedConnection, Error>> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        Box::pin(async move {
            let client = match &self.source {
                Source::One(client) => (**client).clone(),
                Source::Sentinels(sentinels) => {
                    // The question goes on when its caller has no more time, so that a Sentinel that hangs is passed over
                    // in the end.
                    let sentinels = Arc::clone(sentinels);
                    let ask = async move { sentinels.lock().await.async_get_client().await };
                    let asked = background().spawn(ask).await.expect("no panic");
                    asked.map_err(|error| self.fault(&error, false))?
                }
                Source::StandIn(_) => unreachable!("it has no connection"),
            };
            let connecting = client.get_multiplexed_async_connection_with_config(&config);
            connecting.await.map_err(|error| self.fault(&error, false))
        })
    }

    /// Sends commands in a pipeline that is answered in this time. It connects first, if need be.
    pub(crate) async fn send(
        &self,
        link: &Link,
        limit: Duration,
        commands: Vec<Cmd>,
    ) -> Vec<Answer> {
        let (began, count) = (Instant::now(), commands.len());
        let all = |error: Error| vec![Err(error); count];
        if limit.is_zero() {
            return all(Error::unsent(&self.address, "no time was left"));
        }
        if let Source::StandIn(stand_in) = &self.source {
            let answers = commands.iter().map(|command| stand_in.answer(command));
            return futures_util::future::join_all(answers).await;
        }
        let connecting = link.get_or_try_init(|| self.connect());
        let mut connection = match timeout(limit.min(self.reply), connecting).await {
            Ok(Ok(connection)) => connection.clone(),
            Ok(Err(error)) => return all(error),
            Err(_) => return all(Error::unsent(&self.address, "no connection in time")),
        };
        let left = limit.saturating_sub(began.elapsed());
        let mut pipeline = Pipeline::with_capacity(count);
        for command in commands {
            pipeline.add_command(command);
        }
        let sending = connection.send_packed_commands(&pipeline, 0, count);
        match timeout(left, sending).await {
            Ok(Ok(values)) => {
                let answers = values.into_iter().map(Value::extract_error);
                let fault = |error| self.fault(&error, true);
                answers.map(|answer| answer.map_err(fault)).collect()
            }
            Ok(Err(error)) => all(self.fault(&error, true)),
            Err(_) => all(Error::unanswered(&self.address, "no answer in time")),
        }
    }

    /// Sends one command.
    pub(crate) async fn ask(&self, link: &Link, limit: Duration, command: Cmd) -> Answer {
        let mut answers = self.send(link, limit, vec![command]).await;
        answers.pop().expect("an answer to each")
    }

    /// Sends a command once, over the connection of this runtime. `is_asking`: the server is one that ASK named.
    pub(crate) async fn call(&self, limit: Duration, is_asking: bool, command: &Cmd) -> Answer {
        let runtime = Handle::current().id();
        let link = Arc::clone(lock(&self.links).entry(runtime).or_default());
        let asking = is_asking.then(|| redis::cmd("ASKING"));
        let commands = asking.into_iter().chain([command.clone()]).collect();
        let mut answers = self.send(&link, limit, commands).await;
        let answer = answers.pop().expect("an answer to each");
        let is_bad = |fault: &Error| fault.is_broken() || fault.is("READONLY");
        if answer.as_ref().is_err_and(is_bad) {
            // It may be dead, or lead to an old primary.
            lock(&self.links).retain(|_, current| !Arc::ptr_eq(current, &link));
        }
        answer
    }

    /// The failure of a call, by the error of redis-rs. Not sent: connecting has failed.
    fn fault(&self, error: &RedisError, is_sent: bool) -> Error {
        let detail = error.detail().unwrap_or_default();
        match (error.code(), error.kind()) {
            (Some(code), _) => Error::reply(&self.address, &format!("{code} {detail}")),
            _ if is_sent => Error::unanswered(&self.address, error),
            (
                _,
                ErrorKind::AuthenticationFailed
                | ErrorKind::InvalidClientConfig
                | ErrorKind::RESP3NotSupported,
            ) => Error::new(LockError::Refused, format!("{}: {error}", self.address)),
            _ => Error::unsent(&self.address, error),
        }
    }

    /// Closes the connections, once nothing uses them.
    pub(crate) fn close(&self) {
        lock(&self.links).clear();
    }
}
