//! Tests of the view with real servers.

use crate::arguments::{Arguments, By, Listing};
use crate::locks;
use crate::source::{Source, Update};
use crate::table::Panel;
use crate::view::{Mode, View};
use crate::view_tests::{self, keys};
use clap::Parser;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use redis::{ConnectionInfo, IntoConnectionInfo};
use redis_lock_tool::Target;
use testbed::{Cluster, Expect, Server, Talk, cmd, eventually, post, run, tls};

fn source(server: &Server) -> Source {
    Source::new(Target::new(settings(server)))
}

fn settings(server: &Server) -> ConnectionInfo {
    let info = ("127.0.0.1", server.port()).into_connection_info();
    info.expect("an address")
}

/// Presses a key and carries out its orders, as the program does.
pub(crate) fn press(view: &mut View, source: &mut Source, code: KeyCode) {
    let mut order = view.press(KeyEvent::new(code, KeyModifiers::NONE));
    while let Some(next) = order {
        order = view.apply(source.follow(&next));
    }
}

pub(crate) fn type_in(view: &mut View, source: &mut Source, text: &str) {
    for letter in text.chars() {
        press(view, source, KeyCode::Char(letter));
    }
}

pub(crate) fn screen(view: &View) -> String {
    view_tests::screen(view, 140, 40)
}

fn waiting(c: &mut impl Talk, key: &str, count: i64) {
    let mut waiters = || cmd!(*c, "LOCK.INFO", key).lock_info().waiters;
    eventually(|| waiters() == count, "the calls to wait");
}

#[test]
fn one_server_from_the_tables_to_a_freed_lock() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "SET", "no-lock", 1).okay();
    cmd!(c, "LOCK.ACQUIRE", "old", "billing:host-1:7:a", "EX", 60).grant();
    let mut held_ms = || cmd!(c, "LOCK.INFO", "old").lock_info().held_ms;
    eventually(|| held_ms() > 1, "one lock to be older than the other");
    cmd!(c, "LOCK.ACQUIRE", "busy", "shop:host-2:8:b", "EX", 60).grant();
    let mut waiters: Vec<_> = (0..3).map(|_| server.connection()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let owner = format!("shop:host-3:9:w{number}");
        post!(*waiter, "LOCK.ACQUIRE", "busy", owner, "EX", 60, "BLOCK", 0);
        let number = i64::try_from(number).expect("a small number");
        waiting(&mut c, "busy", number + 1);
    }

    let mut source = source(&server);
    let mut view = View::new();
    view.apply(Update::Snapshot(source.read()));
    assert_eq!(keys(&view, Panel::Held), ["old", "busy"]);
    assert_eq!(keys(&view, Panel::Queues), ["busy"]);
    let picture = screen(&view);
    for part in [
        "billing:host-1:7:a",
        "shop:host-2:8:b",
        "shop:host-3:9:w0",
        "held 2 ",
    ] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }

    // The second in line is killed: first no, then yes.
    type_in(&mut view, &mut source, "2");
    press(&mut view, &mut source, KeyCode::Enter);
    press(&mut view, &mut source, KeyCode::Down);
    type_in(&mut view, &mut source, "kn");
    waiting(&mut c, "busy", 3);
    type_in(&mut view, &mut source, "ky");
    waiting(&mut c, "busy", 2);
    let picture = screen(&view);
    assert!(picture.contains("is killed"), "{picture}");

    // The lock is freed and granted to the first waiter.
    type_in(&mut view, &mut source, "un");
    assert_eq!(
        cmd!(c, "LOCK.INFO", "busy").lock_info().owner,
        b"shop:host-2:8:b"
    );
    type_in(&mut view, &mut source, "uy");
    assert_eq!(waiters[0].receive().grant().owner, b"shop:host-3:9:w0");
    assert!(screen(&view).contains("the lock is freed"));
    assert!(matches!(view.mode, Mode::Queue(_)));

    let grants_before = view.now.sum("lock_grants");
    view.apply(Update::Snapshot(source.read()));
    assert_eq!(keys(&view, Panel::Hot), ["busy"]);
    assert_eq!(view.now.sum("lock_grants"), grants_before.map(|n| n + 1));
    assert!(view.rate("lock_hand_offs").is_some_and(|rate| rate > 0.0));
}

