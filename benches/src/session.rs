//! A session: opening it, polling it, and the calls that name it.

use redis::{Cmd, Connection, Value};
use testbed::{Expect, Server, Talk, cmd};

use crate::ways::call;

pub(crate) const HOUR_MS: u32 = 3_600_000;
/// How long a program may fail to poll.
const TIMEOUT_MS: u32 = 24 * HOUR_MS;

/// Opens a session, which this connection polls. Returns its id.
pub(crate) fn open_session(connection: &mut Connection) -> i64 {
    cmd!(*connection, "LOCK.SESSION", "OPEN", "TIMEOUT", TIMEOUT_MS).int()
}

/// A session, and the connection that polls it.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) id: i64,
}

/// A queued call is granted.
pub(crate) struct Granted {
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) token: i64,
}

impl Session {
    pub(crate) fn open(server: &Server) -> Self {
        let mut connection = server.connection();
        let id = open_session(&mut connection);
        Self { connection, id }
    }

    /// Sends these commands, and a POLL that waits.
    pub(crate) fn post(&mut self, commands: &[Cmd]) {
        let poll = call!("LOCK.SESSION POLL {} BLOCK {HOUR_MS}", self.id);
        post_all(&mut self.connection, &[commands, &[poll]].concat());
    }

    /// The events of the POLL that was sent last, or of the next one that has any; none when the session has ended.
    pub(crate) fn events(&mut self) -> Vec<Granted> {
        while let Ok(reply) = self.connection.receive() {
            let events = reply.fields().remove("events").expect("events").items();
            if !events.is_empty() {
                return events.into_iter().map(granted).collect();
            }
            self.post(&[]);
        }
        Vec::new()
    }
}

/// Sends commands in one write.
pub(crate) fn post_all(connection: &mut Connection, commands: &[Cmd]) {
    let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
    let sent = connection.send_packed_command(&packed);
    sent.expect("a connection to write to");
}

/// A call that waits in a session, with a lease of an hour.
pub(crate) fn queue(session: i64, key: &str, owner: &str) -> Cmd {
    call!("LOCK.ACQUIRE {key} {owner} PX {HOUR_MS} SESSION {session} HOLDS 1 QUEUE 0")
}

/// The release by the program of the session.
pub(crate) fn release(session: i64, Granted { key, owner, token }: &Granted) -> Cmd {
    call!("LOCK.RELEASE {key} {owner} TOKEN {token} SESSION {session}")
}

fn granted(event: Value) -> Granted {
    let [_, kind, key, owner, token, ..] = <[Value; 8]>::try_from(event.items()).expect("a grant");
    assert_eq!(kind.text(), "granted");
    Granted {
        key: key.text(),
        owner: owner.text(),
        token: token.int(),
    }
}
