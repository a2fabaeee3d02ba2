//! Connections that poll sessions, and what their polls answer.

use crate::{
    Expect, Grant, Reply, Server, Talk, at_once, cmd, eventually, held, line, patience, run,
};
use redis::{Connection, Value};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// How long a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many calls are sent in one write.
const AT_ONCE: usize = 1000;

/// A session, and the connection that polls it.
pub struct Session {
    /// The session's id.
    pub id: i64,
    /// The connection.
    pub connection: Connection,
}

impl Deref for Session {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// The answer to a POLL.
#[derive(Debug, PartialEq)]
pub struct Polled {
    /// For how long no grant of the session can end; -1 where none has a lease that ends.
    pub sure_ms: i64,
    /// How many grants the session has.
    pub grants: i64,
    /// Each event as a line: number, kind and all that follows.
    pub events: Vec<String>,
}

impl Session {
    /// A session of a connection of its own.
    #[track_caller]
    pub fn open(server: &Server) -> Self {
        Self::open_on(server.connection(), "")
    }

    /// A server, a session, and a connection that is newer than the one that polls the session.
    #[track_caller]
    pub fn opened() -> (Server, Connection, Self) {
        let server = Server::start();
        let session = Self::open(&server);
        let c = server.connection();
        (server, c, session)
    }

    /// A server on which `a` holds `k`, a connection to it, and a session.
    #[track_caller]
    pub fn held() -> (Server, Connection, Self) {
        let (server, c) = held();
        let session = Self::open(&server);
        (server, c, session)
    }

    /// A session of this connection: `LOCK.SESSION OPEN` with these words behind it.
    #[track_caller]
    pub fn open_on(mut connection: Connection, words: &str) -> Self {
        let id = run(&mut connection, &format!("LOCK.SESSION OPEN {words}")).int();
        Self { id, connection }
    }

    /// The session of this id on a new connection, which has not polled yet.
    #[track_caller]
    pub fn again(id: i64, server: &Server) -> Self {
        let connection = server.connection();
        Self { id, connection }
    }

    /// Closes the connection that polls, and returns once the server has seen it. The session's id.
    #[track_caller]
    pub fn leave(self, server: &Server) -> i64 {
        let mut gone = Self::again(self.id, server);
        drop(self.connection);
        let listed = |c: &mut Connection| listed(c, gone.id)["client-id"].clone().int();
        eventually(|| listed(&mut gone.connection) == 0, "the close");
        gone.id
    }

    /// The session on a new connection, when the server has seen the close of the old one.
    #[must_use]
    #[track_caller]
    pub fn reconnect(self, server: &Server) -> Self {
        Self::again(self.leave(server), server)
    }

    /// A command of the polling connection, with the session's id for `ID`.
    #[track_caller]
    pub fn run(&mut self, words: &str) -> Reply {
        let words = self.line(words);
        run(&mut self.connection, &words)
    }

    /// Takes a lock (`key owner` and options) in the session.
    #[track_caller]
    pub fn acquire(&mut self, words: &str) -> Grant {
        self.run(&format!("LOCK.ACQUIRE {words} SESSION ID"))
            .grant()
    }

    /// Takes many locks in the session, over any connection.
    #[track_caller]
    pub fn acquire_all(
        &self,
        c: &mut Connection,
        calls: impl IntoIterator<Item = String>,
    ) -> Vec<Grant> {
        let calls = calls.into_iter();
        let lines: Vec<_> = calls
            .map(|words| self.line(&format!("LOCK.ACQUIRE {words} SESSION ID")))
            .collect();
        let replies = lines.chunks(AT_ONCE).flat_map(|lines| at_once(c, lines));
        replies.map(Expect::grant).collect()
    }

    /// Gives a grant of the session back, which the session need not be told.
    #[track_caller]
    pub fn release(&self, c: &mut Connection, key: &str, owner: &str) {
        let token = cmd!(*c, "LOCK.RENEW", key, owner).grant().token;
        let words = format!("LOCK.RELEASE {key} {owner} TOKEN {token} SESSION ID");
        assert_eq!(run(c, &self.line(&words)).int(), 0);
    }

    /// A command with the session's id for `ID`.
    pub fn line(&self, words: &str) -> String {
        words.replace("ID", &self.id.to_string())
    }

    /// Runs such a command on another connection.
    #[track_caller]
    pub fn on(&self, connection: &mut Connection, words: &str) -> Reply {
        run(connection, &self.line(words))
    }

    /// Polls, and does not wait.
    #[track_caller]
    pub fn poll(&mut self) -> Polled {
        polled(self.run("LOCK.SESSION POLL ID"))
    }

    /// Polls, and waits for an answer for at most so long.
    #[track_caller]
    pub fn poll_for(&mut self, ms: i64) -> Polled {
        polled(self.run(&format!("LOCK.SESSION POLL ID BLOCK {ms}")))
    }