#[test]
fn unlocking_an_ended_grant_does_not_free_the_next_one() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k", "a", "EX", 60).grant();
    let mut source = source(&server);
    let mut view = View::new();
    view.apply(Update::Snapshot(source.read()));
    type_in(&mut view, &mut source, "u");
    cmd!(c, "LOCK.RELEASE", "k", "a").int();
    let next = cmd!(c, "LOCK.ACQUIRE", "k", "b", "EX", 60).grant();
    type_in(&mut view, &mut source, "y");
    assert!(screen(&view).contains("that grant is over: nothing done"));
    assert_eq!(cmd!(c, "LOCK.INFO", "k").lock_info().token, next.token);
}

#[test]
fn queued_calls_are_shown_with_the_name_of_their_session() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
    let session = cmd!(c, "LOCK.SESSION", "OPEN", "NAME", "checkout").int();
    for owner in ["a", "b"] {
        let line = format!("LOCK.ACQUIRE k {owner} HOLDS 1 SESSION {session} QUEUE 0");
        run(&mut c, &line).int();
    }
    let mut source = source(&server);
    let mut view = View::new();
    view.apply(Update::Snapshot(source.read()));
    press(&mut view, &mut source, KeyCode::Enter);
    let picture = screen(&view);
    for part in ["queued 2 ", "waiting 0 ", "checkout", "2 wait"] {
        assert!(picture.contains(part), "{part}:\n{picture}");
    }
    type_in(&mut view, &mut source, "k");
    assert!(screen(&view).contains("LOCK.RELEASE … a ALL cancels it"));
    waiting(&mut c, "k", 2);
}

#[test]
fn a_client_that_does_not_wait_any_more_is_not_killed() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k", "a", "EX", 60).grant();
    let mut waiter = server.connection();
    post!(waiter, "LOCK.ACQUIRE", "k", "b", "EX", 60, "BLOCK", 0);
    waiting(&mut c, "k", 1);
    let mut source = source(&server);
    let mut view = View::new();
    view.apply(Update::Snapshot(source.read()));
    press(&mut view, &mut source, KeyCode::Enter);
    type_in(&mut view, &mut source, "k");
    cmd!(c, "LOCK.RELEASE", "k", "a").int();
    waiter.receive().grant();
    type_in(&mut view, &mut source, "y");
    assert!(screen(&view).contains("does not wait any more: nothing done"));
    assert_eq!(cmd!(waiter, "PING").text(), "PONG");
}

/// A source with the user of this name in the manual.
pub(crate) fn source_as(server: &Server, name: &str) -> Source {
    let manual = include_str!("../../../docs/operations/users.md");
    let start = format!("ACL SETUSER {name} ");
    let rule = manual.lines().find(|line| line.starts_with(&start));
    run(&mut server.connection(), rule.expect("a rule")).okay();
    let settings = settings(server);
    let user = settings.redis_settings().clone();
    let user = user.set_username(name).set_password("secret");
    Source::new(Target::new(settings.set_redis_settings(user)))
}

#[test]
fn a_watcher_can_read_and_an_administrator_can_unlock() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "lock:k", "a", "EX", 60).grant();
    for (name, left) in [("watcher", 1), ("administrator", 0)] {
        let mut source = source_as(&server, name);
        let mut view = View::new();
        view.apply(Update::Snapshot(source.read()));
        assert_eq!(keys(&view, Panel::Held), ["lock:k"]);
        assert_eq!(cmd!(c, "ACL", "LOG").items(), [], "{name}");
        type_in(&mut view, &mut source, "uy");
        let picture = screen(&view);
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
    let down = source.read();
    assert!(down.servers[0].error.is_some() && down.locks.is_empty());
    server.restart();
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "a", "EX", 60).grant();
    eventually(|| source.read().locks.len() == 1, "the lock to be seen");
}

