//! Servers that become replicas or primaries, end, or are to lose the module, while somebody waits.

use testbed::state::assert_same;
use testbed::{
    Expect, Server, Talk, cmd, held, line, nobody_waits, post_all, queue, run, wait_as, wait_on,
};

#[test]
fn waiters_of_a_primary_that_becomes_a_replica_are_told_so() {
    let (server, mut c) = held();
    let other = Server::start();
    let mut waiters = wait_as(&server, ["b", "c"]);
    cmd!(c, "REPLICAOF", "127.0.0.1", other.port()).okay();
    for waiter in &mut waiters {
        waiter.receive().refused("UNBLOCKED");
        assert!(waiter.recv_response().is_err(), "the server closes it");
    }
    nobody_waits(&server);
    server.wait_for_link();
    run(&mut c, "LOCK.ACQUIRE k b BLOCK 0").refused("READONLY");
    // And back: nothing of the old queue is left.
    run(&mut c, "REPLICAOF NO ONE").okay();
    assert_eq!(queue(&mut c), [""; 0]);
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut waiter] = wait_as(&server, ["d"]);
    run(&mut c, "LOCK.RELEASE k a").int();
    waiter.granted();
}

/// Valkey passes over a module's clients where it would send others to the new primary.
#[test]
fn waiters_that_can_be_redirected_are_told_too() {
    testbed::needs!(Server::version().is_valkey_from(8, 0));
    let (server, mut c) = held();
    let other = Server::start();
    let mut connection = server.connection();
    cmd!(connection, "CLIENT", "CAPA", "redirect").okay();
    let mut waiter = wait_on(&server, connection, "k b BLOCK 0");
    cmd!(c, "REPLICAOF", "127.0.0.1", other.port()).okay();
    waiter.receive().refused("UNBLOCKED");
    nobody_waits(&server);
}

#[test]
fn a_shutdown_with_waiters_is_clean_and_keeps_the_lock() {
    let (mut server, mut c) = Server::builder().config("appendonly", "yes").started();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiters = wait_as(&server, ["b", "c"]);
    let before = server.whole_state();
    c.post(&line("SHUTDOWN"));
    server.wait_for_exit();
    for waiter in &mut waiters {
        assert!(waiter.recv_response().is_err(), "the connection is closed");
    }
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
    server.restart();
    assert_same(&before, &server.whole_state(), "after the restart");
    let mut c = server.connection();
    assert_eq!(queue(&mut c), [""; 0], "who waited has to come again");
    cmd!(c, "LOCK.FENCE", "k", grant.token).okay();
    nobody_waits(&server);
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}

#[test]
fn a_shutdown_with_the_lock_just_freed_is_clean() {
    let (mut server, mut c) = Server::builder().config("appendonly", "yes").held();
    let _waiters = wait_as(&server, ["b", "c"]);
    post_all(&mut c, ["DEL k", "SHUTDOWN"]);
    server.wait_for_exit();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
    server.restart();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}

#[test]
fn a_server_that_is_terminated_ends_cleanly() {
    let (mut server, _c) = held();
    let _waiters = wait_as(&server, ["b", "c"]);
    server.stop();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}

#[test]
fn the_module_cannot_be_unloaded() {
    let (server, mut c) = held();
    let [mut waiter] = wait_as(&server, ["b"]);
    let modules = run(&mut c, "MODULE LIST").items();
    let name = modules
        .into_iter()
        .map(|module| module.fields()["name"].clone().text())
        .find(|name| name.contains("lock"))
        .expect("the module's name");
    cmd!(c, "MODULE", "UNLOAD", name).refused("ERR");
    assert_eq!(queue(&mut c), ["b"]);
    run(&mut c, "LOCK.RELEASE k a").int();
    waiter.granted();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}
