//! Tests of programs in the view, and of the list of all held locks.

use crate::arguments::{By, Listing};
use crate::locks;
use crate::snapshot::Claim;
use crate::source::{Order, Update};
use crate::table::Panel;
use crate::view::{Mode, View};
use crate::view_tests::keys;
use crate::{live_tests, view_tests};
use ratatui::crossterm::event::KeyCode;
use redis_lock_tool::{Program, Waiter};
use testbed::{Expect, Server, Talk, cmd, eventually, run};

#[test]
fn a_queued_call_is_shown_with_its_program_and_not_killed() {
    let mut view = view_tests::view();
    let mut later = view_tests::snapshot(&[view_tests::lock("orders", "a", 9, 5)]);
    later.programs = vec![
        view_tests::program(5, "checkout", 21),
        view_tests::program(6, "", 22),
    ];
    view.apply(Update::Snapshot(later));
    view_tests::press(&mut view, KeyCode::Enter);
    let of = |owner, client_id, session| Waiter {
        session,
        ..view_tests::waiter(owner, client_id)
    };
    // Two calls of one program on one connection, one of a program without a name, one that blocks, an unknown one.
    let queue = vec![
        of("a", 21, 5),
        of("b", 21, 5),
        of("c", 0, 6),
        of("d", 30, 5),
        of("e", 31, 77),
    ];
    let queued: Vec<_> = queue
        .iter()
        .map(|waiter| view.now.is_queued("here:1", waiter))
        .collect();
    assert_eq!(queued, [true, true, true, false, true]);
    view.apply(Update::Queue(
        view_tests::lock_id("orders"),
        None,
        queue.clone(),
    ));
    view_tests::press(&mut view, KeyCode::Down);
    let picture = view_tests::screen(&view, 80, 24);
    for part in ["checkout", "queued", " 6 ", " 30 ", " 77 "] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
    // The second call stays chosen, whatever else that connection polls for.
    view.apply(Update::Queue(view_tests::lock_id("orders"), None, queue));
    view_tests::type_in(&mut view, "k");
    assert!(matches!(view.mode, Mode::Queue(_)));
    let message = view.message.clone().unwrap_or_default();
    assert!(message.contains("LOCK.RELEASE … b ALL"), "{message}");
}

#[test]
fn programs_are_shown_with_their_state_and_end_only_after_a_yes() {
    let mut view = view_tests::view();
    let mut later = view_tests::snapshot(&[]);
    let states = [
        (7, "reports", 0, 0),
        (8, "billing", 3, 5000),
        (9, "shop", 4, 0),
    ];
    later.programs = states
        .map(|(session, name, client_id, idle_ms)| {
            let (id, program) = view_tests::program(session, name, client_id);
            let (grants, waiting) = (session - 7, 1);
            let program = Program {
                idle_ms,
                grants,
                waiting,
                ..program
            };
            (id, program)
        })
        .to_vec();
    view.apply(Update::Snapshot(later));
    view_tests::type_in(&mut view, "4");
    assert_eq!(keys(&view, Panel::Programs), ["9", "8", "7"]);
    let picture = view_tests::screen(&view, 80, 24);
    for part in [
        "here:1: reports is detached: holds 0, waits for 1",
        "here:1: billing is frozen: holds 1, waits for 1",
        " polls ",
    ] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
    view_tests::type_in(&mut view, "/froz");
    view_tests::press(&mut view, KeyCode::Enter);
    let billing = view_tests::program(8, "", 0).0;
    let order = view_tests::press(&mut view, KeyCode::Enter);
    assert_eq!(order, Some(Order::LookAtProgram(billing.clone())));
    let claim = |key: &str, waited_ms| Claim {
        key: key.into(),
        waited_ms,
        ..Claim::default()
    };
    let claims = vec![claim("orders", None), claim("stock", Some(2100))];
    view.apply(Update::Claims(billing.clone(), Some(claims)));
    let picture = view_tests::screen(&view, 80, 24);
    for part in ["holds orders", "waits stock", "2.1s"] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
    view_tests::type_in(&mut view, "kn");
    assert!(matches!(view.mode, Mode::Claims(_)));
    view_tests::type_in(&mut view, "k");
    assert!(view_tests::screen(&view, 80, 24).contains("End session 8 of billing"));
    assert_eq!(
        view_tests::type_in(&mut view, "y"),
        Some(Order::End(billing))
    );
    // From the table, too, and not on other tables.
    view_tests::press(&mut view, KeyCode::Esc);
    view_tests::type_in(&mut view, "k");
    assert!(matches!(view.mode, Mode::Confirm(..)));
    view_tests::type_in(&mut view, "n1ku");
    assert_eq!(view.mode, Mode::Tables);
}

