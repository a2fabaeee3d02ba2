//! Tests of keys, updates and drawing.

use crate::draw::draw;
use crate::snapshot::{Held, Hot, Lock, LockId, ProgramId, Server, Snapshot};
use crate::source::{Order, Update};
use crate::table::{Panel, Row, RowId};
use crate::view::{Mode, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redis_lock_tool::{Program, Waiter, lines};
use std::time::Duration;

pub(crate) fn lock_id(key: &str) -> LockId {
    LockId {
        server: "here:1".to_owned(),
        key: key.as_bytes().to_vec(),
    }
}

pub(crate) fn lock(key: &str, owner: &str, held_ms: i64, waiters: i64) -> Lock {
    let held = Held {
        owner: owner.as_bytes().to_vec(),
        token: 1000 + held_ms,
        holds: 1,
        lease_ms: 30_000,
        ttl_ms: 20_000,
        held_ms,
        waiters,
    };
    let first = (waiters > 0).then(|| waiter("first", 7));
    Lock {
        id: lock_id(key),
        held,
        first,
    }
}

pub(crate) fn waiter(owner: &str, client_id: i64) -> Waiter {
    Waiter {
        owner: owner.as_bytes().to_vec(),
        client_id,
        waited_ms: 1500,
        left_ms: -1,
        ..Waiter::default()
    }
}

pub(crate) fn snapshot(locks: &[Lock]) -> Snapshot {
    let server = Server {
        address: "here:1".to_owned(),
        info: lines("redis_version:7.0.15\nlock_last_token:9\nlock_held:2\nlock_grants:10"),
        searched: true,
        ..Server::default()
    };
    let hot = Hot {
        key: b"stock".to_vec(),
        waits: 3,
        total_wait_ms: 90_000,
        ..Hot::default()
    };
    Snapshot {
        servers: vec![server],
        locks: locks.to_vec(),
        hot: vec![(lock_id("stock"), hot)],
        ..Snapshot::empty()
    }
}

pub(crate) fn program(session: i64, name: &str, client_id: i64) -> (ProgramId, Program) {
    let id = ProgramId {
        server: "here:1".to_owned(),
        session,
    };
    let program = Program {
        id: session,
        name: name.into(),
        client_id,
        ..Program::default()
    };
    (id, program)
}

/// A view in which `orders` is held longest and `mail` has most waiters.
pub(crate) fn view() -> View {
    let mut view = View::new();
    let locks = [
        lock("mail", "mailer:web-1:7:a", 5_000, 3),
        lock("orders", "billing:web-2:8:b", 90_000, 1),
        lock("stock", "shop:web-3:9:c", 100, 0),
    ];
    assert_eq!(view.apply(Update::Snapshot(snapshot(&locks))), None);
    view
}

pub(crate) fn press(view: &mut View, code: KeyCode) -> Option<Order> {
    view.press(KeyEvent::new(code, KeyModifiers::NONE))
}

pub(crate) fn type_in(view: &mut View, text: &str) -> Option<Order> {
    text.chars()
        .filter_map(|letter| press(view, KeyCode::Char(letter)))
        .last()
}

/// The keys, or sessions, of the rows of a table.
pub(crate) fn keys(view: &View, panel: Panel) -> Vec<String> {
    let name = |row: Row| match row.id {
        RowId::Lock(lock_id) => String::from_utf8(lock_id.key).expect("text"),
        RowId::Program(id) => id.session.to_string(),
    };
    view.rows(panel).into_iter().map(name).collect()
}

pub(crate) fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(view, frame)).expect("a picture");
    terminal.backend().to_string()
}

#[test]
fn each_table_is_sorted_as_its_title_says() {
    let view = view();
    assert_eq!(keys(&view, Panel::Held), ["orders", "mail", "stock"]);
    assert_eq!(keys(&view, Panel::Queues), ["mail", "orders"]);
    assert_eq!(keys(&view, Panel::Hot), ["stock"]);
}

#[test]
fn s_sorts_by_the_next_column_and_r_reverses() {
    let mut view = view();
    type_in(&mut view, "r");
    assert_eq!(keys(&view, Panel::Held), ["stock", "mail", "orders"]);
    // left, lease, holds, waiters
    type_in(&mut view, "ssss");
    assert_eq!(keys(&view, Panel::Held), ["mail", "orders", "stock"]);
    // token, server, and the first column again: names from A
    type_in(&mut view, "sss");
    assert_eq!(keys(&view, Panel::Held), ["mail", "orders", "stock"]);
    type_in(&mut view, "r");
    assert_eq!(keys(&view, Panel::Held), ["stock", "orders", "mail"]);
    // The other tables have their own order.
    assert_eq!(keys(&view, Panel::Queues), ["mail", "orders"]);
}

