//! Client-side caching: a client that has read `LOCK.INFO` is told when the lock changes.

use crate::support::run;
use redis::{Connection, Value};
use testbed::{Expect, Server, Talk, cmd, eventually, post};

/// A client that caches what it reads, and its second connection, where the invalidations come.
struct Cache {
    reading: Connection,
    told: Connection,
}

const CHANNEL: &str = "__redis__:invalidate";

impl Cache {
    fn new(server: &Server) -> Self {
        let (mut reading, mut told) = (server.connection(), server.connection());
        let id = cmd!(told, "CLIENT", "ID").int();
        post!(told, "SUBSCRIBE", CHANNEL);
        told.receive().value();
        cmd!(reading, "CLIENT", "TRACKING", "ON", "REDIRECT", id).okay();
        Self { reading, told }
    }

    /// The keys of the next invalidation; none when our own mark comes first.
    fn next(&mut self) -> Option<Vec<String>> {
        let message = self.told.receive().items();
        match message[2].clone() {
            Value::Array(keys) => Some(keys.into_iter().map(Expect::text).collect()),
            _ => None,
        }
    }

    /// What this client is told to forget by the call of another, after it has read `k`.
    fn told_of(&mut self, c: &mut Connection, line: &str) -> Vec<String> {
        run(&mut self.reading, "LOCK.INFO k").value();
        let _ = run(c, line);
        cmd!(*c, "PUBLISH", CHANNEL, "end").int();
        std::iter::from_fn(|| self.next()).flatten().collect()
    }
}

#[test]
fn every_change_invalidates() {
    let server = Server::start();
    let mut c = server.connection();
    let mut cache = Cache::new(&server);
    for line in [
        "LOCK.ACQUIRE k a PX 60000",
        "LOCK.ACQUIRE k a",
        "LOCK.RENEW k a PX 70000",
        "LOCK.RELEASE k a",
        "LOCK.RELEASE k a",
        "LOCK._APPLY k a 5 1 60000 -1",
        "PEXPIRE k 60000",
        "DEL k",
    ] {
        assert_eq!(cache.told_of(&mut c, line), ["k"], "{line}");
    }
}

#[test]
fn the_end_of_a_lease_invalidates() {
    let server = Server::start();
    let mut c = server.connection();
    let mut cache = Cache::new(&server);
    run(&mut c, "LOCK.ACQUIRE k a PX 10").grant();
    run(&mut cache.reading, "LOCK.INFO k").value();
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lease to end");
    run(&mut c, "LOCK.ACQUIRE k b").grant();
    assert_eq!(cache.next(), Some(vec!["k".to_owned()]));
}
