//! What `docs/operations/troubleshooting.md` says of a server on which nobody is granted anything.

use redis::Connection;
use testbed::{Expect, Kind, Server, Talk, Waiter, line, run, started, wait};

/// A server with a replica, a held lock and a call that waits for it.
struct Paused {
    server: Server,
    replica: Server,
    c: Connection,
    waiting: Waiter,
}

impl Paused {
    fn start() -> Self {
        let (server, mut c) = started();
        let replica = server.replica();
        replica.wait_for_link();
        run(&mut c, "LOCK.ACQUIRE lock:k a PX 600000").grant();
        let waiting = wait(&server, "lock:k b BLOCK 0");
        Self {
            server,
            replica,
            c,
            waiting,
        }
    }

    /// The trial of the manual: a deletion of a lock that is not there, held up like every write.
    fn trial(&self) -> Waiter {
        let trial = line("DEL lock:no-such-lock");
        Waiter::on(&self.server, self.server.connection(), &trial)
    }

    /// The waiting call gets the lock, and so a pause is over.
    fn goes_on(&mut self, mut trial: Waiter) {
        assert_eq!(trial.receive().int(), 0);
        run(&mut self.c, "LOCK.RELEASE lock:k a").int();
        assert_eq!(self.waiting.receive().grant().owner, b"b");
    }

    fn clients(&self, field: &str) -> Option<String> {
        self.server.info("clients").remove(field)
    }

    fn was_paused(&self) -> bool {
        let stats = self.server.info("commandstats");
        stats.contains_key("cmdstat_client|pause")
    }

    fn failover_state(&self) -> String {
        let server = &self.server;
        server.info_field("replication", "master_failover_state")
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
    assert!(!it.was_paused());
    run(&mut it.c, "CLIENT PAUSE 600000 WRITE").okay();
    run(&mut it.c, "PING").text();
    let trial = it.trial();
    assert_eq!(it.clients("paused_reason"), on_valkey("client_pause"));
    assert!(it.was_paused());
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
    let reason = it.clients("paused_reason");
    assert_eq!(reason, on_valkey("failover_in_progress"));
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