#[test]
fn a_lock_without_a_deadline_has_the_most_time_left() {
    let mut view = view();
    let mut for_ever = lock("for-ever", "a", 1, 0);
    for_ever.held.ttl_ms = -1;
    view.apply(Update::Snapshot(snapshot(&[
        for_ever,
        lock("short", "b", 2, 0),
    ])));
    type_in(&mut view, "s");
    assert_eq!(keys(&view, Panel::Held), ["for-ever", "short"]);
}

#[test]
fn the_filter_matches_keys_and_owners() {
    let mut view = view();
    type_in(&mut view, "/WEB-2");
    assert_eq!(keys(&view, Panel::Held), ["orders"]);
    press(&mut view, KeyCode::Enter);
    assert_eq!(view.mode, Mode::Tables);
    assert!(screen(&view, 80, 24).contains("1 Locks held longest: 1, with \"WEB-2\" in a name"));
    // A q that is typed into the filter does not quit.
    type_in(&mut view, "/");
    type_in(&mut view, "q");
    assert!(!view.is_over);
    press(&mut view, KeyCode::Esc);
    assert_eq!(keys(&view, Panel::Held).len(), 3);
    type_in(&mut view, "q");
    assert!(view.is_over);
}

#[test]
fn control_c_quits_in_every_mode() {
    let mut view = view();
    type_in(&mut view, "/");
    view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(view.is_over);
}

#[test]
fn the_choice_stays_with_its_lock() {
    let mut view = view();
    press(&mut view, KeyCode::Down);
    let locks = [lock("mail", "a", 99_000, 0), lock("orders", "b", 98_000, 0)];
    view.apply(Update::Snapshot(snapshot(&locks)));
    assert_eq!(
        press(&mut view, KeyCode::Enter),
        Some(Order::Look(lock_id("mail")))
    );
    press(&mut view, KeyCode::Esc);
    press(&mut view, KeyCode::End);
    press(&mut view, KeyCode::Up);
    assert_eq!(
        press(&mut view, KeyCode::Enter),
        Some(Order::Look(lock_id("mail")))
    );
}

#[test]
fn a_lock_is_freed_only_after_a_yes() {
    let mut view = view();
    for no in [
        KeyCode::Char('n'),
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Char('Y'),
    ] {
        type_in(&mut view, "u");
        let picture = screen(&view, 80, 24);
        assert!(
            picture.contains("Delete orders on here:1, held by billing:web-2:8:b"),
            "{picture}"
        );
        assert_eq!(press(&mut view, no), None);
        assert_eq!(view.mode, Mode::Tables);
    }
    type_in(&mut view, "u");
    // The order is about the grant in the question, not about the current one.
    view.apply(Update::Snapshot(snapshot(&[lock("orders", "other", 1, 0)])));
    let order = Order::Unlock {
        lock_id: lock_id("orders"),
        token: 91_000,
    };
    assert_eq!(type_in(&mut view, "y"), Some(order));
}

#[test]
fn a_question_about_long_names_still_shows_the_answers() {
    let mut view = view();
    let (key, owner) = ("k".repeat(5000), "o".repeat(256));
    view.apply(Update::Snapshot(snapshot(&[lock(&key, &owner, 1, 0)])));
    type_in(&mut view, "u");
    assert!(screen(&view, 80, 24).contains("y: yes. Any other key: no."));
}

#[test]
fn a_waiter_is_killed_only_after_a_yes() {
    let mut view = view();
    let order = press(&mut view, KeyCode::Enter);
    assert_eq!(order, Some(Order::Look(lock_id("orders"))));
    let held = lock("orders", "billing:web-2:8:b", 90_000, 2).held;
    let queue = vec![waiter("first", 11), waiter("second", 12)];
    view.apply(Update::Queue(lock_id("orders"), Some(held.clone()), queue));
    press(&mut view, KeyCode::Down);
    // The first one has left: the other stays chosen.
    let queue = vec![waiter("second", 12), waiter("third", 13)];
    view.apply(Update::Queue(lock_id("orders"), Some(held), queue));
    let picture = screen(&view, 80, 24);
    assert!(picture.contains("held by billing:web-2:8:b"), "{picture}");
    type_in(&mut view, "k");
    assert!(screen(&view, 80, 24).contains("connection of client 12, which waits as second"));
    type_in(&mut view, "n");
    assert!(matches!(view.mode, Mode::Queue(_)));
    type_in(&mut view, "k");
    let order = Order::Kill {
        lock_id: lock_id("orders"),
        client_id: 12,
    };
    assert_eq!(type_in(&mut view, "y"), Some(order));
    // The result is shown and the queue refreshed.
    let order = view.apply(Update::Done("client 12 is killed".to_owned()));
    assert_eq!(order, Some(Order::Look(lock_id("orders"))));
    assert!(screen(&view, 80, 24).contains("client 12 is killed"));
}

