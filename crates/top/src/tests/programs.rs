//! Programs in the view, and the list of all held locks.

use super::Screen;
use super::hand_made::{self, HERE, lock, lock_id, snapshot, waiter};
use super::servers::source_as;
use crate::locks;
use crate::order::{Action, Update};
use crate::snapshot::Found;
use crate::table::Panel;
use crate::view::Mode;
use crate::{By, Listing};
use ratatui::crossterm::event::KeyCode;
use redis_lock_tool::{Program, Waiter};
use testbed::{Expect, Server, Talk, cmd, eventually, run};

#[test]
fn a_queued_call_is_shown_with_its_program_and_not_killed() {
    let mut now = snapshot(&[lock("orders", "a", 9, 5)]);
    let programs = [(5, "checkout", 21), (6, "", 22)];
    now.servers[0].programs = programs
        .map(|(session, name, client)| hand_made::program(session, name, client))
        .into();
    let mut screen = Screen::of(now);
    screen.press(KeyCode::Enter);
    // Two calls of one program on one connection, a call of a program without a name, a blocked call, and a call of an
    // unknown session.
    let calls = [
        ("a", 21, 5),
        ("b", 21, 5),
        ("c", 0, 6),
        ("d", 30, 5),
        ("e", 31, 77),
    ];
    let calls = calls.map(|(owner, client, session)| Waiter {
        session,
        ..waiter(owner, client)
    });
    let queued = calls
        .each_ref()
        .map(|call| screen.view.now.is_queued(HERE, call));
    assert_eq!(queued, [true, true, true, false, true]);
    let found =
        |calls: &[Waiter]| Update::Found(lock_id("orders"), Found::Queue(None, calls.into()));
    screen.apply(found(&calls));
    screen.press(KeyCode::Down);
    screen.shows(["checkout", "queued", " 6 ", " 30 ", " 77 "]);
    // The second call stays chosen when the first one has left.
    screen.apply(found(&calls[1..]));
    screen.type_in("k");
    assert!(matches!(screen.view.mode, Mode::Details(_)));
    screen.shows(["LOCK.RELEASE … b ALL"]);
}

#[test]
fn programs_are_shown_with_their_state_and_ended_only_after_a_yes() {
    let mut now = snapshot(&[]);
    let states = [
        (7, "reports", 0, 0),
        (8, "billing", 3, 5000),
        (9, "shop", 4, 0),
    ];
    let programs = states.map(|(session, name, client, idle_ms)| Program {
        idle_ms,
        grants: session - 7,
        waiting: 1,
        ..hand_made::program(session, name, client)
    });
    now.servers[0].programs = programs.into();
    let mut screen = Screen::of(now);
    screen.type_in("4");
    assert_eq!(screen.keys(Panel::Programs), ["9", "8", "7"]);
    screen.shows([
        "here:1: reports is detached: holds 0, waits for 1",
        "here:1: billing is frozen: holds 1, waits for 1",
        " polls ",
    ]);
    // In this table programs can be ended, but no lock can be freed. The other tables end no programs.
    for (keys, ordered) in [
        ("kn", None),
        ("u", None),
        ("ky", Some(Action::End(9))),
        ("1k", None),
    ] {
        screen.type_in(keys);
        assert_eq!(screen.action(), ordered.as_ref(), "{keys}");
        assert_eq!(screen.view.mode, Mode::Tables);
    }
}

fn open(c: &mut impl Talk, name: &str) -> i64 {
    cmd!(*c, "LOCK.SESSION", "OPEN", "NAME", name).int()
}

/// The program `billing` holds a lock, and waits for the lock of a detached program.
fn two_programs(server: &Server) -> (impl Talk + use<>, i64, i64) {
    let mut c = server.connection();
    let detached = open(&mut server.connection(), "gone");
    let billing = open(&mut c, "billing");
    for (key, owner, session) in [("lock:a", "one", billing), ("lock:b", "two", detached)] {
        let line = format!("LOCK.ACQUIRE {key} {owner} EX 60 SESSION {session}");
        run(&mut c, &line).grant();
    }
    let line = format!("LOCK.ACQUIRE lock:b one HOLDS 1 SESSION {billing} QUEUE 0");
    run(&mut c, &line).int();
    let is_detached = || server.info_field("lock", "lock_sessions_detached") == "1";
    eventually(is_detached, "the server to see the closed connection");
    (c, billing, detached)
}

#[test]
fn programs_are_listed_with_their_locks_and_waits_until_one_is_ended() {
    let server = Server::start();
    let (mut c, billing, detached) = two_programs(&server);
    // The rights of a watcher are enough for these fields too.
    let mut screen = Screen::live(source_as(&server, "watcher"));
    let mut ids = screen.keys(Panel::Programs);
    ids.sort();
    let mut both = [billing, detached].map(|id| id.to_string());
    both.sort();
    assert_eq!(ids, both);
    screen.shows(["gone is detached: holds 1, waits for 0"]);

    screen.type_in("4/billing");
    screen.press(KeyCode::Enter);
    screen.press(KeyCode::Enter);
    screen.shows(["holds lock:a", "waits lock:b", "holds 1, waits for 1"]);
    assert_eq!(cmd!(c, "ACL", "LOG").items(), []);
    screen.type_in("ky");
    screen.shows(["NOPERM"]);

    screen.source = Some(source_as(&server, "administrator"));
    screen.type_in("ky");
    screen.shows(["has ended: 1 released"]);
    assert_eq!(cmd!(c, "EXISTS", "lock:a").int(), 0);
    assert_eq!(cmd!(c, "LOCK.SESSION", "LIST").items().len(), 1);
}

#[test]
fn all_held_locks_are_printed_once_by_owner_or_by_session() {
    let server = Server::start();
    let (mut c, billing, detached) = two_programs(&server);
    cmd!(c, "SET", "no-lock", 1).okay();
    for owner in ["r1", "r2"] {
        cmd!(c, "LOCK.ACQUIRE", "lock:shared\x1b", owner, "SHARED").grant();
    }
    let mut source = source_as(&server, "watcher");
    let mut list = |by, json| locks::list(&mut source, &Listing { by, json });
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}"));
    let (text, complete) = list(By::Owner, false);
    assert!(complete);
    let owners = ["one", "r1", "r2", "two"].map(|owner| at(&text, &format!("\n{owner}\n")));
    assert!(owners.is_sorted(), "{text}");
    let program = format!("session {billing} billing");
    for part in ["\nheld: 4\n", "lock:shared\\x1b", &program] {
        at(&text, part);
    }

    let (text, _) = list(By::Session, false);
    at(&text, &format!("gone session {detached} detached\n"));
    assert!(
        at(&text, "no session") > at(&text, "billing session"),
        "{text}"
    );

    let (text, _) = list(By::Session, true);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let locks = json["locks"].as_array().expect("locks");
    let find = |owner: &str| locks.iter().find(|lock| lock["owner"] == owner);
    let two = find("two").expect("its lock");
    assert_eq!(
        (&two["lock"], &two["waiters"]),
        (&"lock:b".into(), &1.into())
    );
    assert_eq!(two["session"]["name"], "gone");
    assert!(two["lease-ms"].is_i64(), "{two}");
    assert!(find("r1").expect("a share")["session"].is_null());
    assert_eq!(json["not-read"].as_array().map(Vec::len), Some(0));
    assert_eq!(cmd!(c, "ACL", "LOG").items(), []);
}
