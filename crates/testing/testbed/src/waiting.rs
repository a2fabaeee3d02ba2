//! Calls that wait for a lock on their own connection, and what is seen of them.

use crate::{Expect, Grant, Kind, LockInfo, Server, Talk, cmd, eventually, line, run, waiters};
use redis::{Cmd, Connection};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::ops::{Deref, DerefMut};

/// A connection whose call waits for a lock.
pub struct Waiter {
    /// What `CLIENT ID` says.
    pub id: i64,
    connection: Connection,
}

impl Deref for Waiter {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Waiter {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Waiter {
    /// Posts a call, and returns once the server has blocked its client.
    #[track_caller]
    pub fn on(server: &Server, mut connection: Connection, call: &Cmd) -> Self {
        let id = cmd!(connection, "CLIENT", "ID").int();
        connection.post(call);
        let waiter = Self { id, connection };
        let mut c = server.connection();
        eventually(|| waiter.is_blocked(&mut c), "a call to wait");
        waiter
    }

    /// Whether the server has this client blocked.
    #[track_caller]
    pub fn is_blocked(&self, c: &mut Connection) -> bool {
        let list = cmd!(*c, "CLIENT", "LIST", "ID", self.id).text();
        list.split(' ')
            .find_map(|field| field.strip_prefix("flags="))
            .is_some_and(|flags| flags.contains('b'))
    }

    /// The grant that the call gets.
    #[track_caller]
    pub fn granted(&mut self) -> Grant {
        self.receive().grant()
    }
}

/// A call that waits: `LOCK.ACQUIRE` with these words behind it.
#[track_caller]
pub fn wait(server: &Server, words: &str) -> Waiter {
    wait_on(server, server.connection(), words)
}

/// As [`wait`], on this connection.
#[track_caller]
pub fn wait_on(server: &Server, connection: Connection, words: &str) -> Waiter {
    Waiter::on(server, connection, &line(&format!("LOCK.ACQUIRE {words}")))
}

/// Calls that wait for `k` forever and then hold it for ten minutes, by owner.
#[track_caller]
pub fn wait_as<const N: usize>(server: &Server, owners: [&str; N]) -> [Waiter; N] {
    owners.map(|owner| wait(server, &format!("k {owner} PX 600000 BLOCK 0")))
}

/// As [`wait_as`], of callers that may share it.
#[track_caller]
pub fn wait_to_share<const N: usize>(server: &Server, owners: [&str; N]) -> [Waiter; N] {
    owners.map(|owner| wait(server, &format!("k {owner} SHARED PX 600000 BLOCK 0")))
}

/// Demands that each of these gets its grant.
#[track_caller]
pub fn all_granted(waiters: &mut [Waiter]) {
    for waiter in waiters {
        waiter.granted();
    }
}

/// A client of our own making that has sent these lines: it can be closed for good at any moment, where a connection
/// that is dropped lives on in a process that is being started just then.
#[track_caller]
pub fn stream(server: &Server, lines: &[&str]) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a server");
    for line in lines {
        write!(stream, "{line}\r\n").expect("sent");
    }
    stream
}

/// The owners in the queue of `k`, by `LOCK.WAITERS`.
#[track_caller]
pub fn queue(c: &mut Connection) -> Vec<String> {
    waiters(c, "k")
}

/// The owners that hold a lock, the one with the lowest token first.
#[track_caller]
pub fn holders(c: &mut Connection, key: &str) -> Vec<String> {
    let holders = cmd!(*c, "LOCK.HOLDERS", key).items().into_iter();
    holders
        .map(|holder| holder.fields()["owner"].clone().text())
        .collect()
}

/// The owners that hold `k`.
#[track_caller]
pub fn owners(c: &mut Connection) -> Vec<String> {
    holders(c, "k")
}

/// Demands that these hold `k`, and that these wait for it, in their order.
#[track_caller]
pub fn held_and_waited_for(c: &mut Connection, owners: &[&str], waiting: &[&str]) {
    let found = (holders(c, "k"), queue(c));
    assert_eq!(found.0, owners, "hold k; waiting: {:?}", found.1);
    assert_eq!(found.1, waiting, "wait for k; holding: {:?}", found.0);
}

/// What `LOCK.INFO k` says.
#[track_caller]
pub fn info(c: &mut Connection) -> LockInfo {
    run(c, "LOCK.INFO k").lock_info()
}

/// Who holds `k`.
#[track_caller]
pub fn owner(c: &mut Connection) -> String {
    String::from_utf8(info(c).owner).expect("text")
}

/// The clients that the server has blocked.
#[track_caller]
pub fn blocked_clients(server: &Server) -> i64 {
    server.number("clients", "blocked_clients")
}

/// Demands that nobody waits any more, by the server's own count and the module's.
#[track_caller]
pub fn nobody_waits(server: &Server) {
    let mut c = server.connection();
    eventually(|| blocked_clients(server) == 0, "no client to be blocked");
    assert_eq!(queue(&mut c), [""; 0]);
}

/// How often the server was asked for its clients.
#[track_caller]
pub fn questions(server: &Server) -> usize {
    let stats = server.info("commandstats");
    let calls = stats
        .get("cmdstat_client|list")
        .and_then(|stat| stat.split(['=', ',']).nth(1));
    calls.map_or(0, |calls| calls.parse().expect("a count"))
}

/// Whether this server can unblock a module's client safely.
pub fn unblocks() -> bool {
    let version = Server::version();
    version.kind == Kind::Valkey || version.is_redis_from(7, 4)
}

/// A server that reads and writes with several threads.
#[track_caller]
pub fn with_threads() -> Server {
    let threads = Server::builder().config("io-threads", "3");
    let threads = if Server::version().number < (8, 0, 0) {
        threads.config("io-threads-do-reads", "yes")
    } else {
        threads
    };
    threads.start()
}
