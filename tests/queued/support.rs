//! Programs that queue calls, and the events that they get.

pub(crate) use crate::sessions::{Session, at_once, count, run, while_stopped};
pub(crate) use crate::waiting::wait;

use redis::{Connection, Value};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Expect, Reply, Server, cmd, eventually, held, patience};

/// How long a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than a program may go without a POLL before its calls are passed over.
pub(crate) const SILENCE: Duration = Duration::from_millis(1200);

impl Session {
    /// A server on which `a` holds `k`, a connection to it, and a session.
    #[track_caller]
    pub(crate) fn held() -> (Server, Connection, Self) {
        let (server, c) = held();
        let session = Self::open(&server);
        (server, c, session)
    }

    /// The command that queues this call (`key owner` and options) in the session, for as long as it takes.
    pub(crate) fn call(&self, words: &str) -> String {
        let id = self.id;
        format!("LOCK.ACQUIRE {words} PX 600000 QUEUE 0 SESSION {id} HOLDS 1")
    }

    /// What the server replies to such a call. It goes over a connection of its own, because a POLL may wait on
    /// that of the session.
    #[track_caller]
    pub(crate) fn ask(&self, c: &mut Connection, words: &str) -> Reply {
        run(c, &self.call(words))
    }

    /// Queues such a call. Its place.
    #[track_caller]
    pub(crate) fn queue(&self, c: &mut Connection, words: &str) -> i64 {
        self.ask(c, words).int()
    }

    /// From now on, a POLL waits. The server has read it.
    #[track_caller]
    pub(crate) fn stay(&mut self, server: &Server) {
        let client = cmd!(self.connection, "CLIENT", "ID").int();
        self.post_poll(60_000);
        let mut c = server.connection();
        eventually(
            || crate::sessions::is_blocked(&mut c, client),
            "the POLL to wait",
        );
    }

    /// The events that answer the POLL that waits.
    #[track_caller]
    pub(crate) fn told(&mut self) -> Vec<String> {
        let events = self.polled().events;
        if events.is_empty() {
            // The server may end a wait early.
            return self.events(1);
        }
        events
    }

    /// Polls until so many events have come.
    #[track_caller]
    pub(crate) fn events(&mut self, wanted: usize) -> Vec<String> {
        let since = Instant::now();
        let mut events = Vec::new();
        while events.len() < wanted {
            let spent = since.elapsed();
            assert!(spent < patience(PATIENCE), "{events:?} after {spent:?}");
            events.extend(self.poll_for(5000).events);
        }
        events
    }

    /// Gives a grant of the session back, which the session need not be told.
    #[track_caller]
    pub(crate) fn release(&self, c: &mut Connection, key: &str, owner: &str) {
        let token = cmd!(*c, "LOCK.RENEW", key, owner).grant().token;
        let words = format!("LOCK.RELEASE {key} {owner} TOKEN {token} SESSION ID");
        assert_eq!(run(c, &self.line(&words)).int(), 0);
    }

    /// Closes the connection that polls, and returns once the server has seen it.
    #[track_caller]
    pub(crate) fn leave(self, server: &Server) -> Gone {
        let id = self.id;
        let gone = Gone { id };
        let mut c = server.connection();
        drop(self.connection);
        eventually(|| gone.client_id(&mut c) == 0, "the close");
        gone
    }

    /// Demands that nothing has happened to the session.
    #[track_caller]
    pub(crate) fn has_no_events(&self, c: &mut Connection) {
        assert_eq!(self.number(c, "events"), 0);
    }
}

/// A session without a connection that polls it.
#[derive(Clone, Copy)]
pub(crate) struct Gone {
    pub(crate) id: i64,
}

impl Gone {
    /// The session on a new connection, which has not polled yet.
    #[track_caller]
    pub(crate) fn back(self, server: &Server) -> Session {
        Session {
            id: self.id,
            connection: server.connection(),
        }
    }

    #[track_caller]
    fn client_id(self, c: &mut Connection) -> i64 {
        let list = run(c, "LOCK.SESSION LIST").items().into_iter();
        let mut of = list
            .map(Expect::fields)
            .filter(|fields| fields["id"] == Value::Int(self.id));
        let fields = of.next().expect("the session in the list");
        fields["client-id"].clone().int()
    }
}

/// No POLL comes for so long that calls are passed over.
pub(crate) fn fall_silent() {
    sleep(SILENCE);
}

/// The event that tells that `owner` has this lock alone, by its first hold.
#[track_caller]
pub(crate) fn granted(c: &mut Connection, number: usize, key: &str, owner: &str) -> String {
    let token = cmd!(*c, "LOCK.FENCE", key).int();
    format!("{number} granted {key} {owner} {token} 1 600000 1")
}

/// The owners that hold a lock, the one with the lowest token first.
#[track_caller]
pub(crate) fn holders(c: &mut Connection, key: &str) -> Vec<String> {
    let holders = cmd!(*c, "LOCK.HOLDERS", key).items().into_iter();
    holders
        .map(|holder| holder.fields()["owner"].clone().text())
        .collect()
}

/// Waits until these owners hold a lock. After a stall, as a busy machine makes them, a hand-off behind calls that
/// are passed over comes a little later.
#[track_caller]
pub(crate) fn has(c: &mut Connection, key: &str, owners: &[&str]) {
    eventually(
        || holders(c, key) == owners,
        &format!("{owners:?} to hold {key}"),
    );
}

/// Takes locks (`key owner` and options). As in [`has`], a newcomer may have to try again.
#[track_caller]
pub(crate) fn hold(c: &mut Connection, calls: &[&str]) {
    for call in calls {
        let words = format!("LOCK.ACQUIRE {call} PX 600000");
        eventually(|| run(c, &words).value() != Value::Nil, call);
    }
}

/// How many calls are in the queues of all locks, blocked ones not counted.
#[track_caller]
pub(crate) fn queued(server: &Server) -> i64 {
    count(server, "queued")
}
