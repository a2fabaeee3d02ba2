//! A primary with two replicas, under Sentinels.

use crate::document::{follow, name};
use crate::load::{Load, assert_follows, assert_restarts_as_replica, line_up};
use std::time::Duration;
use testbed::{Expect, Refusal, Sentinels, Server, Talk, cmd, run, sentinels};

fn start() -> Sentinels {
    // More than twice what FAILOVER is given.
    let silence = Duration::from_secs(5);
    Sentinels::builder(2, 3).down_after(silence).start()
}

/// The servers as the document calls them.
fn names(all: &Sentinels) -> Vec<(&'static str, String)> {
    let mut names = vec![("NAME", sentinels::NAME.to_owned())];
    for (letter, server) in ["A", "B", "C"].into_iter().zip(all.servers()) {
        names.push((letter, name(server)));
    }
    names.push(("S", name(&all.sentinels()[0])));
    names
}

#[test]
fn by_failover_and_then_the_sentinels() {
    let mut all = start();
    let mut waiter = line_up(all.server(0));
    // Clients ask the Sentinels when a server has turned them away.
    let compass = |_, _: Option<&Refusal>| all.primary();
    let load = Load::new(all.servers(), &compass);
    load.around("Sentinel", || {
        follow("## Under Sentinel", &names(&all));
        waiter.receive().refused("UNBLOCKED");
    });
    all.wait_until_whole();
    assert_eq!(all.primary(), 1);
    load.assert_sound(all.server(1));
    for replica in [0, 2] {
        assert_follows(all.server(replica), all.server(1));
        let mut c = all.server(replica).connection();
        let priority = run(&mut c, "CONFIG GET replica-priority");
        assert_eq!(priority.fields()["replica-priority"].clone().text(), "100");
    }
    assert_restarts_as_replica(all.server_mut(0));
}

#[test]
fn coordinated_by_the_sentinels() {
    testbed::needs!(Server::version().is_valkey_from(9, 0));
    let mut all = start();
    let mut waiter = line_up(all.server(0));
    let compass = |_, _: Option<&Refusal>| all.primary();
    let load = Load::new(all.servers(), &compass);
    load.around("Sentinel of Valkey 9", || {
        follow("## Under Sentinel, Valkey from 9.0", &names(&all));
        waiter.receive().refused("UNBLOCKED");
    });
    all.wait_until_whole();
    let primary = all.primary();
    assert_ne!(primary, 0);
    load.assert_sound(all.server(primary));
    assert_restarts_as_replica(all.server_mut(0));
}

/// Why the document asks for more: a Sentinel promotes a replica and leaves the old primary at work.
#[test]
fn by_the_sentinels_alone_a_lock_is_granted_twice() {
    let all = start();
    let new = all.fail_over();
    for (server, owner) in [(0, "one"), (new, "another")] {
        cmd!(all.server(server).connection(), "LOCK.ACQUIRE", "k", owner).grant();
    }
}
