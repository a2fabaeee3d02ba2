//! After a stall or a pause of the server, the server first reads what had reached it: nobody loses a place.

use crate::support::{SILENCE, has};
use redis::Connection;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{
    Expect, Server, Session, Talk, Waiter, eventually, holders, post_all, run, started, wait,
    waiters,
};

const STALL: Duration = Duration::from_millis(1500);
const LOCKS: usize = 5;
/// A program that had a reply so shortly before a stall is there when the stall begins.
const RECENT: Duration = Duration::from_millis(800);

/// Two programs and several locks. `a` holds each of them. In line are `b` of the first program, `c` of the second,
/// and a blocked call of `d`.
struct Stage {
    server: Server,
    holder: Connection,
    programs: [Session; 2],
    blocked: Vec<Waiter>,
}

fn keys() -> impl Iterator<Item = String> {
    (0..LOCKS).map(|number| format!("k{number}"))
}

fn releases() -> impl Iterator<Item = String> {
    keys().map(|key| format!("LOCK.RELEASE {key} a"))
}

impl Stage {
    #[track_caller]
    fn new() -> Self {
        let (server, mut c) = started();
        let programs = [(); 2].map(|()| Session::open(&server));
        let mut blocked = Vec::new();
        for key in keys() {
            run(&mut c, &format!("LOCK.ACQUIRE {key} a PX 600000")).grant();
            programs[0].queue(&mut c, &format!("{key} b"));
            programs[1].queue(&mut c, &format!("{key} c"));
            blocked.push(wait(&server, &format!("{key} d PX 600000 BLOCK 0")));
        }
        Self {
            holder: c,
            server,
            programs,
            blocked,
        }
    }

    /// Both programs have a reply of this moment.
    #[track_caller]
    fn poll(&mut self) -> Instant {
        let since = Instant::now();
        for program in &mut self.programs {
            program.poll();
        }
        since
    }

    /// Each program sends a POLL that waits.
    #[track_caller]
    fn post_polls(&mut self) {
        for program in &mut self.programs {
            program.post_poll(60_000);
        }
    }

    #[track_caller]
    fn receive_releases(&mut self) {
        for _ in 0..LOCKS {
            assert_eq!(self.holder.receive().int(), 0);
        }
    }

    /// Demands that the first program has all locks, and that the others have their places.
    #[track_caller]
    fn goes_to_the_first(&mut self) {
        let mut c = self.server.connection();
        for key in keys() {
            eventually(|| waiters(&mut c, &key).len() == 2, "a hand-off");
            has(&mut c, &key, &["b"]);
            assert_eq!(waiters(&mut c, &key), ["c", "d"], "{key}");
        }
        assert_eq!(self.programs[1].number(&mut c, "events"), 0);
    }

    /// In a stall the releases reach the server, then a POLL of each program, which does something `first`.
    #[track_caller]
    fn polls_count_that_came_in_a_stall(&mut self, first: impl Fn(&Server, &mut Session)) {
        let server = &self.server;
        let (holder, programs) = (&mut self.holder, &mut self.programs);
        server.while_stopped(|| {
            post_all(holder, releases());
            sleep(STALL);
            for program in programs {
                first(server, program);
                program.post_poll(60_000);
            }
        });
        self.receive_releases();
        self.goes_to_the_first();
        self.first_is_told();
    }

    /// The first program is told of all locks, by the POLL that waits.
    #[track_caller]
    fn first_is_told(&mut self) {
        let first = &mut self.programs[0];
        let told = first.told_all(LOCKS);
        assert_eq!(told.len(), LOCKS);
    }
}

/// The POLLs are read after the releases.
#[test]
fn a_poll_that_came_in_a_stall_counts() {
    let mut stage = Stage::new();
    stage.poll();
    stage.polls_count_that_came_in_a_stall(|_, _| ());
}

/// Connections that the server has not accepted yet.
#[test]
fn a_reconnect_in_a_stall_counts() {
    let mut stage = Stage::new();
    stage.post_polls();
    stage.polls_count_that_came_in_a_stall(|server, program| {
        program.connection = server.connection();
    });
}

/// The lease ends in the stall.
#[test]
fn an_expiry_in_a_stall_goes_to_the_first() {
    let mut stage = Stage::new();
    for key in keys() {
        run(&mut stage.holder, &format!("PEXPIRE {key} 1300")).int();
    }
    stage.poll();
    let (server, programs) = (&stage.server, &mut stage.programs);
    server.while_stopped(|| {
        sleep(STALL);
        for program in programs {
            program.post_poll(60_000);
        }
    });
    stage.goes_to_the_first();
    stage.first_is_told();
}

