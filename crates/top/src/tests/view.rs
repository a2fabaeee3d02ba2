//! Keys, updates and drawing.

use super::Screen;
use super::hand_made::{HERE, lock, lock_id, screen, snapshot, waiter};
use crate::order::{Action, Order, Update};
use crate::snapshot::{Found, Server, Snapshot};
use crate::table::Panel;
use crate::view::Mode;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redis_lock_tool::{Waiter, lines};
use std::time::Duration;

fn queue(key: &str, waiters: Vec<Waiter>) -> Update {
    let held = lock(key, "billing:web-2:8:b", 90_000, 2).held;
    Update::Found(lock_id(key), Found::Queue(Some(held), waiters))
}

#[test]
fn each_table_is_sorted_as_its_title_says_until_s_and_r() {
    let mut screen = screen();
    assert_eq!(screen.keys(Panel::Queues), ["mail", "orders"]);
    assert_eq!(screen.keys(Panel::Hot), ["stock"]);
    for (keys, sorted) in [
        ("", ["orders", "mail", "stock"]),
        ("r", ["stock", "mail", "orders"]),
        // left, lease, holds, waiters
        ("ssss", ["mail", "orders", "stock"]),
        // token, server, and the first column again: names from A
        ("sss", ["mail", "orders", "stock"]),
        ("r", ["stock", "orders", "mail"]),
    ] {
        screen.type_in(keys);
        assert_eq!(screen.keys(Panel::Held), sorted, "{keys}");
    }
    // The other tables have their own order.
    assert_eq!(screen.keys(Panel::Queues), ["mail", "orders"]);
    // A lock without a deadline has the most time left.
    let mut for_ever = lock("for-ever", "a", 1, 0);
    for_ever.held.ttl_ms = -1;
    let mut screen = Screen::of(snapshot(&[for_ever, lock("short", "b", 2, 0)]));
    screen.type_in("s");
    assert_eq!(screen.keys(Panel::Held), ["for-ever", "short"]);
}

#[test]
fn the_filter_matches_keys_and_owners() {
    let mut screen = screen();
    screen.type_in("/WEB-2");
    assert_eq!(screen.keys(Panel::Held), ["orders"]);
    screen.press(KeyCode::Enter);
    assert_eq!(screen.view.mode, Mode::Tables);
    screen.shows(["1 Locks held longest: 1, with \"WEB-2\" in a name"]);
    // A q that is typed into the filter does not quit.
    screen.type_in("/q");
    assert!(!screen.view.is_over);
    screen.press(KeyCode::Esc);
    assert_eq!(screen.keys(Panel::Held).len(), 3);
    screen.type_in("q");
    assert!(screen.view.is_over);
}

#[test]
fn control_c_quits_in_every_mode() {
    let mut screen = screen();
    screen.type_in("/");
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    screen.view.press(control_c);
    assert!(screen.view.is_over);
}

#[test]
fn the_choice_stays_with_its_lock() {
    let mut screen = screen();
    let look = Some(Order::look(&lock_id("mail")));
    screen.press(KeyCode::Down);
    let locks = [lock("mail", "a", 99_000, 0), lock("orders", "b", 98_000, 0)];
    screen.apply(Update::Snapshot(snapshot(&locks)));
    screen.press(KeyCode::Enter);
    assert_eq!(screen.order, look);
    for code in [KeyCode::Esc, KeyCode::End, KeyCode::Up, KeyCode::Enter] {
        screen.press(code);
    }
    assert_eq!(screen.order, look);
}

#[test]
fn a_lock_is_freed_only_after_a_yes() {
    let mut screen = screen();
    let noes = [
        KeyCode::Char('n'),
        KeyCode::Char('Y'),
        KeyCode::Enter,
        KeyCode::Esc,
    ];
    for no in noes {
        screen.type_in("u");
        screen.shows(["Delete orders on here:1, held by billing:web-2:8:b"]);
        screen.press(no);
        assert_eq!((&screen.order, &screen.view.mode), (&None, &Mode::Tables));
    }
    screen.type_in("u");
    // The order is about the grant in the question, not about the current one.
    screen.apply(Update::Snapshot(snapshot(&[lock("orders", "other", 1, 0)])));
    screen.type_in("y");
    let unlock = Action::Unlock(b"orders".to_vec(), 91_000);
    assert_eq!(screen.action(), Some(&unlock));
}

#[test]
fn a_waiter_is_killed_only_after_a_yes() {
    let mut screen = screen();
    let look = Some(Order::look(&lock_id("orders")));
    screen.press(KeyCode::Enter);
    assert_eq!(screen.order, look);
    screen.apply(queue(
        "orders",
        vec![waiter("first", 11), waiter("second", 12)],
    ));
    screen.press(KeyCode::Down);
    // The first one has left: the other stays chosen.
    screen.apply(queue(
        "orders",
        vec![waiter("second", 12), waiter("third", 13)],
    ));
    screen.shows(["held by billing:web-2:8:b"]);
    screen.type_in("k");
    screen.shows(["connection of client 12, which waits as second"]);
    screen.type_in("n");
    assert!(matches!(screen.view.mode, Mode::Details(_)));
    screen.type_in("ky");
    let kill = Action::Kill(b"orders".to_vec(), 12);
    assert_eq!(screen.action(), Some(&kill));
    // The result is shown and the queue refreshed.
    screen.apply(Update::Done("client 12 is killed".to_owned()));
    assert_eq!(screen.order, look);
    screen.shows(["client 12 is killed"]);
}

