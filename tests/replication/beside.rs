//! A replica that loads its primary's data beside its own (`repl-diskless-load swapdb`), and serves reads of
//! its own meanwhile.

use crate::*;
use std::fs;
use std::process::Command;
use testbed::run;

const FILLER: i64 = 400;

/// Settings of both sides.
fn swapping(builder: Builder) -> Builder {
    builder
        .config("repl-diskless-sync", "yes")
        .config("repl-diskless-sync-delay", "0")
        .config("repl-diskless-load", "swapdb")
        .config("repl-backlog-size", "16kb")
        .config("rdbcompression", "no")
        // How often a replica that loads serves its clients.
        .config("loading-process-events-interval-bytes", "1024")
}

/// A primary with some locks, and a replica with the same data.
fn pair() -> (Server, Server) {
    let (primary, mut c) = swapping(primary()).started();
    cmd!(c, "DEBUG", "POPULATE", FILLER, "filler", 4000).okay();
    run(&mut c, "LOCK.ACQUIRE k old PX 600000").grant();
    run(&mut c, "LOCK.ACQUIRE s one LIMIT 3 PX 600000").grant();
    run(&mut c, "LOCK.ACQUIRE s two LIMIT 3 PX 600000").grant();
    let replica = primary.replica_with(swapping);
    assert_in_step(&primary, &replica, "at first");
    eventually(|| gauges(&replica) == (2, 3), "the first copy's gauges");
    (primary, replica)
}

/// Locks in memory, and their holders.
fn gauges(server: &Server) -> (i64, i64) {
    let held = server.count("held");
    (held, server.count("holders"))
}

fn is_loading(replica: &Server) -> bool {
    replica.number("persistence", "async_loading") == 1
}

fn owner(replica: &Server, key: &str) -> Vec<u8> {
    let mut c = replica.connection();
    cmd!(c, "LOCK.INFO", key).lock_info().owner
}

/// Breaks the link, and changes more than the backlog holds: the replica gets everything anew, each key of it
/// after `delay` microseconds. Returns the token of a grant that only the new data have.
#[track_caller]
fn begin_anew(primary: &Server, replica: &Server, delay: i64) -> i64 {
    let mut c = primary.connection();
    cmd!(c, "CONFIG", "SET", "rdb-key-save-delay", delay).okay();
    cmd!(c, "MULTI").okay();
    cmd!(c, "CLIENT", "KILL", "TYPE", "replica").value();
    cmd!(c, "LOCK.RELEASE", "k", "old").value();
    cmd!(c, "LOCK.ACQUIRE", "k", "new", "PX", 600_000).value();
    for n in 0..20 {
        cmd!(c, "SET", "big", n.to_string().repeat(100_000)).value();
    }
    let token = cmd!(c, "EXEC").items()[2].clone().items()[0].clone().int();
    let loads = || is_loading(replica);
    eventually(loads, "the replica to load beside its data");
    let read = || replica.last_token() >= token;
    eventually(read, "the new data's clock to be read");
    token
}

#[test]
fn the_old_data_are_served_until_the_new_are_in_place() {
    let (primary, replica) = pair();
    let token = begin_anew(&primary, &replica, 3000);
    let mut c = replica.connection();
    assert_eq!(owner(&replica, "k"), b"old");
    assert_eq!(cmd!(c, "LOCK.HOLDERS", "s").items().len(), 2);
    cmd!(c, "LOCK.ACQUIRE", "free", "a").refused("READONLY");
    assert!(is_loading(&replica), "it went too fast");
    eventually(|| !is_loading(&replica), "the load to end");
    assert_in_step(&primary, &replica, "in place");
    assert_eq!(owner(&replica, "k"), b"new");
    // Another thread frees the old data.
    eventually(|| gauges(&replica) == (2, 3), "the gauges of the new data");
    assert_eq!(replica.count("forced_removals"), 0);
    follow(&replica, None);
    assert!(replica.next_token() > token);
}

/// The processes that a server has forked, as Linux lists them.
fn children(pid: u32) -> Vec<String> {
    let parent = |stat: String| {
        let (_name, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let forked = processes.filter(|process| {
        let stat = fs::read_to_string(process.path().join("stat"));
        stat.is_ok_and(|stat| parent(stat) == Some(pid))
    });
    forked
        .map(|process| process.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_load_that_fails_leaves_the_old_data() {
    let (mut primary, replica) = pair();
    let before = digest(&replica);
    let token = begin_anew(&primary, &replica, 20_000);
    let feeding = children(primary.pid());
    primary.kill9();
    // On Redis 8.2 the child that feeds the replica would send the rest.
    for child in feeding {
        let _ended_already = Command::new("kill").args(["-9", &child]).status();
    }
    eventually(|| !is_loading(&replica), "the load to fail");
    assert_eq!(digest(&replica), before);
    assert_eq!(owner(&replica, "k"), b"old");
    eventually(|| gauges(&replica) == (2, 3), "the gauges of the old data");
    assert_eq!(replica.count("forced_removals"), 0);
    follow(&replica, None);
    assert!(replica.next_token() > token);
}

/// What a server frees for a primary's data counts neither as flushed nor as removed, whatever it flushed
/// before.
#[test]
fn data_that_give_way_to_those_of_a_primary_are_not_counted_as_removed() {
    let (server, mut c) = swapping(Server::builder()).started();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    cmd!(c, "FLUSHALL").okay();
    for n in 0..20 {
        run(&mut c, &format!("LOCK.ACQUIRE k{n} a PX 600000")).grant();
    }
    // Another thread may count what is flushed.
    let removals = || server.count("forced_removals");
    eventually(|| removals() == 1, "the flushed lock to be counted");
    let primary = swapping(primary()).start();
    run(&mut primary.connection(), "LOCK.ACQUIRE k a PX 600000").grant();
    follow(&server, Some(&primary));
    primary.wait_for_sync(&server);
    eventually(|| gauges(&server) == (1, 1), "the old data to be freed");
    assert_eq!(removals(), 1);
}