fn open(c: &mut impl Talk, name: &str) -> i64 {
    cmd!(*c, "LOCK.SESSION", "OPEN", "NAME", name).int()
}

/// The program `billing` holds a lock, and waits for that of a detached one.
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
fn programs_with_what_they_hold_and_wait_for_until_one_is_ended() {
    let server = Server::start();
    let (mut c, billing, detached) = two_programs(&server);
    // Fields that are not asked for by name are seen with a watcher's rights too.
    let mut source = live_tests::source_as(&server, "watcher");
    let mut view = View::new();
    view.apply(Update::Snapshot(source.read()));
    let mut ids = keys(&view, Panel::Programs);
    ids.sort();
    let mut both = [billing, detached].map(|id| id.to_string());
    both.sort();
    assert_eq!(ids, both);
    assert!(live_tests::screen(&view).contains("gone is detached: holds 1, waits for 0"));

    live_tests::type_in(&mut view, &mut source, "4/billing");
    live_tests::press(&mut view, &mut source, KeyCode::Enter);
    live_tests::press(&mut view, &mut source, KeyCode::Enter);
    let picture = live_tests::screen(&view);
    for part in ["holds lock:a", "waits lock:b", "holds 1, waits for 1"] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
    assert_eq!(cmd!(c, "ACL", "LOG").items(), []);
    live_tests::type_in(&mut view, &mut source, "ky");
    assert!(live_tests::screen(&view).contains("NOPERM"));

    let mut source = live_tests::source_as(&server, "administrator");
    live_tests::type_in(&mut view, &mut source, "ky");
    let picture = live_tests::screen(&view);
    assert!(picture.contains("has ended: 1 released"), "{picture}");
    assert_eq!(cmd!(c, "EXISTS", "lock:a").int(), 0);
    let list = cmd!(c, "LOCK.SESSION", "LIST").items();
    assert_eq!(list.len(), 1);
}

#[test]
fn all_held_locks_are_printed_once_by_owner_or_by_session() {
    let server = Server::start();
    let (mut c, billing, detached) = two_programs(&server);
    cmd!(c, "SET", "no-lock", 1).okay();
    for owner in ["r1", "r2"] {
        cmd!(c, "LOCK.ACQUIRE", "lock:shared\x1b", owner, "SHARED").grant();
    }
    let mut source = live_tests::source_as(&server, "watcher");
    let mut list = |by, json| locks::list(&mut source, &Listing { by, json });
    let (text, complete) = list(By::Owner, false);
    assert!(complete && text.contains("\nheld: 4\n"), "{text}");
    assert!(text.contains("lock:shared\\x1b"), "{text}");
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}"));
    let owners = ["one", "r1", "r2", "two"].map(|owner| at(&text, &format!("\n{owner}\n")));
    assert!(owners.is_sorted(), "{text}");
    at(&text, &format!("session {billing} billing"));

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
    assert_eq!(
        find("r1").expect("a share")["session"],
        serde_json::Value::Null
    );
    assert_eq!(json["not-read"].as_array().map(Vec::len), Some(0));
    assert_eq!(cmd!(c, "ACL", "LOG").items(), []);
}
