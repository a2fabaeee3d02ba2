//! Keys, updates and drawing.

use super::Screen;
use super::hand_made::{lock, lock_id, screen, snapshot, waiter};
use crate::order::{Action, Order, Update};
use crate::snapshot::{Found, Server, Snapshot};
use crate::table::Panel;
use crate::view::Mode;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redis_lock_tool::lines;
use std::time::Duration;

#[test]
fn a_table_is_sorted_as_its_title_says() {
    let screen = screen();
    assert_eq!(screen.keys(Panel::Held), ["orders", "mail", "stock"]);
    assert_eq!(screen.keys(Panel::Queues), ["mail", "orders"]);
}

#[test]
fn the_filter_matches_keys_and_owners() {
    let mut screen = screen();
    screen.type_in("/WEB-2");
    assert_eq!(screen.keys(Panel::Held), ["orders"]);
    // Typing a q into the filter does not quit, but Ctrl-C does.
    screen.type_in("q");
    assert!(!screen.view.is_over);
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
fn a_queue_is_refreshed_with_each_snapshot() {
    let mut screen = screen();
    screen.press(KeyCode::Enter);
    screen.apply(Update::Snapshot(snapshot(&[])));
    assert_eq!(screen.order, Some(Order::look(&lock_id("orders"))));
    let free = Found::Queue(None, Vec::new());
    screen.apply(Update::Found(lock_id("orders"), free));
    screen.shows(["free"]);
    // A late answer about another lock is ignored.
    let late = Found::Queue(None, vec![waiter("late", 1)]);
    screen.apply(Update::Found(lock_id("mail"), late));
    assert!(!screen.picture().contains("late"));
}

#[test]
fn rates_and_gauges_are_those_of_all_servers() {
    let with = |servers: &[(&str, &str)]| {
        let server = |(address, info): &(&str, &str)| Server {
            address: (*address).to_owned(),
            info: lines(info),
            ..Server::default()
        };
        Snapshot::of(servers.iter().map(server).collect())
    };
    let mut screen = Screen::of(with(&[("a", "lock_grants:100"), ("b", "lock_grants:50")]));
    // 10 on a, and 5 on b, which was restarted. The increase of c is unknown, because c is new.
    let mut later = with(&[
        ("a", "lock_held:2\nlock_longest_queue:3\nlock_grants:110"),
        ("b", "lock_held:3\nlock_longest_queue:4\nlock_grants:5"),
        ("c", "lock_grants:1000"),
    ]);
    later.at = screen.view.now.at + Duration::from_secs(2);
    screen.apply(Update::Snapshot(later));
    // An unknown value is not zero.
    let shown = [
        "held 5 ",
        "longest queue 4 ",
        "grants/s 7.5",
        "hand-offs/s -",
    ];
    screen.shows(shown);
}

#[test]
fn a_question_about_long_names_shows_its_answers_and_any_screen_size_can_be_drawn() {
    let (key, owner) = ("k".repeat(5000), "o".repeat(256));
    let mut screen = Screen::of(snapshot(&[lock(&key, &owner, 1, 0)]));
    screen.type_in("u");
    screen.shows(["y: yes. Any other key: no."]);
    for size in [(1, 1), (10, 4), (30, 8), (200, 60)] {
        screen.size = size;
        for key in ["?", "x", "u", "n"] {
            screen.type_in(key);
            screen.picture();
        }
    }
}

#[test]
fn warnings_are_shown() {
    let mut later = snapshot(&[]);
    later.servers[0].info = lines("maxmemory_policy:allkeys-lru");
    later.servers[0].searched = false;
    later.servers[0].keys = 1234;
    Screen::of(later).shows([
        "here:1: maxmemory-policy allkeys-lru can evict",
        "still searching 1234 keys",
    ]);
}
