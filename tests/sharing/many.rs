//! Very many holders: nobody else is held up.

use crate::holders::{enter, holders};
use redis::Connection;
use std::thread;
use std::time::{Duration, Instant};
use testbed::{
    Expect, Load, Server, Talk, at_once, cmd, eventually, info, line, queue, run, started,
};

/// Far more than a slice takes, far less than all of them in one go would.
const GENEROUS: Duration = Duration::from_millis(250);

/// The longest that a `PING` took while this ran, but for what a busy machine added.
fn longest_ping(server: &Server, body: impl FnOnce() + Send) -> Duration {
    let (mut longest, mut c) = (Duration::ZERO, server.connection());
    thread::scope(|scope| {
        let body = scope.spawn(body);
        while !body.is_finished() {
            let (load, start) = (Load::on(server), Instant::now());
            cmd!(c, "PING").text();
            longest = longest.max(start.elapsed().saturating_sub(load.so_far()));
        }
    });
    longest
}

/// Acquires this many shares of `k`, in pipelines.
fn fill(c: &mut Connection, count: usize) {
    let share = |n| format!("LOCK.ACQUIRE k owner-{n} SHARED PX 600000");
    let lines: Vec<_> = (0..count).map(share).collect();
    for reply in lines.chunks(500).flat_map(|lines| at_once(c, lines)) {
        reply.grant();
    }
}

#[test]
fn ten_thousand_readers_behind_a_writer_get_in_and_hold_up_nobody() {
    const READERS: usize = 10_000;
    let (server, mut c) = Server::builder()
        .config("maxclients", &(READERS * 4 / 3 + 100).to_string())
        .config("client-output-buffer-limit", "normal 0 0 0")
        .started();
    enter(&mut c, "writer");
    let call = |n| line(&format!("LOCK.ACQUIRE k r{n} SHARED PX 600000 BLOCK 0"));
    let mut readers: Vec<_> = (0..READERS).map(|_| server.connection()).collect();
    for (n, reader) in readers.iter_mut().enumerate() {
        reader.post(&call(n));
    }
    let count = i64::try_from(READERS).expect("small");
    eventually(|| info(&mut c).waiters == count, "all to wait");
    let longest = longest_ping(&server, || {
        run(&mut c, "LOCK.RELEASE k writer").int();
        let mut last = 0;
        for reader in &mut readers {
            let token = reader.receive().grant().token;
            assert!(token > last, "in their order");
            last = token;
        }
    });
    println!("the longest PING while {READERS} readers got in took {longest:?}");
    assert!(longest < testbed::patience(GENEROUS), "{longest:?}");
    assert_eq!(info(&mut c).holders, count);
    assert_eq!(queue(&mut c), [""; 0]);
    // And out again, by connections of which some have gone.
    readers.truncate(READERS / 2);
    for (n, reader) in readers.iter_mut().enumerate() {
        assert_eq!(cmd!(*reader, "LOCK.RELEASE", "k", format!("r{n}")).int(), 0);
    }
    assert_eq!(info(&mut c).holders, count / 2);
}

#[test]
fn ten_thousand_leases_that_end_together_free_the_lock() {
    let (server, mut c) = started();
    fill(&mut c, 10_000);
    let next = testbed::wait(&server, "k writer PX 600000 BLOCK 0");
    let longest = longest_ping(&server, || {
        run(&mut c, "PEXPIRE k 100").int();
        let mut next = next;
        next.granted();
    });
    println!("the longest PING while 10000 shares ended took {longest:?}");
    assert!(longest < testbed::patience(GENEROUS), "{longest:?}");
    assert_eq!(holders(&mut c).len(), 1);
    eventually(|| server.count("holders") == 1, "all to be freed");
}

#[test]
fn a_lock_of_thousands_is_freed_in_the_background() {
    for (command, left) in [
        ("UNLINK k", 0),
        ("FLUSHALL ASYNC", 0),
        ("DEL k", 0),
        ("FLUSHALL SYNC", 0),
        ("LOCK.RELEASE k owner-0", 4999),
    ] {
        let (server, mut c) = started();
        fill(&mut c, 5_000);
        assert_eq!(info(&mut c).holders, 5_000);
        let memory = run(&mut c, "MEMORY USAGE k").int();
        assert!((5_000 * 40..5_000 * 600).contains(&memory), "{memory}");
        run(&mut c, command).value();
        eventually(|| server.count("holders") == left, command);
    }
}
