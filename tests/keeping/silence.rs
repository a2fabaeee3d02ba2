//! A connection that has been silent for `ms` is closed: never before, and at most 2 s after.

use crate::support::{Keeper, count, kept_by, run, while_stopped};
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::clock::SteppedClock;
use testbed::{Expect, Load, Server, Talk, cmd, line, post};

/// The longest that a close may come after the silence has run out.
const AFTER: Duration = Duration::from_secs(2);
/// What connections and threads of this test may add, beside what a busy machine does.
const BUSY: Duration = Duration::from_millis(500);

const SECOND: Duration = Duration::from_secs(1);

/// Demands that the connection is closed when it has been silent for so long since this moment.
#[track_caller]
fn is_closed_after(server: &Server, keeper: &mut Keeper, silence: Duration, since: Instant) {
    let load = Load::on(server);
    let closed = keeper.is_closed() - since;
    assert!(
        (silence..=silence + AFTER + BUSY + load.so_far()).contains(&closed),
        "closed after {closed:?} of {silence:?}"
    );
}

#[test]
fn who_is_silent_for_so_long_is_closed() {
    let server = Arc::new(Server::start());
    let threads: Vec<_> = [1000, 1001, 1400, 1999, 2000, 3200]
        .into_iter()
        .enumerate()
        .map(|(n, ms)| {
            // At different parts of the server's second.
            sleep(Duration::from_millis(137));
            let mut keeper = Keeper::of(server.connection());
            let server = Arc::clone(&server);
            thread::spawn(move || {
                let before = Instant::now();
                keeper.acquire(&format!("k{n} a PX 60000 KEEP {ms}"));
                is_closed_after(&server, &mut keeper, Duration::from_millis(ms), before);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("closed in time");
    }
    let mut c = server.connection();
    assert_eq!(count(&server, "kept_closes"), 6);
    // The leases run on, and are renewed no more.
    assert!(run(&mut c, "PTTL k0").int() > 50_000);
    assert_eq!(count(&server, "kept"), 0);
}

#[test]
fn any_command_counts() {
    let server = Server::start();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 2500");
    let mut last = Instant::now();
    for words in [
        "PING",
        "GET nothing",
        "NO SUCH COMMAND",
        "LOCK.INFO k",
        "ECHO x",
        "CLIENT ID",
    ] {
        sleep(SECOND);
        last = Instant::now();
        let _ = run(&mut keeper, words).reply();
    }
    is_closed_after(&server, &mut keeper, Duration::from_millis(2500), last);
}

/// Bytes of a command that is not whole yet, too, and what comes without being asked for a reply.
#[test]
fn the_smallest_silence_of_a_connection_counts() {
    let server = Server::start();
    let mut keeper = Keeper::on(&server, "long a PX 60000 KEEP 60000");
    keeper.acquire("short a PX 60000 KEEP 1000");
    let since = Instant::now();
    keeper.acquire("longer a PX 60000 KEEP 600000");
    is_closed_after(&server, &mut keeper, SECOND, since);
    // With the last grant that is so strict, the strictness goes.
    let mut keeper = Keeper::on(&server, "long a PX 60000 KEEP 60000");
    keeper.acquire("short a PX 60000 KEEP 1000");
    run(&mut keeper, "LOCK.RELEASE short a ALL").int();
    sleep(SECOND + AFTER + BUSY);
    keeper.is_answered();
}

/// A connection that waits says nothing: its other grants go, though it is blocked.
#[test]
fn a_connection_that_waits_is_silent() {
    let server = Server::start();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 1000");
    let since = Instant::now();
    post!(*keeper, "BLPOP", "nothing", 0);
    is_closed_after(&server, &mut keeper, SECOND, since);
}

#[test]
fn bytes_that_it_sends_while_blocked_count() {
    let server = Server::start();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 2500");
    post!(*keeper, "BLPOP", "nothing", 0);
    let mut last = Instant::now();
    for _ in 0..5 {
        sleep(SECOND);
        last = Instant::now();
        keeper.post(&line("PING"));
    }
    is_closed_after(&server, &mut keeper, Duration::from_millis(2500), last);
}

/// For a grant with BLOCK the silence begins with the reply.
#[test]
fn the_silence_of_a_wait_begins_with_its_reply() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k b PX 60000").grant();
    let mut keeper = Keeper::of(server.connection());
    post!(
        *keeper,
        "LOCK.ACQUIRE",
        "k",
        "a",
        "PX",
        60_000,
        "BLOCK",
        0,
        "KEEP",
        1000
    );
    sleep(SECOND + AFTER + BUSY);
    let since = Instant::now();
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    keeper.receive().grant();
    is_closed_after(&server, &mut keeper, SECOND, since);
}

/// What was sent before a stall is read behind it.
#[test]
fn a_stall_of_the_server_is_no_silence() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keepers = [
        Keeper::on(&server, "k a PX 60000 KEEP 1000"),
        Keeper::on(&server, "j a PX 60000 KEEP 1000"),
    ];
    let silent_since = Instant::now();
    let stall = Duration::from_millis(3500);
    while_stopped(&server, || {
        sleep(Duration::from_millis(100));
        // It lies unread; that of the other comes just after the stall.
        keepers[0].post(&line("PING"));
        sleep(stall);
    });
    let over = Instant::now();
    keepers[1].is_answered();
    assert_eq!(keepers[0].receive().text(), "PONG");
    run(&mut c, "DEBUG SLEEP 2.5").okay();
    for keeper in &mut keepers {
        keeper.is_answered();
    }
    let since = Instant::now();
    assert!(since - silent_since > stall && since > over);
    for keeper in &mut keepers {
        is_closed_after(&server, keeper, SECOND, since);
    }
}

#[test]
fn a_pause_is_no_silence() {
    for kind in ["WRITE", "ALL"] {
        let server = Server::start();
        let mut c = server.connection();
        let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 1000");
        cmd!(c, "CLIENT", "PAUSE", 3500, kind).okay();
        sleep(Duration::from_millis(3400));
        // In a pause of everything it is answered behind it.
        keeper.is_answered();
        is_closed_after(&server, &mut keeper, SECOND, Instant::now());
    }
}

#[test]
fn a_step_of_the_wall_clock_is_no_silence() {
    let clock = match SteppedClock::start(Server::builder()) {
        Ok(clock) => clock,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let mut keeper = Keeper::on(&clock.server, "k a PX 600000000 KEEP 2500");
    let mut last = Instant::now();
    for seconds in [3600, 0, -3600, 0, 7200, -7200] {
        clock.step(seconds);
        sleep(Duration::from_millis(1200));
        last = Instant::now();
        keeper.is_answered();
    }
    is_closed_after(
        &clock.server,
        &mut keeper,
        Duration::from_millis(2500),
        last,
    );
    // Nor does a step lengthen a silence for ever.
    let mut keeper = Keeper::on(&clock.server, "j a PX 600000000 KEEP 1500");
    let last = Instant::now();
    sleep(Duration::from_millis(500));
    clock.step(3600);
    sleep(Duration::from_millis(300));
    clock.step(-3600);
    is_closed_after(
        &clock.server,
        &mut keeper,
        Duration::from_millis(1500),
        last,
    );
}

/// Pub/sub and invalidations are written by the server: that counts as heard, which is why nothing else is to
/// use the connection. But it is never closed while it is heard.
#[test]
fn a_connection_that_is_heard_is_never_closed() {
    let server = Server::start();
    let mut keepers: Vec<_> = (0..20)
        .map(|n| Keeper::on(&server, &format!("k{n} a PX 1000 KEEP 2500")))
        .collect();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(600));
        for keeper in &mut keepers {
            keeper.post(&line("PING"));
        }
        for keeper in &mut keepers {
            assert_eq!(keeper.recv_response().expect("a PONG").text(), "PONG");
        }
    }
    assert_eq!(count(&server, "kept"), 20);
    let mut c = server.connection();
    assert_eq!(kept_by(&mut c), []);
}
