//! The view with real servers.

use super::Screen;
use crate::locks;
use crate::source::Source;
use crate::table::Panel;
use crate::view::Mode;
use crate::{By, Listing};
use ratatui::crossterm::event::KeyCode;
use redis::{ConnectionInfo, IntoConnectionInfo};
use redis_lock_tool::Target;
use testbed::{Builder, Cluster, Expect, Server, Talk, cluster, cmd, eventually, post, run, users};

fn source(server: &Server) -> Source {
    Source::new(Target::new(settings(server)))
}

fn screen(server: &Server) -> Screen {
    Screen::live(source(server))
}

fn settings(server: &Server) -> ConnectionInfo {
    let info = ("127.0.0.1", server.port()).into_connection_info();
    info.expect("an address")
}

/// A source with the user of this name in the manual.
pub(super) fn source_as(server: &Server, name: &str) -> Source {
    for rule in users::rules(name) {
        run(&mut server.connection(), rule).okay();
    }
    let settings = settings(server);
    let user = settings.redis_settings().clone();
    let user = user.set_username(name).set_password("secret");
    Source::new(Target::new(settings.set_redis_settings(user)))
}

fn waiting(c: &mut impl Talk, key: &str, count: i64) {
    let mut waiters = || cmd!(*c, "LOCK.INFO", key).lock_info().waiters;
    eventually(|| waiters() == count, "the calls to wait");
}

#[test]
fn one_server_is_shown_from_the_tables_to_a_freed_lock() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "SET", "no-lock", 1).okay();
    cmd!(c, "LOCK.ACQUIRE", "old", "billing:host-1:7:a", "EX", 60).grant();
    let mut held_ms = || cmd!(c, "LOCK.INFO", "old").lock_info().held_ms;
    eventually(|| held_ms() > 1, "one lock to be older than the other");
    cmd!(c, "LOCK.ACQUIRE", "busy", "shop:host-2:8:b", "EX", 60).grant();
    let mut waiters = [(); 3].map(|()| server.connection());
    for (waiter, number) in waiters.iter_mut().zip(0..) {
        let owner = format!("shop:host-3:9:w{number}");
        post!(*waiter, "LOCK.ACQUIRE", "busy", owner, "EX", 60, "BLOCK", 0);
        waiting(&mut c, "busy", number + 1);
    }

    let mut screen = screen(&server);
    assert_eq!(screen.keys(Panel::Held), ["old", "busy"]);
    assert_eq!(screen.keys(Panel::Queues), ["busy"]);
    screen.shows([
        "billing:host-1:7:a",
        "shop:host-2:8:b",
        "shop:host-3:9:w0",
        "held 2 ",
    ]);

    // The second in line is killed: first no, then yes.
    screen.type_in("2");
    screen.press(KeyCode::Enter);
    screen.press(KeyCode::Down);
    screen.type_in("kn");
    waiting(&mut c, "busy", 3);
    screen.type_in("ky");
    waiting(&mut c, "busy", 2);
    screen.shows(["is killed"]);

    // The lock is freed and granted to the first waiter.
    screen.type_in("un");
    let owner = cmd!(c, "LOCK.INFO", "busy").lock_info().owner;
    assert_eq!(owner, b"shop:host-2:8:b");
    screen.type_in("uy");
    assert_eq!(waiters[0].receive().grant().owner, b"shop:host-3:9:w0");
    screen.shows(["the lock was freed"]);
    assert!(matches!(screen.view.mode, Mode::Details(_)));

    let grants_before = screen.view.now.sum("lock_grants");
    screen.refresh();
    assert_eq!(screen.keys(Panel::Hot), ["busy"]);
    let grants = screen.view.now.sum("lock_grants");
    assert_eq!(grants, grants_before.map(|n| n + 1));
    let rate = screen.view.rate("lock_hand_offs");
    assert!(rate.is_some_and(|rate| rate > 0.0));
}