#[test]
fn a_queue_is_refreshed_with_each_snapshot() {
    let mut view = view();
    press(&mut view, KeyCode::Enter);
    let order = view.apply(Update::Snapshot(snapshot(&[])));
    assert_eq!(order, Some(Order::Look(lock_id("orders"))));
    view.apply(Update::Queue(lock_id("orders"), None, Vec::new()));
    assert!(screen(&view, 80, 24).contains("free"));
    // A late answer is about another lock.
    view.apply(Update::Queue(
        lock_id("mail"),
        None,
        vec![waiter("late", 1)],
    ));
    assert!(!screen(&view, 80, 24).contains("late"));
}

#[test]
fn a_paused_view_does_not_change() {
    let mut view = view();
    type_in(&mut view, " ");
    view.apply(Update::Snapshot(snapshot(&[])));
    assert_eq!(keys(&view, Panel::Held).len(), 3);
    type_in(&mut view, " ");
    view.apply(Update::Snapshot(snapshot(&[])));
    assert_eq!(keys(&view, Panel::Held).len(), 0);
}

#[test]
fn rates_and_gauges_are_shown_at_the_top() {
    let mut view = view();
    let mut later = snapshot(&[]);
    later.at = view.now.at + Duration::from_secs(2);
    later.servers[0].info = lines("redis_version:7.0.15\nlock_held:5\nlock_grants:35");
    view.apply(Update::Snapshot(later));
    let picture = screen(&view, 80, 24);
    assert!(picture.contains("here:1 Redis 7.0.15"), "{picture}");
    assert!(picture.contains("held 5 "), "{picture}");
    assert!(picture.contains("grants/s 12.5"), "{picture}");
    // An unknown value is not zero.
    assert!(picture.contains("hand-offs/s -"), "{picture}");
}

#[test]
fn a_tall_screen_shows_all_tables_and_a_short_one_the_current_one() {
    let mut view = view();
    let tall = screen(&view, 140, 40);
    let titles = Panel::ALL.map(Panel::title);
    assert!(titles.iter().all(|title| tall.contains(title)), "{tall}");
    assert!(tall.contains("token") && tall.contains("lease"), "{tall}");
    press(&mut view, KeyCode::Tab);
    let short = screen(&view, 80, 24);
    assert_eq!(
        titles.map(|title| short.contains(title)),
        [false, true, false, false],
        "{short}"
    );
    press(&mut view, KeyCode::BackTab);
    assert!(!screen(&view, 80, 24).contains("token"));
    type_in(&mut view, "3");
    assert!(screen(&view, 80, 24).contains("1m30s"));
    // Any size can be drawn.
    for (width, height) in [(1, 1), (10, 4), (30, 8)] {
        for key in ["?", "x", "u", "n"] {
            type_in(&mut view, key);
            screen(&view, width, height);
        }
    }
}

#[test]
fn eighty_columns_are_enough_for_the_keys_and_to_find_an_owner() {
    let mut view = View::new();
    let owner = "billing:web-2:30817:6f1c2a9e-8d54-4c1e-9b0a-2f6d7e1c3b58";
    let mut held = lock("lock:orders:42", owner, 90_000, 1);
    held.first = Some(waiter(&owner.replace("web-2", "web-3"), 7));
    view.apply(Update::Snapshot(snapshot(&[held])));
    let picture = screen(&view, 80, 24);
    for part in ["? help", "/ filter", "lock:orders:42", "web-2:30817"] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
    type_in(&mut view, "2");
    let picture = screen(&view, 80, 24);
    assert!(picture.contains("web-3:30817"), "{picture}");
    type_in(&mut view, "u");
    let picture = screen(&view, 80, 24);
    assert!(picture.contains("billing:web-2:30817"), "{picture}");
    // Narrower still, the way to the help is there.
    assert!(screen(&self::view(), 20, 10).contains("? help"));
}

#[test]
fn warnings_are_shown() {
    let mut view = view();
    let mut later = snapshot(&[]);
    later.servers[0].info = lines("maxmemory_policy:allkeys-lru");
    later.servers[0].searched = false;
    later.servers[0].keys = 1234;
    later.servers.push(Server {
        address: "there:2".to_owned(),
        error: Some("connection refused".to_owned()),
        ..Server::default()
    });
    view.apply(Update::Snapshot(later));
    let picture = screen(&view, 80, 24);
    assert!(picture.contains("2 primaries"), "{picture}");
    assert!(
        picture.contains("here:1: maxmemory-policy allkeys-lru can evict"),
        "{picture}"
    );
    assert!(picture.contains("there:2: connection refused"), "{picture}");
    assert!(picture.contains("still searching 1234 keys"), "{picture}");
}