#[test]
fn a_queue_is_refreshed_with_each_snapshot() {
    let mut screen = screen();
    screen.press(KeyCode::Enter);
    screen.apply(Update::Snapshot(snapshot(&[])));
    assert_eq!(screen.order, Some(Order::look(&lock_id("orders"))));
    let free = Found::Queue(None, Vec::new());
    screen.apply(Update::Found(lock_id("orders"), free));
    screen.shows(["free"]);
    // A late answer is about another lock.
    screen.apply(queue("mail", vec![waiter("late", 1)]));
    screen.hides("late");
}

#[test]
fn a_paused_view_does_not_change() {
    let mut screen = screen();
    for left in [3, 0] {
        screen.type_in(" ");
        screen.apply(Update::Snapshot(snapshot(&[])));
        assert_eq!(screen.keys(Panel::Held).len(), left);
    }
}

#[test]
fn rates_and_gauges_are_shown_at_the_top() {
    let with = |servers: &[(&str, &str)]| {
        let server = |(address, info): &(&str, &str)| Server {
            address: (*address).to_owned(),
            info: lines(info),
            ..Server::default()
        };
        Snapshot::of(servers.iter().map(server).collect())
    };
    let mut screen = Screen::of(with(&[("a", "lock_grants:100"), ("b", "lock_grants:50")]));
    // 10 on a; 5 on b, which was restarted; c is new, so its increase is unknown.
    let mut later = with(&[
        (
            "a",
            "redis_version:7.0.15\nlock_held:2\nlock_longest_queue:3\nlock_grants:110",
        ),
        ("b", "lock_held:3\nlock_longest_queue:4\nlock_grants:5"),
        ("c", "lock_grants:1000"),
    ]);
    later.at = screen.view.now.at + Duration::from_secs(2);
    screen.apply(Update::Snapshot(later));
    screen.shows([
        "3 primaries, Redis 7.0.15",
        "held 5 ",
        "longest queue 4 ",
        "grants/s 7.5",
    ]);
    // An unknown value is not zero.
    screen.shows(["hand-offs/s -"]);
}

#[test]
fn a_tall_screen_shows_all_tables_and_a_short_one_the_current_one() {
    let mut screen = screen();
    screen.size = (140, 40);
    let titles = Panel::ALL.map(Panel::title);
    screen.shows(titles);
    screen.shows(["token", "lease"]);
    screen.press(KeyCode::Tab);
    screen.size = (80, 24);
    let short = screen.picture();
    let shown = titles.map(|title| short.contains(title));
    assert_eq!(shown, [false, true, false, false], "{short}");
    screen.press(KeyCode::BackTab);
    screen.hides("token");
    screen.type_in("3");
    screen.shows(["1m30s"]);
    // A question about long names still shows the answers.
    let (key, owner) = ("k".repeat(5000), "o".repeat(256));
    let mut screen = Screen::of(snapshot(&[lock(&key, &owner, 1, 0)]));
    screen.type_in("u");
    screen.shows(["y: yes. Any other key: no."]);
    // Any size can be drawn.
    for size in [(1, 1), (10, 4), (30, 8)] {
        screen.size = size;
        for key in ["?", "x", "u", "n"] {
            screen.type_in(key);
            screen.picture();
        }
    }
}

#[test]
fn eighty_columns_are_enough_for_the_keys_and_to_find_an_owner() {
    let owner = "billing:web-2:30817:6f1c2a9e-8d54-4c1e-9b0a-2f6d7e1c3b58";
    let mut held = lock("lock:orders:42", owner, 90_000, 1);
    held.first = Some(waiter(&owner.replace("web-2", "web-3"), 7));
    let mut screen = Screen::of(snapshot(&[held]));
    screen.shows(["? help", "/ filter", "lock:orders:42", "web-2:30817"]);
    screen.type_in("2");
    screen.shows(["web-3:30817"]);
    screen.type_in("u");
    screen.shows(["billing:web-2:30817"]);
    // Narrower still, the way to the help is there.
    screen.type_in("n");
    screen.size = (20, 10);
    screen.shows(["? help"]);
}

#[test]
fn warnings_are_shown() {
    let mut later = snapshot(&[]);
    later.servers[0].info = lines("maxmemory_policy:allkeys-lru");
    later.servers[0].searched = false;
    later.servers[0].keys = 1234;
    later.servers.push(Server {
        address: "there:2".to_owned(),
        error: Some("connection refused".to_owned()),
        ..Server::default()
    });
    let screen = Screen::of(later);
    screen.shows([
        "2 primaries",
        &format!("{HERE}: maxmemory-policy allkeys-lru can evict"),
        "there:2: connection refused",
        "still searching 1234 keys",
    ]);
}
