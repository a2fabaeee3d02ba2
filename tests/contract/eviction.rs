//! The warning that locks may be evicted.

use crate::support::run;
use testbed::{Expect, Server, started};

/// The policies that the log warns of, in its order.
fn warned_of(server: &Server) -> Vec<String> {
    let log = server.log();
    let policy = |line: &str| {
        let (_, after) = line.split_once("held locks may be evicted")?;
        let (_, policy) = after.split_once("maxmemory-policy is ")?;
        policy.split(' ').next().map(str::to_owned)
    };
    log.lines().filter_map(policy).collect()
}

#[test]
fn one_warning_where_the_server_starts_with_a_policy_that_evicts() {
    for policy in ["allkeys-lru", "volatile-lfu"] {
        let server = Server::builder()
            .config("maxmemory", "1gb")
            .config("maxmemory-policy", policy)
            .start();
        run(&mut server.connection(), "LOCK.ACQUIRE k o").grant();
        assert_eq!(warned_of(&server), [policy]);
        assert!(server.log().contains("maxmemory is 1073741824"));
    }
}

#[test]
fn one_warning_for_each_policy_that_is_set_later_and_evicts() {
    let (server, mut c) = started();
    let mut set = |setting: &str| run(&mut c, &format!("CONFIG SET {setting}")).okay();
    assert_eq!(warned_of(&server), [""; 0], "noeviction is the default");
    set("maxmemory-policy noeviction");
    set("maxmemory 1gb");
    assert_eq!(warned_of(&server), [""; 0]);

    set("maxmemory-policy volatile-ttl");
    assert_eq!(warned_of(&server), ["volatile-ttl"]);
    // Nothing has changed, or something else.
    set("maxmemory-policy volatile-ttl");
    set("maxmemory 2gb");
    set("lock.max-waiters 7");
    assert_eq!(warned_of(&server), ["volatile-ttl"]);

    set("maxmemory-policy allkeys-random");
    set("maxmemory-policy noeviction");
    set("maxmemory-policy volatile-ttl");
    let expected = ["volatile-ttl", "allkeys-random", "volatile-ttl"];
    assert_eq!(warned_of(&server), expected);
}

#[test]
fn no_warning_from_a_server_that_evicts_nothing() {
    let server = Server::builder()
        .config("maxmemory", "1gb")
        .config("maxmemory-policy", "noeviction")
        .start();
    run(&mut server.connection(), "LOCK.ACQUIRE k o").grant();
    assert_eq!(warned_of(&server), [""; 0]);
}