#[test]
fn a_late_order_does_nothing() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k", "a", "EX", 60).grant();
    let mut waiter = server.connection();
    post!(waiter, "LOCK.ACQUIRE", "k", "b", "EX", 60, "BLOCK", 0);
    waiting(&mut c, "k", 1);
    let mut screen = screen(&server);
    screen.press(KeyCode::Enter);
    screen.type_in("k");
    cmd!(c, "LOCK.RELEASE", "k", "a").int();
    let next = waiter.receive().grant();
    screen.type_in("y");
    screen.shows(["no longer waits: nothing was done"]);
    assert_eq!(cmd!(waiter, "PING").text(), "PONG");
    // The next grant is not freed in place of an ended one either.
    screen.press(KeyCode::Esc);
    screen.type_in("uy");
    screen.shows(["that grant has ended: nothing was done"]);
    assert_eq!(cmd!(c, "LOCK.INFO", "k").lock_info().token, next.token);
}

#[test]
fn a_watcher_can_read_and_an_administrator_can_unlock() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "lock:k", "a", "EX", 60).grant();
    for (name, left) in [("watcher", 1), ("administrator", 0)] {
        let mut screen = Screen::live(source_as(&server, name));
        assert_eq!(screen.keys(Panel::Held), ["lock:k"]);
        assert_eq!(cmd!(c, "ACL", "LOG").items(), [], "{name}");
        screen.type_in("uy");
        let picture = screen.picture();
        assert_eq!(picture.contains("NOPERM"), left == 1, "{picture}");
        assert_eq!(cmd!(c, "EXISTS", "lock:k").int(), left);
        cmd!(c, "ACL", "LOG", "RESET").okay();
    }
}

#[test]
fn a_server_that_stops_and_restarts_is_shown_again() {
    let mut server = Server::start();
    let mut source = source(&server);
    assert_eq!(source.read().servers[0].error, None);
    server.stop();
    let down = source.read().servers.remove(0);
    assert!(down.error.is_some() && down.locks.is_empty());
    server.restart();
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "a", "EX", 60).grant();
    let seen = || source.read().servers[0].locks.len() == 1;
    eventually(seen, "the lock to be seen");
    server.reconfigure(Builder::without_module).restart();
    let error = source.read().servers.remove(0).error.unwrap_or_default();
    assert!(!error.is_empty());
}

#[test]
fn more_keys_than_a_snapshot_scans_are_found_by_the_next_ones() {
    let server = Server::start();
    let mut c = server.connection();
    let fill = "for i = 1, 30000 do redis.call('SET', 'k' .. i, i) end";
    cmd!(c, "EVAL", fill, 0).nil();
    for number in 0..20 {
        cmd!(c, "LOCK.ACQUIRE", format!("lock:{number}"), "a", "EX", 60).grant();
    }
    let mut source = source(&server);
    let mut searched = || {
        let server = source.read().servers.remove(0);
        (server.searched, server.locks.len())
    };
    let (whole, found) = searched();
    assert!(!whole && found < 20);
    eventually(|| searched() == (true, 20), "all locks to be found");
}

#[test]
fn all_primaries_of_a_cluster_are_shown() {
    let cluster = Cluster::start(3, 0);
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        let node = cluster.serves(cluster::slot(key));
        let mut c = cluster.node(node).connection();
        cmd!(c, "LOCK.ACQUIRE", key, "owner", "EX", 60).grant();
    }
    let mut screen = screen(cluster.node(0));
    let servers = &screen.view.now.servers;
    assert_eq!(servers.len(), 3);
    let mut holding = servers.iter().filter(|server| !server.locks.is_empty());
    assert!(holding.any(|server| server.address == cluster.address(2)));
    assert_eq!(screen.keys(Panel::Held).len(), keys.len());
    screen.shows(["3 primaries"]);
    // A lock is freed on its own node.
    screen.type_in("/f");
    screen.press(KeyCode::Enter);
    screen.type_in("uy");
    screen.shows(["the lock was freed"]);
    let left = screen.read().servers.into_iter();
    assert_eq!(left.map(|server| server.locks.len()).sum::<usize>(), 5);
    let listing = Listing {
        by: By::Owner,
        json: false,
    };
    let (text, complete) = locks::list(screen.source.as_mut().expect("servers"), &listing);
    assert!(complete && text.contains("held: 5"), "{text}");
}