#[test]
fn a_server_without_the_module_is_an_error() {
    let server = Server::builder().without_module().start();
    let snapshot = source(&server).read();
    let error = snapshot.servers[0].error.clone().unwrap_or_default();
    assert!(!error.is_empty());
}

#[test]
fn a_cluster_that_speaks_tls_is_shown() {
    let keeper = Server::start();
    if !tls::certificates(keeper.dir()) {
        println!("left out: no openssl");
        return;
    }
    let port = testbed::server::Port::free();
    let server = tls::settings(Server::builder(), port.number(), keeper.dir())
        .config("cluster-enabled", "yes")
        .config("tls-cluster", "yes")
        .try_start();
    let Ok(server) = server else {
        println!("left out: a server without TLS");
        return;
    };
    let mut c = server.connection();
    run(&mut c, "CLUSTER ADDSLOTSRANGE 0 16383").okay();
    eventually(
        || {
            let state = cmd!(c, "CLUSTER", "INFO").text();
            state.contains("cluster_state:ok")
        },
        "the cluster",
    );
    cmd!(c, "LOCK.ACQUIRE", "k", "a", "EX", 60).grant();
    // In the program itself it is main that does so.
    redis_lock_tool::prepare_tls();
    let shown = |more: &[&str], url: &str| {
        let words = ["redis-lock-top", "--url", url].into_iter();
        let arguments = Arguments::parse_from(words.chain(more.iter().copied()));
        let snapshot = Source::new(arguments.server.target().expect("settings")).read();
        (snapshot.locks.len(), snapshot.servers[0].error.clone())
    };
    let authority = keeper.dir().join("ca.crt").display().to_string();
    let url = format!("rediss://localhost:{}", port.number());
    assert_eq!(shown(&["--cacert", &authority], &url), (1, None));
    assert_eq!(shown(&[], &format!("{url}/#insecure")), (1, None));
    // A certificate that nobody vouches for.
    let (locks, error) = shown(&[], &url);
    assert!(locks == 0 && error.is_some());
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
    let first = source.read();
    assert!(!first.servers[0].searched && first.locks.len() < 20);
    eventually(
        || {
            let snapshot = source.read();
            snapshot.servers[0].searched && snapshot.locks.len() == 20
        },
        "all locks to be found",
    );
}

#[test]
fn all_primaries_of_a_cluster_are_shown() {
    let cluster = Cluster::start(3, 0);
    let mut held = 0;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let node = cluster.serves(testbed::cluster::slot(key));
        let mut c = cluster.node(node).connection();
        cmd!(c, "LOCK.ACQUIRE", key, "owner", "EX", 60).grant();
        held += 1;
    }
    let mut source = source(cluster.node(0));
    let mut view = View::new();
    view.apply(Update::Snapshot(source.read()));
    assert_eq!(view.now.servers.len(), 3);
    assert_eq!(keys(&view, Panel::Held).len(), held);
    let picture = screen(&view);
    assert!(picture.contains("3 primaries"), "{picture}");
    // A lock is freed on its own node.
    let lock_ids = view.now.locks.iter().map(|lock| lock.id.clone());
    let lock_ids: Vec<_> = lock_ids.collect();
    type_in(&mut view, &mut source, "/f");
    press(&mut view, &mut source, KeyCode::Enter);
    type_in(&mut view, &mut source, "uy");
    assert!(screen(&view).contains("the lock is freed"));
    let snapshot = source.read();
    assert_eq!(snapshot.locks.len(), held - 1);
    let listing = Listing {
        by: By::Owner,
        json: false,
    };
    let (text, complete) = locks::list(&mut source, &listing);
    assert!(
        complete && text.contains(&format!("held: {}", held - 1)),
        "{text}"
    );
    assert!(
        lock_ids
            .iter()
            .any(|lock_id| lock_id.server == cluster.address(2))
    );
}
