//! Pauses, too few replicas, a full memory: nothing is granted to who waits, and afterwards all goes on.

use crate::copies::Copies;
use crate::holders::{enter, owners, shared};
use crate::support::{at_one_moment, queue, run, wait};
use testbed::{Expect, Server, Talk, eventually};

#[test]
fn a_share_that_ends_in_a_pause_is_handed_on_afterwards() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for owner in ["a", "b"] {
        enter(&mut c, &format!("{owner} LIMIT 2"));
    }
    let mut next =
        ["d", "e"].map(|owner| wait(&copies, &format!("k {owner} LIMIT 2 PX 600000 BLOCK 0")));
    // The lease must not end before the pause.
    let lines = ["LOCK.RENEW k b PX 30", "CLIENT PAUSE 60000 WRITE"];
    at_one_moment(&mut c, &lines);
    eventually(|| owners(&mut c) == ["a"], "a share to end");
    // Reading goes on, and nothing is granted.
    let until = testbed::state::unix_ms() + 100;
    while testbed::state::unix_ms() < until {
        assert_eq!(
            (owners(&mut c), queue(&mut c)),
            (vec!["a".to_owned()], vec!["d".to_owned(), "e".to_owned()])
        );
    }
    run(&mut c, "CLIENT UNPAUSE").okay();
    next[0].granted();
    assert_eq!(
        (owners(&mut c), queue(&mut c)),
        (vec!["a".to_owned(), "d".to_owned()], vec!["e".to_owned()])
    );
    copies.agree();
}

#[test]
fn a_pause_between_several_grants_lets_the_others_in_afterwards() {
    let copies = Copies::start();
    let mut c = copies.connection();
    enter(&mut c, "a");
    let mut next =
        ["d", "e", "f"].map(|owner| wait(&copies, &format!("k {owner} SHARED PX 600000 BLOCK 0")));
    at_one_moment(&mut c, &["PEXPIRE k 0", "CLIENT PAUSE 150 WRITE"]);
    for waiter in &mut next {
        waiter.granted();
    }
    assert_eq!(owners(&mut c), ["d", "e", "f"]);
    copies.agree();
}

#[test]
fn too_few_replicas_hold_room_back() {
    let (server, mut c, _) = shared(["a"], "LIMIT 2");
    enter(&mut c, "b LIMIT 2");
    let mut next = wait(&server, "k d LIMIT 2 PX 600000 BLOCK 0");
    let lines = ["LOCK.RENEW k b PX 50", "CONFIG SET min-replicas-to-write 1"];
    at_one_moment(&mut c, &lines);
    eventually(|| owners(&mut c) == ["a"], "a share to end");
    let until = testbed::state::unix_ms() + 100;
    while testbed::state::unix_ms() < until {
        assert_eq!(
            (owners(&mut c), queue(&mut c)),
            (vec!["a".to_owned()], vec!["d".to_owned()])
        );
    }
    run(&mut c, "LOCK.ACQUIRE k x LIMIT 2").refused("NOREPLICAS");
    run(&mut c, "CONFIG SET min-replicas-to-write 0").okay();
    next.granted();
    assert_eq!(owners(&mut c), ["a", "d"]);
}

#[test]
fn a_full_memory_refuses_who_comes_and_stops_no_hand_off() {
    let server = Server::builder()
        .config("maxmemory-policy", "noeviction")
        .start();
    let mut c = server.connection();
    for owner in ["a", "b"] {
        enter(&mut c, &format!("{owner} LIMIT 2"));
    }
    let mut next = wait(&server, "k d LIMIT 2 PX 600000 BLOCK 0");
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    run(&mut c, "LOCK.ACQUIRE k e LIMIT 2").refused("OOM");
    run(&mut c, "LOCK.RENEW k a PX 500000").grant();
    run(&mut c, "LOCK.FENCE k").int();
    run(&mut c, "LOCK.RELEASE k b").int();
    next.granted();
    assert_eq!(owners(&mut c), ["a", "d"]);
}

#[test]
fn who_becomes_a_replica_grants_nothing() {
    let primary = Server::start();
    let (server, mut c, _) = shared(["a", "b"], "LIMIT 2");
    let mut waiters = ["d", "e"].map(|owner| wait(&server, &format!("k {owner} LIMIT 2 BLOCK 0")));
    run(&mut c, &format!("REPLICAOF 127.0.0.1 {}", primary.port())).okay();
    for waiter in &mut waiters {
        let error = waiter.receive().expect_err("an error");
        assert!(["UNBLOCKED", "MOVED"].contains(&error.code()), "{error}");
    }
}

#[test]
fn a_promoted_replica_goes_on_with_every_share() {
    let (server, mut c, _) = shared(["a", "b", "d"], "LIMIT 3");
    run(&mut c, "LOCK.RENEW k b PX 300").grant();
    let replica = server.replica();
    drop(server);
    let mut c = replica.connection();
    run(&mut c, "REPLICAOF NO ONE").okay();
    // The share of `b` ends in its time here too.
    run(&mut c, "LOCK.ACQUIRE k e LIMIT 3 PX 600000 BLOCK 0").grant();
    assert_eq!(owners(&mut c), ["a", "d", "e"]);
}
