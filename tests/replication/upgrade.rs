//! A new version of the module, put in the place of the old one. The same library under another
//! path stands for it.

use crate::*;
use redis::Connection;
use std::fs;
use std::path::{Path, PathBuf};
use testbed::{Talk, Waiter, module, wait_on};

/// Puts the new version's file into this server's folder; its path.
fn new_version(server: &Server) -> PathBuf {
    let path = server.dir().join("new-version.so");
    fs::copy(module::path(), &path).expect("a copy");
    path
}

/// Demands that the server has loaded the module from this file.
#[track_caller]
fn runs(server: &Server, path: &Path) {
    let modules = cmd!(server.connection(), "MODULE", "LIST").items();
    let mut fields = modules.into_iter().map(Expect::fields);
    let ours = fields.find(|fields| fields["name"].clone().text() == "lock");
    let loaded = ours.expect("the module")["path"].clone().text();
    assert_eq!(loaded, path.display().to_string());
}

/// A connection to a database that the traffic has nothing to do with.
#[track_caller]
fn connection(server: &Server) -> Connection {
    let mut c = server.connection();
    cmd!(c, "SELECT", 9).okay();
    c
}

/// Calls of these owners that wait for `k`, in this order.
#[track_caller]
fn wait_for_k<const N: usize>(server: &Server, owners: [&str; N]) -> [Waiter; N] {
    owners.map(|owner| {
        let words = format!("k {owner} EX 600 BLOCK 0");
        wait_on(server, connection(server), &words)
    })
}

#[test]
fn replicas_first_then_the_primary_with_owners_and_waiters_on_it() {
    let mut old_primary = primary().config("appendonly", "yes").start();
    let new = new_version(&old_primary);
    let mut other = old_primary.replica_with(|settings| settings.config("appendonly", "yes"));
    runs(&other, module::path());
    let mut traffic = Traffic::on(&old_primary);
    traffic.run(500);
    let mut c = connection(&old_primary);
    let held = cmd!(c, "LOCK.ACQUIRE", "k", "a", "EX", 600).grant();
    let waiting = wait_for_k(&old_primary, ["b", "c", "d"]);

    // The replica restarts with the new version; the primary serves on in the meantime.
    other.reconfigure(|settings| settings.module_path(&new));
    assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "a").int(), 0);
    let [mut second, mut third, mut fourth] = waiting;
    let granted = second.receive().grant();
    assert!(granted.token > held.token);
    traffic.run(200);
    other.restart();
    old_primary.wait_for_sync(&other);
    runs(&other, &new);
    assert_in_step(&old_primary, &other, "with the new version");
    traffic.run(200);
    assert_in_step(&old_primary, &other, "after more from the old version");

    // It takes over. Who waits is told so, and comes to it.
    cmd!(c, "FAILOVER", "TO", "127.0.0.1", other.port()).okay();
    third.receive().refused("UNBLOCKED");
    fourth.receive().refused("UNBLOCKED");
    other.wait_for_role("master");
    old_primary.wait_for_role("slave");
    nobody_waits(&old_primary);
    let [mut third, mut fourth] = wait_for_k(&other, ["c", "d"]);
    let mut there = connection(&other);
    let renewed = cmd!(there, "LOCK.RENEW", "k", "b", "TOKEN", granted.token).grant();
    assert_eq!(renewed, granted);
    other.wait_for_sync(&old_primary);
    traffic.move_to(&other);
    traffic.run(200);
    // The old version follows the new one.
    assert_in_step(&other, &old_primary, "the old version as a replica");

    // Now the old primary, in its new role.
    let follow = format!("127.0.0.1 {}", other.port());
    old_primary.reconfigure(|settings| settings.module_path(&new).config("replicaof", &follow));
    assert_eq!(cmd!(there, "LOCK.RELEASE", "k", "b").int(), 0);
    let after = third.receive().grant();
    assert!(after.token > granted.token.max(traffic.highest()));
    old_primary.restart();
    runs(&old_primary, &new);
    assert_in_step(&other, &old_primary, "both with the new version");

    // Each comes up in its new role again, since its settings say so.
    for server in [&mut other, &mut old_primary] {
        cmd!(connection(server), "CONFIG", "REWRITE").okay();
        server.restart();
    }
    assert_eq!(other.info_field("replication", "role"), "master");
    assert_eq!(old_primary.info_field("replication", "role"), "slave");
    assert!(fourth.recv_response().is_err(), "the connection is closed");
    let [mut fourth] = wait_for_k(&other, ["d"]);
    let mut there = connection(&other);
    let info = cmd!(there, "LOCK.INFO", "k").lock_info();
    assert_eq!((&info.owner[..], info.token), (&b"c"[..], after.token));
    assert_eq!(cmd!(there, "LOCK.RELEASE", "k", "c").int(), 0);
    assert!(fourth.receive().grant().token > after.token);
    assert_in_step(&other, &old_primary, "at the end");
}

#[test]
fn a_lone_server_by_a_restart() {
    for settings in [
        Server::builder().config("appendonly", "yes"),
        Server::builder().config("save", "3600 1"),
    ] {
        let mut server = settings.start();
        let new = new_version(&server);
        let mut traffic = Traffic::on(&server);
        traffic.run(500);
        let mut c = connection(&server);
        let held = cmd!(c, "LOCK.ACQUIRE", "k", "a", "EX", 600).grant();
        let [mut b] = wait_for_k(&server, ["b"]);
        let before = server.state();
        // No version can be loaded beside another, nor unloaded.
        cmd!(c, "MODULE", "UNLOAD", "lock").refused("ERR");

        server.reconfigure(|builder| builder.module_path(&new));
        assert!(b.recv_response().is_err(), "the connection is closed");
        server.restart();
        runs(&server, &new);
        assert_same(&before, &server.state(), "after the restart");
        let [mut b] = wait_for_k(&server, ["b"]);
        let mut c = connection(&server);
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "a").int(), 0);
        let granted = b.receive().grant();
        assert!(granted.token > held.token.max(traffic.highest()));
    }
}
