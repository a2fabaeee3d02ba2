//! Waits are a primary's: a replica tells of none, and one that takes over begins anew.

use crate::support::Stage;
use testbed::{Expect, Server, Talk, eventually};

#[test]
fn a_replica_that_takes_over_tells_of_the_waits_that_begin_there() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut old = Stage::on(primary);
    let mut new = Stage::on(replica);
    old.hold(["k a", "j b", "s r SHARED", "s a2 SHARED"]);
    old.wait(["k b"]);
    old.told("j a", 2);
    old.server.wait_for_sync(&new.server);
    new.run("LOCK.ACQUIRE j a BLOCK 0").refused("READONLY");
    assert_eq!(new.count(), 0);

    new.run("REPLICAOF NO ONE").okay();
    // Nobody waits there yet.
    new.wait(["j a"]);
    new.told("k b", 2);
    assert_eq!(new.count(), 1);

    // Of the old one's waits nothing is left when it returns.
    let port = new.server.port();
    old.run(&format!("REPLICAOF 127.0.0.1 {port}")).okay();
    old.waiter("k b").receive().refused("UNBLOCKED");
    new.server.wait_for_sync(&old.server);
    old.run("REPLICAOF NO ONE").okay();
    eventually(|| old.run("LOCK.ACQUIRE free x").is_ok(), "a primary");
    old.wait(["j a"]);
    old.told("k b", 2);
}
