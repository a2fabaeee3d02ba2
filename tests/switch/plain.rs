//! A primary with two replicas, and nobody who watches over them.

use crate::document::{follow, name};
use crate::load::{Load, assert_follows, line_up};
use testbed::{Builder, Expect, Server, Talk};

/// What was granted is on the disk before the reply.
fn careful(settings: Builder) -> Builder {
    let settings = settings.config("appendonly", "yes");
    settings.config("appendfsync", "always")
}

#[test]
fn by_failover() {
    let a = careful(Server::builder()).start();
    let (b, c) = (a.replica_with(careful), a.replica_with(careful));
    let names = [("A", name(&a)), ("B", name(&b)), ("C", name(&c))];
    let mut waiter = line_up(&a);
    let servers = [a, b, c];
    let [a, b, c] = &servers;
    // Clients that know the three, and try one after the other.
    let next = |at: usize, _: &_| (at + 1) % 3;
    let load = Load::new(&servers, &next);
    load.around("plain replication", || {
        follow("### By plain replication", &names);
        waiter.receive().refused("UNBLOCKED");
    });
    load.assert_sound(b);
    assert_follows(a, b);
    assert_follows(c, b);
}
