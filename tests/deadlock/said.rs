//! The reports of a cycle: to the caller, in the counts and in the log.

use crate::support::{Stage, text};
use testbed::{Expect, Server, Talk, at_once, cmd, eventually, line};

/// The lines of the log that are about cycles.
fn told(server: &Server) -> Vec<String> {
    let log = server.log();
    let line = |line: &str| {
        line.split_once("deadlock: ")
            .map(|(_, told)| told.to_owned())
    };
    log.lines().filter_map(line).collect()
}

fn verbose() -> Stage {
    Stage::on(Server::builder().config("loglevel", "verbose").start())
}

#[test]
fn the_error_is_one_line_in_both_protocols_and_is_counted_by_its_first_word() {
    let mut stage = Stage::cycle();
    let mut c = stage.server.connection_resp3();
    let reply = cmd!(c, "LOCK.ACQUIRE", "j", "a", "BLOCK", 10_000);
    assert_eq!(reply.refused("DEADLOCK"), text(2));
    stage.told("j a", 2);
    let count = stage.server.info_field("errorstats", "errorstat_DEADLOCK");
    assert_eq!(count, "count=2");
    assert_eq!(stage.count(), 2);
    // The wait that was not begun is none.
    assert_eq!(stage.server.count("waiting"), 1);
    // A call that would not wait anyway is not judged.
    stage.run("LOCK.ACQUIRE j a").nil();
    assert_eq!(stage.count(), 2);
}

#[test]
fn the_log_tells_who_waits_for_which_lock() {
    let mut stage = verbose();
    stage.hold(["2/k a", "j b"]);
    stage.wait(["2/k b"]);
    stage.told("j a", 2);
    let expected = ["'a' waits for 'j' of database 0, 'b' waits for 'k' of database 2"];
    assert_eq!(told(&stage.server), expected);
}

#[test]
fn names_in_the_log_are_escaped_and_cut() {
    let mut stage = verbose();
    let key = [b"%s\n\0\xff'".as_slice(), &[b'x'; 200]].concat();
    let owner = [b"\r\n%n".as_slice(), &[b'y'; 200]].concat();
    cmd!(stage.c, "LOCK.ACQUIRE", key, "a", "PX", 600_000).grant();
    cmd!(stage.c, "LOCK.ACQUIRE", "j", owner, "PX", 600_000).grant();
    let mut waiter = stage.server.connection();
    testbed::post!(waiter, "LOCK.ACQUIRE", key, owner, "BLOCK", 0);
    let waits = || testbed::blocked_clients(&stage.server) == 1;
    eventually(waits, "it to wait");
    stage.told("j a", 2);
    // 64 bytes of each name.
    let (xs, ys) = ("x".repeat(64 - 6), "y".repeat(64 - 4));
    let expected = format!(
        r"'a' waits for 'j' of database 0, '\r\n%n{ys}...' waits for '%s\n\x00\xff\'{xs}...' of database 0"
    );
    assert_eq!(told(&stage.server), [expected]);
}

#[test]
fn of_many_owners_the_log_names_sixteen() {
    let mut stage = verbose();
    for number in 0..20 {
        stage.hold([&format!("k{number} o{number}")]);
    }
    for number in 1..20 {
        stage.wait([&format!("k{} o{number}", (number + 1) % 20)]);
    }
    stage.told("k1 o0", 20);
    let lines = told(&stage.server);
    assert_eq!(lines.len(), 1);
    let end = "'o15' waits for 'k16' of database 0, and 4 more";
    assert!(lines[0].ends_with(end), "{lines:?}");
}

#[test]
fn a_log_that_is_not_verbose_says_nothing() {
    let mut stage = Stage::cycle();
    stage.told("j a", 2);
    assert!(!stage.server.log().contains("deadlock: "));
}

#[test]
fn a_caller_may_go_on_in_the_same_write() {
    let mut stage = Stage::cycle();
    let lines = ["LOCK.ACQUIRE j a BLOCK 0", "LOCK.RELEASE k a", "PING"];
    let mut replies = at_once(&mut stage.c, &lines);
    assert_eq!(replies.remove(0).refused("DEADLOCK"), text(2));
    assert_eq!(replies.remove(0).int(), 0);
    assert_eq!(replies.remove(0).text(), "PONG");
    assert_eq!(stage.granted("k b").owner, b"b");
    stage.c.post(&line("LOCK.RELEASE j b"));
    assert_eq!(stage.c.receive().int(), 0);
}
