//! Sends commands over connections of redis-rs, each within a time limit. Nothing is repeated here.

mod cluster;
mod crowd;
mod sentinels;

pub(crate) use cluster::Servers;
pub(crate) use crowd::Call;

use crate::background::timeout;
use crate::state::{Fault, Reply};
use crate::testing::StandIn;
use crowd::Crowd;
use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::sentinel::SentinelClient;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, Value};
use sentinels::Sentinels;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::OnceCell;

/// One server, or the primary that Sentinels name.
pub(crate) struct Server {
    pub(crate) address: String,
    source: Source,
    reply: Duration,
    /// The connection of each runtime: one that is shut down takes its own along, and no other.
    links: Mutex<HashMap<Id, Arc<Link>>>,
    crowd: Crowd,
}

enum Source {
    One(Box<Client>),
    Sentinels(Sentinels),
    StandIn(StandIn),
}

type Link = OnceCell<MultiplexedConnection>;

impl Server {
    pub(crate) fn one(client: Client, reply: Duration) -> Self {
        let address = client.get_connection_info().addr().to_string();
        Self::new(address, Source::One(Box::new(client)), reply)
    }

    pub(crate) fn of_sentinels(client: SentinelClient, master: &str, reply: Duration) -> Self {
        Self::new(
            format!("primary of {master}"),
            Source::Sentinels(Sentinels::new(client)),
            reply,
        )
    }

    pub(crate) fn stand_in(stand_in: &StandIn, reply: Duration) -> Self {
        Self::new(
            "stand-in".to_owned(),
            Source::StandIn(stand_in.clone()),
            reply,
        )
    }

    fn new(address: String, source: Source, reply: Duration) -> Self {
        Self {
            address,
            source,
            reply,
            links: Mutex::default(),
            crowd: Crowd::default(),
        }
    }

    /// Connects. Its callers limit the time, by a clock that needs no runtime of the user.
    fn connect(&self) -> BoxFuture<'_, Result<MultiplexedConnection, Fault>> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        Box::pin(async move {
            let client = match &self.source {
                Source::One(client) => (**client).clone(),
                Source::Sentinels(sentinels) => sentinels.client().await?,
                Source::StandIn(_) => unreachable!("it has no connection"),
            };
            let connection = client
                .get_multiplexed_async_connection_with_config(&config)
                .await;
            connection.map_err(|error| not_sent(&error))
        })
    }

    /// Sends a command once, over the connection of this runtime. `asking`: the server is one that ASK named.
    pub(crate) async fn call(&self, limit: Duration, asking: bool, command: &Cmd) -> Reply {
        if limit.is_zero() {
            return Err(Fault::no_reply("no time was left", false));
        }
        if let Source::StandIn(stand_in) = &self.source {
            return stand_in.answer(command).await;
        }
        let crowd = if asking || limit < self.reply {
            None
        } else {
            self.crowd.join(command)
        };
        if let Some(reply) = crowd {
            let no_answer = |_| Err(Fault::no_reply("the connection was closed", true));
            return reply.await.unwrap_or_else(no_answer);
        }
        let runtime = Handle::current().id();
        let link = Arc::clone(self.links().entry(runtime).or_default());
        let sending = async {
            let connection = link.get_or_try_init(|| self.connect()).await?;
            let mut connection = connection.clone();
            if asking {
                let commands = [redis::cmd("ASKING"), command.clone()];
                let mut replies = send(&mut connection, &commands).await;
                return replies.pop().expect("a reply to each");
            }
            reply_of(connection.send_packed_command(command).await)
        };
        let reply = timeout(limit, sending)
            .await
            .unwrap_or_else(|_| Err(Fault::no_reply("no answer in time", link.initialized())));
        self.heed(runtime, &link, &reply);
        reply
    }

    /// Lets go of a connection that may be dead or lead to an old primary.
    fn heed(&self, runtime: Id, link: &Arc<Link>, reply: &Reply) {
        if reply
            .as_ref()
            .is_err_and(|fault| fault.is_broken() || fault.is("READONLY"))
        {
            let mut links = self.links();
            if links
                .get(&runtime)
                .is_some_and(|current| Arc::ptr_eq(current, link))
            {
                links.remove(&runtime);
            }
        }
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Id, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connections, once nothing uses them.
    pub(crate) fn close(&self) {
        self.links().clear();
    }
}

/// The connection of a session, which only its loop uses.
pub(crate) struct Poller {
    server: Arc<Server>,
    connection: Option<MultiplexedConnection>,
}

impl Poller {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            connection: None,
        }
    }

    /// Sends commands in a pipeline that is answered in this time. It connects first, if need be.
    pub(crate) async fn send(&mut self, limit: Duration, commands: &[Cmd]) -> Vec<Reply> {
        if let Source::StandIn(stand_in) = &self.server.source {
            let answers = commands.iter().map(|command| stand_in.answer(command));
            return futures_util::future::join_all(answers).await;
        }
        let all = |fault: Fault| vec![Err(fault); commands.len()];
        if self.connection.is_none() {
            match timeout(self.server.reply, self.server.connect()).await {
                Ok(Ok(connection)) => self.connection = Some(connection),
                Ok(Err(fault)) => return all(fault),
                Err(_) => return all(Fault::no_reply("no connection in time", false)),
            }
        }
        let connection = self.connection.as_mut().expect("connected");
        let sent = timeout(limit, send(connection, commands)).await;
        sent.unwrap_or_else(|_| all(Fault::no_reply("no answer in time", true)))
    }

    /// What callers call goes along with the next exchange.
    pub(crate) fn collect_calls(&self) {
        self.server.crowd.open();
    }

    /// The calls that go along. `waits`: callers were woken, so that one is about to come.
    pub(crate) async fn calls(&self, waits: bool) -> Vec<Call> {
        self.server.crowd.take(waits).await
    }

    /// Lets callers use their own connections.
    pub(crate) fn release_calls(&self) {
        self.server.crowd.close();
    }

    /// Lets go of the connection.
    pub(crate) fn close(&mut self) {
        self.connection = None;
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.release_calls();
    }
}

async fn send(connection: &mut MultiplexedConnection, commands: &[Cmd]) -> Vec<Reply> {
    if let [command] = commands {
        return vec![reply_of(connection.send_packed_command(command).await)];
    }
    let mut pipeline = redis::Pipeline::with_capacity(commands.len());
    for command in commands {
        pipeline.add_command(command.clone());
    }
    match connection
        .send_packed_commands(&pipeline, 0, commands.len())
        .await
    {
        Ok(values) => values
            .into_iter()
            .map(|value| reply_of(Ok(value)))
            .collect(),
        Err(error) => vec![Err(fault_of(&error)); commands.len()],
    }
}

fn reply_of(reply: Result<Value, RedisError>) -> Reply {
    match reply.and_then(Value::extract_error) {
        Ok(value) => Ok(value),
        Err(error) => Err(fault_of(&error)),
    }
}

/// What an error of redis-rs means to a call that was sent.
fn fault_of(error: &RedisError) -> Fault {
    match error.code() {
        Some(code) => Fault::reply(&format!("{code} {}", error.detail().unwrap_or_default())),
        None => Fault::no_reply(error, true),
    }
}

/// What an error of redis-rs means to a connection that did not come to be.
fn not_sent(error: &RedisError) -> Fault {
    match error.kind() {
        _ if error.code().is_some() => fault_of(error),
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported => Fault::refused(error),
        _ => Fault::no_reply(error, false),
    }
}
