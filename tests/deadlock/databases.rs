//! Cycles over several databases, and the caller's own.

use crate::support::Stage;
use redis::Connection;
use testbed::state::assert_same;
use testbed::{Expect, Server, Talk, at_once, cmd, eventually, line, run, wait_on};

/// The database that a connection has selected, by what it writes.
#[track_caller]
fn database(c: &mut Connection) -> String {
    let list = run(c, "CLIENT LIST").text();
    let id = format!("id={} ", run(c, "CLIENT ID").int());
    let line = list.lines().find(|line| line.starts_with(&id)).unwrap();
    let field = line.split(' ').find_map(|field| field.strip_prefix("db="));
    field.unwrap().to_owned()
}

#[test]
fn the_caller_stays_in_its_database() {
    let mut stage = Stage::new();
    stage.hold(["0/k a", "3/k b", "15/k c"]);
    stage.wait(["3/k a", "15/k b"]);
    let mut c = stage.server.connection();
    // Told, from each database.
    for (number, call) in [("0", "k c"), ("9", "k free")] {
        cmd!(c, "SELECT", number).okay();
        let (call, set) = (
            format!("LOCK.ACQUIRE {call} BLOCK 10000"),
            format!("SET here{number} 1"),
        );
        let replies = at_once(&mut c, &[call, set]);
        assert_eq!(replies[0].is_err(), number == "0");
        assert_eq!(database(&mut c), number);
        assert_eq!(cmd!(c, "EXISTS", format!("here{number}")).int(), 1);
    }
    // A wait with a search that finds nothing.
    cmd!(c, "SELECT", 3).okay();
    c.post(&line("LOCK.ACQUIRE k d BLOCK 0 PX 600000"));
    let mut third = stage.server.connection();
    cmd!(third, "SELECT", 3).okay();
    let waits = || testbed::waiters(&mut third, "k") == ["a", "d"];
    eventually(waits, "d to wait");
    run(&mut third, "LOCK.RELEASE k b").int();
    stage.granted("3/k a");
    run(&mut third, "LOCK.RELEASE k a").int();
    assert_eq!(c.receive().grant().owner, b"d");
    assert_eq!(database(&mut c), "3");
    assert_eq!(run(&mut third, "LOCK.INFO k").lock_info().owner, b"d");
    assert_eq!(stage.info("k").owner, b"a");
}

/// Opening a lock whose lease is over deletes it, in its own database, on replicas and in the file too.
#[test]
fn a_lock_of_another_database_that_expires_on_the_way_goes_there() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    {
        let mut c = server.connection();
        run(&mut c, "LOCK.ACQUIRE k b PX 600000").grant();
        run(&mut c, "LOCK.ACQUIRE j w PX 600000").grant();
        run(&mut c, "LOCK.ACQUIRE m safe PX 600000").grant();
        run(&mut c, "SELECT 3").okay();
        run(&mut c, "LOCK.ACQUIRE m w PX 600000").grant();
        let mut other = server.connection();
        run(&mut other, "SELECT 3").okay();
        let mut waiter = wait_on(&server, other, "m b BLOCK 0 PX 600000");
        let lines = [
            "PEXPIRE m 20",
            "SELECT 0",
            "DEBUG SLEEP 0.05",
            "LOCK.ACQUIRE k w BLOCK 20",
            "SET after 1",
        ];
        let replies = at_once(&mut c, &lines);
        replies.into_iter().nth(3).unwrap().nil();
        assert_eq!(waiter.granted().owner, b"b");
    }
    let state = server.state();
    assert_eq!(state.len(), 5, "{state:#?}");
    server.restart();
    assert_same(&state, &server.state(), "from the file");
}