/// The time of a stall does not make a reply older.
#[test]
fn a_stall_is_no_silence() {
    loop {
        let mut stage = Stage::new();
        let since = stage.poll();
        let (server, holder) = (&stage.server, &mut stage.holder);
        server.while_stopped(|| {
            post_all(holder, releases());
            sleep(STALL);
        });
        stage.receive_releases();
        if since.elapsed() < STALL + RECENT {
            stage.goes_to_the_first();
            assert_eq!(stage.programs[0].events(LOCKS).len(), LOCKS);
            return;
        }
    }
}

/// Nor does that of a pause of either kind.
#[test]
fn a_pause_is_no_silence() {
    for kind in ["ALL", "WRITE"] {
        loop {
            let mut stage = Stage::new();
            let since = stage.poll();
            let pause = format!("CLIENT PAUSE {} {kind}", STALL.as_millis());
            run(&mut stage.server.connection(), &pause).okay();
            post_all(&mut stage.holder, releases());
            stage.receive_releases();
            let elapsed = since.elapsed();
            assert!(elapsed > SILENCE, "{elapsed:?}");
            if elapsed < STALL + RECENT {
                stage.goes_to_the_first();
                assert_eq!(stage.programs[0].events(LOCKS).len(), LOCKS);
                break;
            }
        }
    }
}

/// All that came in the pause is read before anybody is passed over.
#[test]
fn a_poll_that_came_in_a_pause_counts() {
    let mut stage = Stage::new();
    stage.poll();
    let pause = format!("CLIENT PAUSE {} ALL", STALL.as_millis());
    run(&mut stage.server.connection(), &pause).okay();
    post_all(&mut stage.holder, releases());
    stage.post_polls();
    stage.receive_releases();
    stage.goes_to_the_first();
    stage.first_is_told();
}

/// A program that was frozen before is back, if its POLL came in the stall.
#[test]
fn a_stall_may_bring_a_frozen_program_back() {
    let mut stage = Stage::new();
    stage.programs[1].post_poll(60_000);
    stage.programs[0].poll();
    sleep(SILENCE);
    let server = &stage.server;
    let (holder, programs) = (&mut stage.holder, &mut stage.programs);
    server.while_stopped(|| {
        post_all(holder, releases());
        sleep(STALL);
        programs[0].post_poll(60_000);
    });
    stage.receive_releases();
    stage.goes_to_the_first();
    stage.first_is_told();
}

/// Otherwise it is passed over after the stall as before.
#[test]
fn a_stall_brings_nobody_back_who_does_not_poll() {
    let mut stage = Stage::new();
    stage.programs[1].stay(&stage.server);
    stage.programs[0].poll();
    sleep(SILENCE);
    let (server, holder) = (&stage.server, &mut stage.holder);
    server.while_stopped(|| {
        post_all(holder, releases());
        sleep(STALL);
    });
    stage.receive_releases();
    let second = &mut stage.programs[1];
    second.told_all(LOCKS);
    let mut c = stage.server.connection();
    for key in keys() {
        has(&mut c, &key, &["c"]);
        assert_eq!(waiters(&mut c, &key), ["b", "d"], "{key}");
    }
    assert!(stage.blocked.iter().all(|waiter| waiter.is_blocked(&mut c)));
}

/// Until the server has read it, newcomers stand behind.
#[test]
fn newcomers_stand_behind_what_came_in_a_stall() {
    let mut stage = Stage::new();
    stage.programs[0].poll();
    stage.blocked.clear();
    let mut c = stage.server.connection();
    run(&mut c, &stage.programs[1].line("LOCK.SESSION CLOSE ID")).int();
    eventually(|| waiters(&mut c, "k0") == ["b"], "the others to leave");
    sleep(SILENCE);
    let server = &stage.server;
    let (holder, programs) = (&mut stage.holder, &mut stage.programs);
    server.while_stopped(|| {
        let newcomers = keys().map(|key| format!("LOCK.ACQUIRE {key} x"));
        post_all(holder, releases().chain(newcomers));
        sleep(STALL);
        programs[0].post_poll(60_000);
    });
    stage.receive_releases();
    for _ in 0..LOCKS {
        stage.holder.receive().nil();
    }
    for key in keys() {
        eventually(|| !holders(&mut c, &key).is_empty(), "a holder");
        has(&mut c, &key, &["b"]);
    }
    stage.first_is_told();
}
