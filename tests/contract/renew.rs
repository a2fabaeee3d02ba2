//! `LOCK.RENEW` without its `RAISE`.

use crate::support::{run, starts_lease, unchanged};
use testbed::{Expect, Grant, Server, cmd};

#[test]
fn the_deadline_becomes_now_and_the_lease() {
    let server = Server::start();
    let mut c = server.connection();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    cmd!(c, "PEXPIRE", "k", 5_000).int();
    let renewed = starts_lease(&mut c, "k", 60_000, |c| run(c, "LOCK.RENEW k a"));
    assert_eq!(renewed.grant(), grant);
}

#[test]
fn a_lease_that_is_given_becomes_the_remembered_one() {
    let server = Server::start();
    let mut c = server.connection();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    for (given, lease) in [
        ("PX 90000", 90_000),
        ("EX 40", 40_000),
        ("PX 20000", 20_000),
    ] {
        let line = format!("LOCK.RENEW k a {given}");
        let expected = Grant {
            lease,
            ..grant.clone()
        };
        assert_eq!(
            starts_lease(&mut c, "k", lease, |c| run(c, &line)).grant(),
            expected
        );
        let again = starts_lease(&mut c, "k", lease, |c| run(c, "LOCK.RENEW k a"));
        assert_eq!(again.grant(), expected);
    }
    let reentry = starts_lease(&mut c, "k", 20_000, |c| run(c, "LOCK.ACQUIRE k a"));
    assert_eq!(reentry.grant().lease, 20_000);
}

#[test]
fn it_never_creates_a_lock() {
    let server = Server::start();
    let mut c = server.connection();
    for line in [
        "LOCK.RENEW k a",
        "LOCK.RENEW k a PX 1000",
        "LOCK.RENEW k a TOKEN 1",
        "LOCK.RENEW k a TOKEN 1 RAISE 2",
    ] {
        unchanged(&mut c, "k", |c| run(c, line)).refused("NOTHELD");
    }
}

#[test]
fn only_the_owner_renews() {
    let server = Server::start();
    let mut c = server.connection();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    let with_token = format!("LOCK.RENEW k b TOKEN {token}");
    for line in [
        "LOCK.RENEW k b",
        "LOCK.RENEW k A",
        "LOCK.RENEW k b PX 1",
        &with_token,
    ] {
        unchanged(&mut c, "k", |c| run(c, line)).refused("NOTOWNER");
    }
}
