//! A client's connection to one server: one command, one reply, or none.

use super::deployment::Node;
use super::stage::{ConnectionId, Stage};
use crate::connection::{connect, insist};
use redis::{Cmd, Connection, ConnectionLike, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Proxy, Refusal, line};

/// A connection that its server has a number for.
pub(crate) struct Line {
    connection: Connection,
    id: ConnectionId,
    /// Whether nothing stands between: what the server wrote before it closed is read.
    is_direct: bool,
}

/// The result of a command.
pub(crate) enum Answer {
    Value(Value),
    Error(Refusal),
    /// The connection closed without a reply.
    Closed,
    /// No reply, for longer than any command may take.
    Silence,
}

impl Line {
    /// Connects to a node, by its proxy if it has one and `direct` is not asked for.
    pub(crate) fn open(stage: &Stage, node: usize, client: u32, direct: bool) -> Option<Self> {
        let proxy = stage.deployment.proxy().filter(|_| !direct);
        let server = &stage.deployment.nodes()[node];
        let life = server.life();
        let mut connection = connect(proxy.map_or(server.port(), Proxy::port)).ok()?;
        let info: String = line("CLIENT INFO").query(&mut connection).ok()?;
        let number = info
            .split(' ')
            .find_map(|field| field.strip_prefix("id="))?;
        let opened = Self {
            connection,
            id: (node, life, number.parse().ok()?),
            is_direct: proxy.is_none(),
        };
        stage.introduce(opened.id, client);
        Some(opened)
    }

    /// Sends and waits for the reply.
    pub(crate) fn ask(&mut self, command: &Cmd) -> Answer {
        match self.connection.req_command(command) {
            Ok(Value::ServerError(error)) => Answer::Error(Refusal::from(&error)),
            Ok(value) => Answer::Value(value),
            Err(e) if e.is_timeout() => Answer::Silence,
            Err(_) => Answer::Closed,
        }
    }

    /// Sends after `ASKING`, as a redirection by `ASK` wants it.
    pub(crate) fn ask_after_asking(&mut self, command: &Cmd) -> Answer {
        match self.ask(&redis::cmd("ASKING")) {
            Answer::Value(_) => self.ask(command),
            other => other,
        }
    }

    /// How its server numbers it.
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// Sends, and closes without reading the reply.
    pub(crate) fn leave(mut self, stage: &Stage, command: &Cmd, after: Duration) {
        // A connection that is closed already has left, too.
        let _ = self
            .connection
            .send_packed_command(&command.get_packed_command());
        sleep(after);
        self.close(stage);
    }

    /// Whether the server closed this line at our word, having written all that it had to say.
    pub(crate) fn was_killed(&self, stage: &Stage) -> bool {
        self.is_direct && stage.was_killed(self.id)
    }

    /// Closes the connection and waits until the server knows that this connection has ended: from then on nothing that was
    /// sent on it can happen any more.
    pub(crate) fn close(self, stage: &Stage) {
        let (node, life, number) = self.id;
        let node: &Node = &stage.deployment.nodes()[node];
        drop(self.connection);
        insist("a closed connection stays open", || {
            if node.life() != life {
                return Ok(()); // its process is dead
            }
            let kill = line(&format!("CLIENT KILL ID {number}"));
            kill.query::<i64>(&mut node.connect()?).map(drop)
        });
    }
}
