//! A primary with two replicas, and nobody who watches over them.

use crate::document::{begin, follow, name};
use crate::load::{KEY, Load, assert_follows, assert_restarts_as_replica, line_up};
use std::thread::scope;
use testbed::{Builder, Expect, Refusal, Server, Talk, cmd, eventually};

const HEADING: &str = "## By plain replication";

/// What was granted is on the disk before the reply.
fn careful(settings: Builder) -> Builder {
    let settings = settings.config("appendonly", "yes");
    settings.config("appendfsync", "always")
}

struct Three {
    servers: [Server; 3],
    names: [(&'static str, String); 3],
}

fn start() -> Three {
    let a = careful(Server::builder()).start();
    let (b, c) = (a.replica_with(careful), a.replica_with(careful));
    Three {
        names: [("A", name(&a)), ("B", name(&b)), ("C", name(&c))],
        servers: [a, b, c],
    }
}

/// Clients that know the three try one after the other.
fn next(at: usize, _: Option<&Refusal>) -> usize {
    (at + 1) % 3
}

#[test]
fn by_failover() {
    let Three { mut servers, names } = start();
    let [a, b, c] = &servers;
    let mut waiter = line_up(a);
    let load = Load::new(&servers, &next);
    load.around("plain replication", || {
        follow(HEADING, &names);
        waiter.receive().refused("UNBLOCKED");
    });
    load.assert_sound(b);
    assert_follows(a, b);
    assert_follows(c, b);
    assert_restarts_as_replica(&mut servers[0]);
}

#[test]
fn called_off_when_the_replica_lags() {
    let Three { servers, names } = start();
    let [a, b, _] = &servers;
    let mut waiter = line_up(a);
    let load = Load::new(&servers, &next);
    load.around("called off", || {
        b.signal("STOP");
        scope(|scope| {
            scope.spawn(|| {
                eventually(|| a.log().contains("never caught up"), "the end of it");
                b.signal("CONT");
            });
            begin(HEADING, &names);
        });
    });
    load.assert_sound(a);
    assert_eq!(a.info_field("replication", "role"), "master");
    assert_follows(b, a);
    // Who waits waits in line as before.
    cmd!(a.connection(), "LOCK.RELEASE", KEY, "holder").int();
    waiter.receive().grant();
}
