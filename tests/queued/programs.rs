//! Several programs, several locks: one frozen, one killed, and two that reconnect in turns.

use crate::support::{Session, fall_silent, granted, has, hold, queued, run};
use testbed::{Expect, Server, waiters};

const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// Each lock is held by `a`, and these owners' calls are in line, one of each session.
#[track_caller]
fn queue_all(server: &Server, sessions: &[&Session], owners: &[&str]) {
    let mut c = server.connection();
    for key in KEYS {
        hold(&mut c, &[&format!("{key} a")]);
        for (session, owner) in sessions.iter().zip(owners) {
            session.queue(&mut c, &format!("{key} {owner}"));
        }
    }
}

/// The events of one grant of each lock, of which the first answers the POLL that waits.
#[track_caller]
fn all_told(session: &mut Session) -> Vec<String> {
    let mut told = session.told();
    told.extend(session.events(KEYS.len() - told.len()));
    assert_eq!(told.len(), KEYS.len());
    assert!(
        told.iter().all(|event| event.contains(" granted ")),
        "{told:?}"
    );
    told
}

#[test]
fn a_killed_and_a_frozen_program_hold_nobody_up() {
    let server = Server::start();
    let mut c = server.connection();
    let killed = Session::open(&server);
    let mut frozen = Session::open(&server);
    let mut lives = Session::open(&server);
    queue_all(&server, &[&killed, &frozen, &lives], &["b", "c", "d"]);
    let killed = killed.leave(&server);
    frozen.poll();
    lives.stay(&server);
    fall_silent();
    for key in KEYS {
        run(&mut c, &format!("LOCK.RELEASE {key} a")).int();
        has(&mut c, key, &["d"]);
        assert_eq!(waiters(&mut c, key), ["b", "c"]);
    }
    let told = all_told(&mut lives);
    let expected: Vec<_> = (1..)
        .zip(KEYS)
        .map(|(number, key)| granted(&mut c, number, key, "d"))
        .collect();
    assert_eq!(told, expected);
    // The frozen one continues, and so does a new process of the killed one. Each has its place.
    frozen.stay(&server);
    let mut again = killed.back(&server);
    again.stay(&server);
    for key in KEYS {
        lives.release(&mut c, key, "d");
        has(&mut c, key, &["b"]);
    }
    all_told(&mut again);
    for key in KEYS {
        again.release(&mut c, key, "b");
        has(&mut c, key, &["c"]);
    }
    all_told(&mut frozen);
    assert_eq!(queued(&server), 0);
}

/// Two programs that reconnect in turns, with several calls each in every line.
#[test]
fn the_order_survives_any_coming_and_going() {
    let server = Server::start();
    let mut c = server.connection();
    let mut programs = [(); 2].map(|()| Session::open(&server));
    let owners = ["b", "c", "d", "e", "f", "g"];
    for key in KEYS {
        hold(&mut c, &[&format!("{key} a")]);
    }
    for (turn, owner) in owners.into_iter().enumerate() {
        for key in KEYS {
            programs[turn % 2].queue(&mut c, &format!("{key} {owner}"));
        }
        let other = &mut programs[(turn + 1) % 2];
        other.connection = server.connection();
        other.poll();
    }
    for program in &mut programs {
        program.stay(&server);
    }
    for (turn, owner) in owners.into_iter().enumerate() {
        for key in KEYS {
            match turn.checked_sub(1) {
                None => assert_eq!(run(&mut c, &format!("LOCK.RELEASE {key} a")).int(), 0),
                Some(before) => programs[before % 2].release(&mut c, key, owners[before]),
            }
            has(&mut c, key, &[owner]);
        }
        all_told(&mut programs[turn % 2]);
        programs[turn % 2].stay(&server);
    }
    assert_eq!(queued(&server), 0);
}
