//! How many may wait: `lock.max-waiters` for a lock, `lock.max-waiters-total` for all; and what there
//! may be none of: tokens.

use redis::Connection;
use testbed::{
    Expect, Server, Talk, Waiter, cmd, eventually, line, nobody_waits, queue, run, started, wait,
    wait_as,
};

const JOIN: &str = "LOCK.ACQUIRE k late BLOCK 0";

fn with_limit(limit: u32) -> (Server, Connection) {
    with("lock.max-waiters", limit)
}

fn with(setting: &str, limit: u32) -> (Server, Connection) {
    Server::builder().config(setting, &limit.to_string()).held()
}

#[test]
fn one_more_than_may_wait_is_refused() {
    let (server, mut c) = with_limit(2);
    let [mut first, second] = wait_as(&server, ["b", "c"]);
    run(&mut c, JOIN).refused("MAXWAITERS");
    assert_eq!(queue(&mut c), ["b", "c"]);
    // Without BLOCK nobody wants to wait.
    run(&mut c, "LOCK.ACQUIRE k late").nil();
    // A place that becomes free can be taken.
    run(&mut c, "LOCK.RELEASE k a").int();
    first.granted();
    let late = wait(&server, "k late BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    drop((second, late));
    nobody_waits(&server);
    let _last = wait(&server, "k late BLOCK 0");
}

#[test]
fn the_limit_is_one_for_each_key_and_database() {
    let (server, mut c) = with_limit(1);
    run(&mut c, "LOCK.ACQUIRE j a PX 600000").grant();
    let _of_k = wait(&server, "k b BLOCK 0");
    let _of_j = wait(&server, "j b BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    run(&mut c, "SELECT 4").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    cmd!(c, "LOCK.ACQUIRE", "k", "b", "BLOCK", 20).nil();
}

#[test]
fn with_a_limit_of_none_nobody_waits() {
    let (server, mut c) = with_limit(0);
    run(&mut c, JOIN).refused("MAXWAITERS");
    // What needs no waiting is granted.
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a BLOCK 0").grant().holds, 2);
    run(&mut c, "DEL k").int();
    run(&mut c, JOIN).grant();
    nobody_waits(&server);
}

#[test]
fn a_limit_set_while_some_wait_holds_for_those_who_come() {
    let (server, mut c) = with_limit(10);
    let mut waiters = wait_as(&server, ["b", "c", "d"]);
    run(&mut c, "CONFIG SET lock.max-waiters 1").okay();
    run(&mut c, JOIN).refused("MAXWAITERS");
    assert_eq!(queue(&mut c), ["b", "c", "d"], "those who wait stay");
    for (waiter, before) in waiters.iter_mut().zip(["a", "b", "c"]) {
        cmd!(c, "LOCK.RELEASE", "k", before).int();
        waiter.granted();
    }
    let late = wait(&server, "k late BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-waiters 2").okay();
    let _later = wait(&server, "k later BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    drop(late);
    eventually(|| queue(&mut c) == ["later"], "the first to be gone");
}

#[test]
fn the_total_limit_is_one_for_all_keys_and_databases() {
    let (server, mut c) = with("lock.max-waiters-total", 3);
    let mut elsewhere = server.connection_in(4);
    for c in [&mut c, &mut elsewhere] {
        run(c, "LOCK.ACQUIRE j a PX 600000").grant();
    }
    let mut of_k = wait(&server, "k b BLOCK 0");
    let of_j = wait(&server, "j b BLOCK 0");
    let call = line("LOCK.ACQUIRE j b BLOCK 0");
    let other = server.connection_in(4);
    let mut of_other = Waiter::on(&server, other, &call);
    let full = |c: &mut Connection| {
        for call in [JOIN, "LOCK.ACQUIRE j late BLOCK 0"] {
            let error = run(c, call).refused("MAXWAITERS");
            assert!(error.contains("lock.max-waiters-total"), "{error}");
        }
    };
    for c in [&mut c, &mut elsewhere] {
        run(c, "LOCK.ACQUIRE i a PX 600000").grant();
        run(c, "DEL i").int();
    }
    full(&mut c);
    run(&mut elsewhere, "LOCK.ACQUIRE j late BLOCK 0").refused("MAXWAITERS");
    // A place is free again when a wait ends, in whatever way.
    run(&mut c, "LOCK.RELEASE k a").int();
    of_k.granted();
    let of_k = wait(&server, "k late BLOCK 0");
    full(&mut c);
    drop(of_j);
    eventually(|| server.count("waiting") == 2, "a waiter to be gone");
    let mut of_j = wait(&server, "j late BLOCK 0");
    full(&mut c);
    run(&mut elsewhere, "LOCK.RELEASE j b ALL").int();
    of_other.receive().nil();
    let mut brief = server.connection();
    cmd!(brief, "LOCK.ACQUIRE", "j", "brief", "BLOCK", 20).nil();
    let _last = wait(&server, "j last BLOCK 0");
    full(&mut c);
    run(&mut c, "DEL j").int();
    of_j.granted();
    drop(of_k);
}

#[test]
fn a_refusal_for_lack_of_room_is_the_last_that_is_judged() {
    let (_server, mut c) = with_limit(0);
    run(&mut c, "SET text value").okay();
    for (words, code) in [
        ("k b BLOCK 0 HOLDS 2", "NOTOWNER"),
        ("k b BLOCK 0 TOKEN 1", "NOTOWNER"),
        ("k b BLOCK -1", "ERR"),
        ("text b BLOCK 0", "WRONGTYPE"),
        ("k late BLOCK 0", "MAXWAITERS"),
    ] {
        println!("{words}");
        let errors = run(&mut c, "INFO errorstats").text();
        assert!(!errors.contains("MAXWAITERS"), "{errors}");
        run(&mut c, &format!("LOCK.ACQUIRE {words}")).refused(code);
    }
    let errors = run(&mut c, "INFO errorstats").text();
    assert!(errors.contains("errorstat_MAXWAITERS:count=1"), "{errors}");
}

/// A lock that is waited for is looked at every few milliseconds, and each look takes as long as its
/// name is.
#[test]
fn a_lock_with_a_very_long_name_is_not_waited_for() {
    const LONGEST: usize = 8192;
    let (server, mut c) = started();
    let (longest, longer) = ("k".repeat(LONGEST), "k".repeat(LONGEST + 1));
    for name in [&longest, &longer] {
        cmd!(c, "LOCK.ACQUIRE", name, "a", "PX", 600_000).grant();
    }
    let mut waiter = wait(&server, &format!("{longest} b BLOCK 0"));
    for owner in ["a", "b"] {
        let text = cmd!(c, "LOCK.ACQUIRE", &longer, owner, "BLOCK", 0).refused("ERR");
        assert!(text.contains("8192 bytes"), "{text}");
    }
    assert_eq!(server.count("waiting"), 1);
    // All else takes such a name.
    cmd!(c, "LOCK.ACQUIRE", &longer, "b").nil();
    assert_eq!(cmd!(c, "LOCK.ACQUIRE", &longer, "a").grant().holds, 2);
    assert_eq!(cmd!(c, "LOCK.WAITERS", &longer).items(), []);
    assert_eq!(cmd!(c, "LOCK.RELEASE", &longer, "a", "ALL").int(), 0);
    cmd!(c, "LOCK.ACQUIRE", &longer, "a", "BLOCK", 0).refused("ERR");
    cmd!(c, "LOCK.RELEASE", &longest, "a").int();
    waiter.granted();
}

#[test]
fn when_no_token_is_left_nobody_who_waits_is_granted_one() {
    const HIGHEST_TOKEN: i64 = (1 << 53) - 1;
    for freed in ["LOCK.RELEASE k a", "DEL k", "PEXPIRE k 30"] {
        let (server, mut c) = with_limit(10);
        let waiters = wait_as(&server, ["b", "b", "c"]);
        cmd!(c, "LOCK._CLOCK", HIGHEST_TOKEN).okay();
        run(&mut c, freed).value();
        for mut waiter in waiters {
            let error = waiter.receive().refused("ERR");
            assert!(error.contains("token"), "{error}");
        }
        run(&mut c, "LOCK.INFO k").nil();
        nobody_waits(&server);
    }
}

/// A server without a connection to spare would answer nobody: not those who want to release either.
#[test]
fn those_who_wait_leave_a_quarter_of_the_connections_to_others() {
    let (server, mut c) = Server::builder()
        .config("maxclients", "10")
        .config("lock.max-waiters-total", "1000000")
        .held();
    assert_eq!(server.count("max_waiting"), 7);
    let _waiters: Vec<_> = (0..7)
        .map(|n| wait(&server, &format!("k w{n} BLOCK 0")))
        .collect();
    let error = run(&mut c, JOIN).refused("MAXWAITERS");
    assert!(error.contains("maxclients"), "{error}");
    // Another client gets in.
    run(&mut server.connection(), "PING").value();

    run(&mut c, "CONFIG SET maxclients 12").okay();
    assert_eq!(server.count("max_waiting"), 9);
    let _more = ["x", "y"].map(|owner| wait(&server, &format!("k {owner} BLOCK 0")));
    run(&mut c, JOIN).refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-waiters-total 8").okay();
    assert_eq!(server.count("max_waiting"), 8);
}

#[test]
fn as_it_comes_three_quarters_of_the_connections_may_wait() {
    let server = Server::start();
    let most = server.number("clients", "maxclients");
    assert_eq!(server.count("max_waiting"), (most * 3 / 4).min(10_000));
}
