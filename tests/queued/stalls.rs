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

    /// In a stall the releases reach the server, and then what these do.
    #[track_caller]
    fn stall(&mut self, late: impl FnOnce(&Server, &mut [Session; 2])) {
        let (server, holder) = (&self.server, &mut self.holder);
        server.while_stopped(|| {
            post_all(holder, releases());
            sleep(STALL);
            late(server, &mut self.programs);
        });
        self.receive_releases();
    }

    /// The releases are sent in a pause of this kind, and so is what these do behind them.
    #[track_caller]
    fn pause(&mut self, kind: &str, late: impl FnOnce(&mut [Session; 2])) {
        let pause = format!("CLIENT PAUSE {} {kind}", STALL.as_millis());
        run(&mut self.server.connection(), &pause).okay();
        post_all(&mut self.holder, releases());
        late(&mut self.programs);
        self.receive_releases();
    }

    #[track_caller]
    fn receive_releases(&mut self) {
        for _ in 0..LOCKS {
            assert_eq!(self.holder.receive().int(), 0);
        }
    }

    /// Demands that `owner` has all locks, and that these have their places.
    #[track_caller]
    fn each_is_held(&self, owner: &str, waiting: [&str; 2]) {
        let mut c = self.server.connection();
        for key in keys() {
            eventually(|| waiters(&mut c, &key).len() == 2, "a hand-off");
            has(&mut c, &key, &[owner]);
            assert_eq!(waiters(&mut c, &key), waiting, "{key}");
        }
    }

    /// Demands that the first program has all locks and is told of them by the POLL that waits, and that the others have
    /// their places.
    #[track_caller]
    fn goes_to_the_first(&mut self) {
        self.each_is_held("b", ["c", "d"]);
        let [first, second] = &mut self.programs;
        assert_eq!(second.number(&mut self.server.connection(), "events"), 0);
        assert_eq!(first.told_all(LOCKS).len(), LOCKS);
    }
}

/// Each program sends a POLL that waits.
fn post_polls(programs: &mut [Session; 2]) {
    for program in programs {
        program.post_poll(60_000);
    }
}

/// The POLLs are read after the releases.
#[test]
fn a_poll_that_came_in_a_stall_counts() {
    let mut stage = Stage::new();
    stage.poll();
    stage.stall(|_, programs| post_polls(programs));
    stage.goes_to_the_first();
}

/// Connections that the server has not accepted yet.
#[test]
fn a_reconnect_in_a_stall_counts() {
    let mut stage = Stage::new();
    post_polls(&mut stage.programs);
    stage.stall(|server, programs| {
        for program in &mut *programs {
            program.connection = server.connection();
        }
        post_polls(programs);
    });
    stage.goes_to_the_first();
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
        post_polls(programs);
    });
    stage.goes_to_the_first();
}

/// The time of a stall does not make a reply older, nor does that of a pause of either kind.
#[test]
fn a_stall_or_a_pause_is_no_silence() {
    for kind in ["stall", "ALL", "WRITE"] {
        println!("{kind}");
        loop {
            let mut stage = Stage::new();
            let since = stage.poll();
            match kind {
                "stall" => stage.stall(|_, _| ()),
                kind => stage.pause(kind, |_| ()),
            }
            let elapsed = since.elapsed();
            assert!(elapsed > SILENCE, "{kind}: {elapsed:?}");
            if elapsed < STALL + RECENT {
                stage.each_is_held("b", ["c", "d"]);
                stage.programs[0].post_poll(60_000);
                stage.goes_to_the_first();
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
    stage.pause("ALL", post_polls);
    stage.goes_to_the_first();
}

/// A program that was frozen before is back, if its POLL came in the stall.
#[test]
fn a_stall_may_bring_a_frozen_program_back() {
    let mut stage = Stage::new();
    stage.programs[1].post_poll(60_000);
    stage.programs[0].poll();
    sleep(SILENCE);
    stage.stall(|_, programs| programs[0].post_poll(60_000));
    stage.goes_to_the_first();
}

/// Otherwise it is passed over after the stall as before.
#[test]
fn a_stall_brings_nobody_back_who_does_not_poll() {
    let mut stage = Stage::new();
    stage.programs[1].stay(&stage.server);
    stage.programs[0].poll();
    sleep(SILENCE);
    stage.stall(|_, _| ());
    stage.programs[1].told_all(LOCKS);
    stage.each_is_held("c", ["b", "d"]);
    let mut c = stage.server.connection();
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
    let (server, holder) = (&stage.server, &mut stage.holder);
    server.while_stopped(|| {
        let newcomers = keys().map(|key| format!("LOCK.ACQUIRE {key} x"));
        post_all(holder, releases().chain(newcomers));
        sleep(STALL);
        stage.programs[0].post_poll(60_000);
    });
    stage.receive_releases();
    for _ in 0..LOCKS {
        stage.holder.receive().nil();
    }
    for key in keys() {
        eventually(|| !holders(&mut c, &key).is_empty(), "a holder");
        has(&mut c, &key, &["b"]);
    }
    assert_eq!(stage.programs[0].told_all(LOCKS).len(), LOCKS);
}
