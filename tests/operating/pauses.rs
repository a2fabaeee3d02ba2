//! What `docs/operations/troubleshooting.md` says of a server on which nobody is granted anything.

use crate::support::run;
use redis::Connection;
use testbed::{Expect, Kind, Server, Talk, cmd, eventually, post, started};

/// A server with a replica, a held lock and a call that waits for it.
struct Paused {
    server: Server,
    replica: Server,
    c: Connection,
    waiting: Connection,
}

impl Paused {
    fn start() -> Self {
        let server = Server::start();
        let replica = server.replica();
        replica.wait_for_link();
        let mut c = server.connection();
        run(&mut c, "LOCK.ACQUIRE lock:k a PX 600000").grant();
        let mut waiting = server.connection();
        post!(waiting, "LOCK.ACQUIRE", "lock:k", "b", "BLOCK", 0);
        eventually(
            || !run(&mut c, "LOCK.WAITERS lock:k").items().is_empty(),
            "a call that waits",
        );
        Self {
            server,
            replica,
            c,
            waiting,
        }
    }

    /// The trial of the manual: a deletion of a lock that is not there, held up like every write.
    fn trial(&mut self) -> Connection {
        let mut trial = self.server.connection();
        let id = cmd!(trial, "CLIENT", "ID").int().to_string();
        post!(trial, "DEL", "lock:no-such-lock");
        let held_up = || {
            let line = cmd!(self.c, "CLIENT", "LIST", "ID", &id).text();
            line.contains(" flags=b ")
        };
        eventually(held_up, "the trial to be held up");
        trial
    }

    /// The waiting call gets the lock, and so a pause is over.
    fn goes_on(&mut self, mut trial: Connection) {
        assert_eq!(trial.receive().int(), 0);
        run(&mut self.c, "LOCK.RELEASE lock:k a").int();
        assert_eq!(self.waiting.receive().grant().owner, b"b");
    }

    fn clients(&self, field: &str) -> Option<String> {
        self.server.info("clients").remove(field)
    }

    fn failover_state(&self) -> String {
        self.server
            .info_field("replication", "master_failover_state")
    }
}

/// Only a Valkey tells of a pause in INFO.
fn on_valkey(text: &str) -> Option<String> {
    (Server::version().kind == Kind::Valkey).then(|| text.to_owned())
}

#[test]
fn a_pause_is_found_and_ended() {
    let mut it = Paused::start();
    assert_eq!(it.clients("paused_reason"), on_valkey("none"));
    assert!(
        !it.server
            .info("commandstats")
            .contains_key("cmdstat_client|pause")
    );
    run(&mut it.c, "CLIENT PAUSE 600000 WRITE").okay();
    run(&mut it.c, "PING").text();
    let trial = it.trial();
    assert_eq!(it.clients("paused_reason"), on_valkey("client_pause"));
    assert!(
        it.server
            .info("commandstats")
            .contains_key("cmdstat_client|pause")
    );
    assert_eq!(it.failover_state(), "no-failover");
    run(&mut it.c, "CLIENT UNPAUSE").okay();
    it.goes_on(trial);
}

#[test]
fn a_failover_that_hangs_is_found_and_ended() {
    let mut it = Paused::start();
    it.replica.signal("STOP");
    run(&mut it.c, "SET k v").okay(); // what the replica will not have
    run(&mut it.c, "FAILOVER").okay();
    let trial = it.trial();
    assert_eq!(it.failover_state(), "waiting-for-sync");
    assert_eq!(
        it.clients("paused_reason"),
        on_valkey("failover_in_progress")
    );
    run(&mut it.c, "CLIENT UNPAUSE").okay();
    let other = it.trial(); // and the pause is still there
    run(&mut it.c, "FAILOVER ABORT").okay();
    assert_eq!(it.failover_state(), "no-failover");
    drop(other);
    it.goes_on(trial);
    it.replica.signal("CONT");
}

#[test]
fn good_replicas_are_counted_where_some_are_asked_for() {
    let (server, mut c) = started();
    let count = || server.info("replication").remove("min_slaves_good_slaves");
    assert_eq!(count(), None);
    run(&mut c, "CONFIG SET min-replicas-to-write 1").okay();
    assert_eq!(count().as_deref(), Some("0"));
    run(&mut c, "DEL lock:no-such-lock").refused("NOREPLICAS");
}
