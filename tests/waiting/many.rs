//! Many locks that are due at once, and many waiters that have gone.

use redis::Connection;
use std::collections::BTreeSet;
use testbed::{
    Expect, Load, Server, Talk, blocked_clients, cmd, eventually, line, run, transaction,
};

const LOCKS: usize = 1000;
const LISTENERS: usize = 30;

/// Acquires locks as `a`, and lets one call wait for each as `b`.
fn wait_for_all(server: &Server, c: &mut Connection) -> Vec<Connection> {
    for number in 0..LOCKS {
        run(c, &format!("LOCK.ACQUIRE k{number} a PX 600000")).grant();
    }
    let mut waiters: Vec<Connection> = (0..LOCKS).map(|_| server.connection()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.post(&line(&format!("LOCK.ACQUIRE k{number} b BLOCK 0")));
    }
    let count = i64::try_from(LOCKS).unwrap();
    eventually(|| blocked_clients(server) == count, "all to wait");
    waiters
}

/// Frees locks that are waited for, one call each, and demands that the server serves others before all are handed
/// over.
fn others_are_served(end: impl FnOnce(&mut Connection)) {
    let server = Server::builder()
        .config("maxclients", &(2 * LOCKS + 100).to_string())
        .config("notify-keyspace-events", "KEA")
        .start();
    // A hand-off takes longer so, and all of them more than a few ticks.
    let _listeners: Vec<Connection> = (0..LISTENERS)
        .map(|_| {
            let mut listener = server.connection();
            run(&mut listener, "PSUBSCRIBE *").items();
            listener
        })
        .collect();
    let mut c = server.connection();
    let mut waiters = wait_for_all(&server, &mut c);
    end(&mut c);
    // A token is the time of its grant in microseconds.
    let times: BTreeSet<i64> = waiters
        .iter_mut()
        .map(|waiter| {
            let grant = waiter.receive().grant();
            assert_eq!(grant.owner, b"b");
            grant.token
        })
        .collect();
    let pauses = times.iter().zip(times.iter().skip(1));
    let pauses: Vec<i64> = pauses.map(|(before, after)| after - before).collect();
    // The event loop serves others in the pause between two ticks.
    assert!(pauses.iter().any(|pause| *pause >= 1000), "{pauses:?}");
    eventually(|| blocked_clients(&server) == 0, "nobody to wait");
}

#[test]
fn leases_that_end_together_hold_up_nobody() {
    let leases_end = |c: &mut Connection| {
        let now = cmd!(*c, "TIME").items();
        let seconds: i64 = now.into_iter().next().unwrap().text().parse().unwrap();
        let end = (seconds + 2) * 1000;
        for number in 0..LOCKS {
            run(c, &format!("PEXPIREAT k{number} {end}")).int();
        }
    };
    others_are_served(leases_end);
}

#[test]
fn locks_that_are_deleted_together_hold_up_nobody() {
    let all_go = |c: &mut Connection| run(c, "FLUSHALL").okay();
    others_are_served(all_go);
}

/// Only a few locks are looked at in each tick, but what a RENEW says need not be looked for.
#[test]
fn among_many_locks_a_lease_that_its_owner_cuts_is_handed_over_in_time() {
    const ROUNDS: usize = 5;
    const CUT: usize = 20;
    let (server, mut c) = Server::builder()
        .config("maxclients", &(2 * LOCKS + 100).to_string())
        .started();
    let mut waiters = wait_for_all(&server, &mut c);
    let late: Vec<i64> = (0..ROUNDS)
        .map(|round| {
            let cut: Vec<_> = (0..CUT).map(|n| round + n * LOCKS / CUT).collect();
            let renewals = cut.iter().map(|n| format!("LOCK.RENEW k{n} a PX 8"));
            let ends = cut.iter().map(|n| format!("PEXPIRETIME k{n}"));
            let lines: Vec<_> = renewals.chain(ends).collect();
            let load = Load::on(&server);
            let ends = transaction(&mut c, &lines).split_off(CUT);
            let late = cut.iter().zip(ends).map(|(n, end)| {
                let token = waiters[*n].receive().grant().token;
                token - end.int() * 1000
            });
            // A few may be looked at in time by chance, in the turn of their locks.
            late.max().expect("some") - 1000 * load.so_far_ms()
        })
        .collect();
    println!("the latest of {CUT} hand-offs, in us: {late:?}");
    assert!(late.iter().any(|late| *late < 10_000), "{late:?}");
}

/// Makes so many connections wait by this command; then they are gone.
fn crowd(server: &Server, size: usize, call: impl Fn(usize) -> redis::Cmd) {
    let mut crowd: Vec<_> = (0..size).map(|_| server.connection()).collect();
    for (number, waiter) in crowd.iter_mut().enumerate() {
        waiter.post(&call(number));
    }
    let all = i64::try_from(size).expect("small");
    eventually(|| blocked_clients(server) == all, "all to wait");
    drop(crowd);
    let connected = || server.info_field("clients", "connected_clients");
    let gone = || blocked_clients(server) == 0 && connected() == "2";
    eventually(gone, "all to be gone");
}

#[test]
fn what_a_crowd_of_waiters_took_is_given_back() {
    /// The tables of the calls that wait took some ten times as much.
    const LEFT: i64 = 16 * 1024;
    const MANY: usize = 1000;
    let (server, _c) = Server::builder().config("maxclients", "2000").held();
    // What is kept after any clients that waited, few or many.
    let call = |n| line(&format!("LOCK.ACQUIRE k owner-{n} BLOCK 0"));
    crowd(&server, MANY, |_| line("BLPOP list 0"));
    crowd(&server, 50, call);
    let used = || server.number("memory", "used_memory");
    let samples = (0..20).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        used()
    });
    let before = samples.min().expect("samples");
    crowd(&server, MANY, call);
    let what = format!("the memory to be back: {before} bytes before");
    eventually(|| used() <= before + LEFT, &what);
}