    /// Begins a POLL that waits.
    #[track_caller]
    pub fn post_poll(&mut self, ms: i64) {
        let words = self.line(&format!("LOCK.SESSION POLL ID BLOCK {ms}"));
        self.connection.post(&line(&words));
    }

    /// The answer to the POLL that waits.
    #[track_caller]
    pub fn polled(&mut self) -> Polled {
        polled(self.connection.receive())
    }

    /// From now on, a POLL waits. The server has read it.
    #[track_caller]
    pub fn stay(&mut self, server: &Server) {
        let client = cmd!(self.connection, "CLIENT", "ID").int();
        self.post_poll(60_000);
        let mut c = server.connection();
        eventually(|| is_blocked(&mut c, client), "the POLL to wait");
    }

    /// The events that answer the POLL that waits.
    #[track_caller]
    pub fn told(&mut self) -> Vec<String> {
        let events = self.polled().events;
        if events.is_empty() {
            // The server may end a wait early.
            return self.events(1);
        }
        events
    }

    /// As [`Self::told`], and polls on until so many events have come.
    #[track_caller]
    pub fn told_all(&mut self, wanted: usize) -> Vec<String> {
        let mut told = self.told();
        told.extend(self.events(wanted.saturating_sub(told.len())));
        told
    }

    /// Polls until so many events have come.
    #[track_caller]
    pub fn events(&mut self, wanted: usize) -> Vec<String> {
        let since = Instant::now();
        let mut events = Vec::new();
        while events.len() < wanted {
            let spent = since.elapsed();
            assert!(spent < patience(PATIENCE), "{events:?} after {spent:?}");
            events.extend(self.poll_for(5000).events);
        }
        events
    }

    /// Its fields in LIST.
    #[track_caller]
    pub fn listed(&self, c: &mut Connection) -> BTreeMap<String, Value> {
        listed(c, self.id)
    }

    /// A number in LIST.
    #[track_caller]
    pub fn number(&self, c: &mut Connection, field: &str) -> i64 {
        self.listed(c)[field].clone().int()
    }

    /// The connection that polls it, by LIST; 0 for none.
    #[track_caller]
    pub fn client_id(&self, c: &mut Connection) -> i64 {
        self.number(c, "client-id")
    }

    /// The command that queues this call (`key owner` and options) in the session, for as long as it takes.
    pub fn call(&self, words: &str) -> String {
        let id = self.id;
        format!("LOCK.ACQUIRE {words} PX 600000 QUEUE 0 SESSION {id} HOLDS 1")
    }

    /// The reply to such a call. The call goes over a connection of its own, because a POLL may wait on
    /// that of the session.
    #[track_caller]
    pub fn ask(&self, c: &mut Connection, words: &str) -> Reply {
        run(c, &self.call(words))
    }

    /// Queues such a call. Its place.
    #[track_caller]
    pub fn queue(&self, c: &mut Connection, words: &str) -> i64 {
        self.ask(c, words).int()
    }
}

#[track_caller]
fn listed(c: &mut Connection, id: i64) -> BTreeMap<String, Value> {
    let list = run(c, "LOCK.SESSION LIST").items().into_iter();
    let mut of = list
        .map(Expect::fields)
        .filter(|fields| fields["id"] == Value::Int(id));
    of.next().expect("the session in the list")
}

/// Whether a POLL of this client waits.
#[track_caller]
pub fn is_blocked(c: &mut Connection, client: i64) -> bool {
    let line = cmd!(*c, "CLIENT", "LIST", "ID", client).text();
    line.contains(" cmd=lock.session|poll ") && line.contains(" flags=b")
}

/// A reply to a POLL, read with nothing left over.
#[track_caller]
pub fn polled(reply: Reply) -> Polled {
    let mut fields = reply.fields();
    assert_eq!(fields.len(), 3, "{fields:?}");
    let mut take = |name: &str| fields.remove(name).expect(name);
    let events = take("events").items().into_iter();
    Polled {
        sure_ms: take("sure-ms").int(),
        grants: take("grants").int(),
        events: events.map(event).collect(),
    }
}

fn event(event: Value) -> String {
    let parts = event.items().into_iter().map(|part| match part {
        Value::Int(number) => number.to_string(),
        other => other.text(),
    });
    let parts: Vec<_> = parts.collect();
    parts.join(" ")
}

/// The sessions of the holders of a lock.
#[track_caller]
pub fn sessions_of(c: &mut Connection, key: &str) -> Vec<i64> {
    let holders = cmd!(*c, "LOCK.HOLDERS", key).items();
    let session = |holder: Value| holder.fields()["session"].clone().int();
    holders.into_iter().map(session).collect()
}

/// Waits until the server has renewed grants of sessions so many times more.
#[track_caller]
pub fn await_renewals(server: &Server, more: i64) {
    let before = server.count("session_renewals");
    let lost = server.count("session_losses");
    let renewed = || {
        assert_eq!(server.count("session_losses"), lost, "no grant is lost");
        server.count("session_renewals") >= before + more
    };
    eventually(renewed, "renewals");
}
