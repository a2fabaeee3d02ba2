//! Connections that poll sessions, and what their polls answer.

pub(crate) use testbed::{at_once, run};

use redis::{Connection, Value};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};
use testbed::{Expect, Reply, Server, Talk, cmd, eventually, line};

/// A session, and the connection that polls it.
pub(crate) struct Session {
    pub(crate) id: i64,
    pub(crate) connection: Connection,
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
pub(crate) struct Polled {
    pub(crate) sure_ms: i64,
    pub(crate) grants: i64,
    /// Each event as a line: number, kind and all that follows.
    pub(crate) events: Vec<String>,
}

impl Session {
    /// A session of a connection of its own.
    #[track_caller]
    pub(crate) fn open(server: &Server) -> Self {
        Self::open_on(server.connection(), "")
    }

    /// A server, a session, and a connection that is newer than the one that polls the session.
    #[track_caller]
    pub(crate) fn opened() -> (Server, Connection, Self) {
        let server = Server::start();
        let session = Self::open(&server);
        let c = server.connection();
        (server, c, session)
    }

    /// A session of this connection: `LOCK.SESSION OPEN` with these words behind it.
    #[track_caller]
    pub(crate) fn open_on(mut connection: Connection, words: &str) -> Self {
        let id = run(&mut connection, &format!("LOCK.SESSION OPEN {words}")).int();
        Self { id, connection }
    }

    /// A command of the polling connection, with the session's id for `ID`.
    #[track_caller]
    pub(crate) fn run(&mut self, words: &str) -> Reply {
        let words = self.line(words);
        run(&mut self.connection, &words)
    }

    /// A command with the session's id for `ID`.
    pub(crate) fn line(&self, words: &str) -> String {
        words.replace("ID", &self.id.to_string())
    }

    #[track_caller]
    pub(crate) fn poll(&mut self) -> Polled {
        polled(self.run("LOCK.SESSION POLL ID"))
    }

    /// Polls, and waits for an answer for at most so long.
    #[track_caller]
    pub(crate) fn poll_for(&mut self, ms: i64) -> Polled {
        polled(self.run(&format!("LOCK.SESSION POLL ID BLOCK {ms}")))
    }

    /// Begins a POLL that waits.
    #[track_caller]
    pub(crate) fn post_poll(&mut self, ms: i64) {
        let words = self.line(&format!("LOCK.SESSION POLL ID BLOCK {ms}"));
        self.connection.post(&line(&words));
    }

    /// The answer to the POLL that waits.
    #[track_caller]
    pub(crate) fn polled(&mut self) -> Polled {
        polled(self.connection.receive())
    }

    /// Polls once more, and once the server has read the call.
    #[track_caller]
    pub(crate) fn wait_in_poll(&mut self, server: &Server, ms: i64) {
        self.post_poll(ms);
        let mut c = server.connection();
        let client = self.client_id(&mut c);
        eventually(|| is_blocked(&mut c, client), "the POLL to wait");
    }

    /// Its fields in LIST.
    #[track_caller]
    pub(crate) fn listed(&self, c: &mut Connection) -> std::collections::BTreeMap<String, Value> {
        let list = run(c, "LOCK.SESSION LIST").items().into_iter();
        let mut of = list
            .map(Expect::fields)
            .filter(|fields| fields["id"] == Value::Int(self.id));
        of.next().expect("the session in the list")
    }

    /// A number in LIST.
    #[track_caller]
    pub(crate) fn number(&self, c: &mut Connection, field: &str) -> i64 {
        self.listed(c)[field].clone().int()
    }

    #[track_caller]
    pub(crate) fn client_id(&self, c: &mut Connection) -> i64 {
        self.number(c, "client-id")
    }
}

#[track_caller]
pub(crate) fn is_blocked(c: &mut Connection, client: i64) -> bool {
    let line = cmd!(*c, "CLIENT", "LIST", "ID", client).text();
    line.contains(" cmd=lock.session|poll ") && line.contains(" flags=b")
}

#[track_caller]
pub(crate) fn polled(reply: Reply) -> Polled {
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

/// A field of `INFO lock`.
#[track_caller]
pub(crate) fn count(server: &Server, field: &str) -> i64 {
    let field = format!("lock_{field}");
    let text = server.info_field("lock", &field);
    text.parse().expect("a number")
}

/// The sessions of the holders of a lock.
#[track_caller]
pub(crate) fn sessions_of(c: &mut Connection, key: &str) -> Vec<i64> {
    let holders = run(c, &format!("LOCK.HOLDERS {key}")).items();
    let session = |holder: Value| holder.fields()["session"].clone().int();
    holders.into_iter().map(session).collect()
}

/// When the lease of a lock ends, in milliseconds since 1970.
#[track_caller]
pub(crate) fn end_of_lease(c: &mut Connection, key: &str) -> i64 {
    cmd!(*c, "PEXPIRETIME", key).int()
}

/// Waits until the server has renewed grants of sessions so many times more.
#[track_caller]
pub(crate) fn await_renewals(server: &Server, more: i64) {
    let before = count(server, "session_renewals");
    let lost = count(server, "session_losses");
    eventually(
        || {
            assert_eq!(count(server, "session_losses"), lost, "no grant is lost");
            count(server, "session_renewals") >= before + more
        },
        "renewals",
    );
}

/// While the server's process stands still, this is done.
pub(crate) fn while_stopped<T>(server: &Server, body: impl FnOnce() -> T) -> T {
    server.signal("STOP");
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", server.pid()));
    eventually(
        || state().is_ok_and(|state| state.contains(") T ")),
        "the server to stand still",
    );
    let result = body();
    server.signal("CONT");
    result
}

/// How long this takes.
pub(crate) fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = body();
    (result, began.elapsed())
}
