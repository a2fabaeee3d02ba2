//! How kept grants can be seen: `LOCK.HOLDERS`, `INFO lock`, the log.

use crate::support::{Keeper, await_renewals, count, kept_by, run};
use testbed::{Expect, Server, cmd};

#[test]
fn holders_tells_who_keeps_a_grant_and_for_how_long() {
    let server = Server::start();
    let mut c = server.connection();
    let first = Keeper::on(&server, "k a SHARED PX 60000 KEEP 5000");
    run(&mut c, "LOCK.ACQUIRE k b SHARED PX 60000").grant();
    let third = Keeper::on(&server, "k c SHARED PX 60000 KEEP 7000");
    let expected = [(first.id, 5000), (0, 0), (third.id, 7000)];
    assert_eq!(kept_by(&mut c), expected);
    let mut c = server.connection_resp3();
    assert_eq!(kept_by(&mut c), expected);
}

#[test]
fn on_a_replica_nobody_keeps_anything() {
    let primary = Server::start();
    let replica = primary.replica();
    let _keeper = Keeper::on(&primary, "k a PX 60000 KEEP 5000");
    primary.wait_for_sync(&replica);
    assert_eq!(kept_by(&mut replica.connection()), [(0, 0)]);
    assert_eq!(count(&replica, "kept"), 0);
    assert_eq!(count(&replica, "kept_renewals"), 0);
}

#[test]
fn info_counts_grants_renewals_and_closes() {
    let server = Server::start();
    let mut c = server.connection();
    let counts = || ["kept", "kept_renewals", "kept_closes"].map(|field| count(&server, field));
    assert_eq!(counts(), [0, 0, 0]);
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    keeper.acquire("k a KEEP 60000");
    keeper.acquire("j a PX 60000 KEEP 60000");
    let mut second = Keeper::on(&server, "i a PX 60000 KEEP 60000");
    assert_eq!(counts(), [3, 0, 0]);
    // One connection is closed, for two grants.
    run(&mut c, "DEL j").int();
    keeper.is_closed();
    assert_eq!(counts(), [1, 0, 1]);
    // By its own hand too.
    run(&mut second, "DEL i").int();
    second.is_closed();
    assert_eq!(counts(), [0, 0, 2]);
    let _third = Keeper::on(&server, "h a PX 1000 KEEP 60000");
    await_renewals(&server, 2);
    // The renewals of clients are others.
    let before = count(&server, "renewals");
    await_renewals(&server, 1);
    assert_eq!(count(&server, "renewals"), before);
    run(&mut c, "CONFIG RESETSTAT").okay();
    assert_eq!(count(&server, "kept"), 1);
}

/// How often the log speaks of the time-out.
fn notes(server: &Server) -> usize {
    let log = server.log();
    log.lines()
        .filter(|line| line.contains("timeout of"))
        .count()
}

#[test]
fn the_first_keep_on_a_server_with_a_timeout_is_noted() {
    let server = Server::builder().config("timeout", "300").start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    assert_eq!(notes(&server), 0);
    for words in ["LOCK.RENEW k a KEEP 5000", "LOCK.ACQUIRE j a KEEP 5000"] {
        cmd!(c, "PING").text();
        run(&mut c, words).grant();
        assert_eq!(notes(&server), 1);
    }
    let quiet = Server::start();
    run(&mut quiet.connection(), "LOCK.ACQUIRE k a KEEP 5000").grant();
    assert_eq!(notes(&quiet), 0);
}

#[test]
fn the_first_keep_after_a_timeout_was_set_is_noted() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a KEEP 5000").grant();
    run(&mut c, "CONFIG SET timeout 300").okay();
    for words in ["LOCK.RENEW k a KEEP 5000", "LOCK.ACQUIRE j a KEEP 5000"] {
        run(&mut c, words).grant();
        assert_eq!(notes(&server), 1);
    }
    for timeout in ["0", "400"] {
        cmd!(c, "CONFIG", "SET", "timeout", timeout).okay();
        run(&mut c, "LOCK.RENEW k a KEEP 5000").grant();
    }
    assert_eq!(notes(&server), 1, "once");
}
