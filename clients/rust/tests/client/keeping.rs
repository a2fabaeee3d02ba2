//! What is held is kept by the server, on one connection.

use crate::support::{Watch, calls, info, is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Loss};
use std::time::{Duration, Instant};
use testbed::{Expect, Proxy, Server, cmd, eventually};
use tokio::runtime::Handle;

/// The id of the connection that keeps this lock, 0 for none.
fn kept_by(server: &Server, key: &str) -> i64 {
    let holders = cmd!(server.connection(), "LOCK.HOLDERS", key).items();
    let first = holders.into_iter().next();
    first.map_or(0, |holder| holder.fields()["kept-by"].clone().int())
}

fn connections(server: &Server) -> i64 {
    let count = server.info_field("clients", "connected_clients");
    count.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_outlives_its_lease_while_it_is_held() {
    let server = Server::start();
    let lock = locks(&server).lock("k").lease(ms(1000));
    let guard = lock.acquire().await.expect("a lock");
    tokio::time::sleep(ms(2600)).await;
    guard.check().await.expect("it is held");
    let token = i64::try_from(guard.token()).expect("a token");
    assert_eq!(info(&server, "k").token, token);
    assert!(guard.remaining() > ms(500), "known by PINGs");
    assert_eq!(calls(&server, "lock.renew"), 0, "the server renews");
    assert!(calls(&server, "ping") >= 3);
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_keeps_all_locks() {
    let server = Server::start();
    let locks = locks(&server);
    let mut guards = vec![locks.lock("0").acquire().await.expect("a lock")];
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let (tasks_for_one, connections_for_one) = (tasks(), connections(&server));
    for number in 1..200 {
        let lock = locks.lock(number.to_string());
        guards.push(lock.acquire().await.expect("a lock"));
    }
    eventually(|| tasks() <= tasks_for_one, "no more tasks than for one");
    assert_eq!(connections(&server), connections_for_one);
    assert_eq!(kept_by(&server, "0"), kept_by(&server, "199"));
    drop(guards);
    let none = || cmd!(server.connection(), "DBSIZE").int() == 0;
    eventually(none, "all to be released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_closes_loses_nothing() {
    let server = Server::start();
    let locks = locks(&server);
    let guards = [
        locks.lock("a").acquire().await.expect("a lock"),
        locks.shared("b").acquire().await.expect("a lock"),
    ];
    let before = kept_by(&server, "a");
    cmd!(server.connection(), "CLIENT", "KILL", "ID", before).int();
    let is_back = |key| ![0, before].contains(&kept_by(&server, key));
    eventually(|| is_back("a") && is_back("b"), "a new keeper");
    for guard in guards {
        guard.check().await.expect("it is held");
        guard.release().await.expect("a release");
    }
}

/// Of two locks on one connection the lost one is told, and the other goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_told_at_once_and_is_of_one_lock() {
    let server = Server::start();
    let locks = locks(&server);
    let lost = locks.lock("lost").acquire().await.expect("a lock");
    let kept = locks.lock("kept").acquire().await.expect("a lock");
    let deleted = Instant::now();
    cmd!(server.connection(), "DEL", "lost").int();
    assert_eq!(lost.lost().await, Loss::NotHeld);
    assert!(
        deleted.elapsed() < Duration::from_secs(20),
        "not by its lease of a minute"
    );
    kept.check().await.expect("it is held");
    assert!(kept.is_held() && !lost.is_held());
    kept.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_type_in_its_place_is_a_loss() {
    let server = Server::start();
    let guard = locks(&server).lock("k").acquire().await.expect("a lock");
    cmd!(server.connection(), "SET", "k", "text").okay();
    assert_eq!(guard.lost().await, Loss::WrongType);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_ends_and_nobody_keeps_it() {
    let server = Server::start();
    let lock = locks(&server).lock("k").lease(ms(500)).fixed();
    let guard = lock.acquire().await.expect("a lock");
    assert_eq!(kept_by(&server, "k"), 0);
    let loss = tokio::time::timeout(ms(5000), guard.lost()).await;
    assert_eq!(loss, Ok(Loss::Expired));
    assert_eq!(calls(&server, "lock.renew"), 0);
    let guard = lock.acquire().await.expect("a lock");
    guard.extend(ms(20_000)).await.expect("a longer one");
    assert!(guard.remaining() > ms(15_000));
    guard.check().await.expect("it is held");
    assert_eq!(info(&server, "k").lease_ms, 20_000);
    cmd!(server.connection(), "DEL", "k").int();
    guard.check().await.expect_err("it is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_so_long_at_most() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").lease(ms(1000)).at_most(ms(2500));
    let start = Watch::on(&server);
    let guard = lock.acquire().await.expect("a lock");
    let waiting = tokio::spawn(async move { locks.lock("k").wait(ms(20_000)).acquire().await });
    assert_eq!(guard.lost().await, Loss::Expired);
    assert!(start.elapsed() >= ms(2400), "{:?}", start.elapsed());
    let next = waiting.await.expect("a task").expect("a lock");
    assert!(start.own() < ms(4500), "{:?}", start.own());
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_is_kept_too() {
    let server = Server::start();
    let guard = locks(&server).lock("k").acquire().await.expect("a lock");
    guard.extend(ms(1000)).await.expect("a lease");
    tokio::time::sleep(ms(1800)).await;
    guard.check().await.expect("it is held");
    assert_eq!(info(&server, "k").lease_ms, 1000);
}

/// A release that the server never hears of, nor of the end of its connection: the lock is not kept for
/// longer than the silence, and the others are.
#[tokio::test(flavor = "multi_thread")]
async fn an_unheard_release_is_not_kept_on() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings().lease(ms(4000)).keep(ms(1000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let other = locks.lock("other").acquire().await.expect("a lock");
    proxy.hold_back("LOCK.RELEASE");
    let start = Watch::on(&server);
    let refused = guard.release().await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(start.own() < ms(3500), "{:?}", start.own());
    eventually(|| is_free(&server, "k"), "the lease to end");
    other.check().await.expect("it is held");
    proxy.let_go();
}

/// A wait is one call without KEEP on a connection of its own; what it gets is kept by the keeper, if it is held
/// for longer than a moment.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_waited_for_is_kept() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let keeper = kept_by(&server, "k");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    holder.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("a lock");
    eventually(|| kept_by(&server, "k") == keeper, "the keeper to have it");
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_keeps_its_locks() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().lease(ms(6000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    server.signal("STOP");
    tokio::time::sleep(ms(2500)).await;
    server.signal("CONT");
    guard.check().await.expect("it is held");
    assert_eq!(calls(&server, "lock.acquire"), 1);
    guard.release().await.expect("a release");
}

/// Without its data nothing is held, and each holder hears it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_and_without_data() {
    let mut server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    cmd!(server.connection(), "SAVE").okay();
    server.restart();
    eventually(
        || !is_free(&server, "k") && kept_by(&server, "k") != 0,
        "a keeper",
    );
    guard.check().await.expect("it is held");
    std::fs::remove_file(server.dir().join("dump.rdb")).expect("data");
    cmd!(server.connection(), "CONFIG", "SET", "save", "").okay();
    server.kill9();
    server.restart();
    assert_eq!(guard.lost().await, Loss::NotHeld);
}

/// Neither a further hold nor another lease puts the end off.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_at_most_stays() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").lease(ms(1000)).at_most(ms(2000));
    let start = Watch::on(&server);
    let guard = lock.acquire().await.expect("a lock");
    let _inner = guard.enter().await.expect("a hold");
    guard.extend(ms(20_000)).await.expect("a lease");
    tokio::time::sleep(ms(1200)).await;
    let _last = guard.enter().await.expect("a hold");
    assert_eq!(guard.lost().await, Loss::Expired);
    let (took, own) = (start.elapsed(), start.own());
    assert!(took >= ms(1900) && own < ms(2800), "{took:?}, {own:?}");
    eventually(|| is_free(&server, "k"), "it to be released");
    assert!(start.own() < ms(4000), "{:?}", start.own());
}

/// Whichever end comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_with_an_end() {
    let server = Server::start();
    for (lease, at_most) in [(1000, 4000), (20_000, 1000)] {
        let lock = locks(&server).lock("k").lease(ms(lease)).fixed();
        let start = Watch::on(&server);
        let guard = lock.at_most(ms(at_most)).acquire().await.expect("a lock");
        assert_eq!(guard.lost().await, Loss::Expired);
        let (took, own) = (start.elapsed(), start.own());
        assert!(took >= ms(900) && own < ms(1700), "{took:?}, {own:?}");
        eventually(|| is_free(&server, "k"), "it to end");
        assert!(start.own() < ms(3000), "{:?}", start.own());
    }
}

/// A loss must be known within the shorter lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_is_looked_after_more_often() {
    let server = Server::start();
    let guard = locks(&server).lock("k").acquire().await.expect("a lock");
    let before = calls(&server, "ping");
    guard.extend(ms(1000)).await.expect("a lease");
    tokio::time::sleep(ms(1500)).await;
    let pings = calls(&server, "ping") - before;
    assert!((3..=6).contains(&pings), "{pings}");
}

/// The connection that keeps it is open still, and would keep it for nobody.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_released_is_not_kept() {
    let server = Server::start();
    let mut c = server.connection();
    let locks = locks(&server);
    for is_refused in [false, true] {
        let guard = locks.lock("k").acquire().await.expect("a lock");
        let other = locks.lock("other").acquire().await.expect("a lock");
        if is_refused {
            cmd!(c, "ACL", "SETUSER", "default", "-lock.release").okay();
        } else {
            cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 1).okay();
        }
        let refused = guard.release().await;
        assert!(refused.is_err(), "{refused:?}");
        cmd!(c, "ACL", "SETUSER", "default", "+lock.release").okay();
        cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 0).okay();
        let kept = || server.info_field("lock", "lock_kept") == "1";
        eventually(kept, "the other one alone to be kept");
        other.check().await.expect("it is held");
        other.release().await.expect("a release");
        cmd!(c, "DEL", "k").int();
    }
}

/// Nor what was given up.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_called_off_is_not_kept() {
    let server = Server::start();
    let mut c = server.connection();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let other = locks.lock("other").acquire().await.expect("a lock");
    for lock in [locks.lock("k"), locks.lock("k").owner("me")] {
        proxy.inject(testbed::Fault::Delay(500), "LOCK.ACQUIRE", 1);
        let acquiring = tokio::spawn(async move { lock.acquire().await.map(drop) });
        eventually(|| !is_free(&server, "k"), "the grant");
        cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 1).okay();
        let refused = || {
            server
                .info("errorstats")
                .get("errorstat_NOREPLICAS")
                .cloned()
        };
        let before = refused();
        acquiring.abort();
        eventually(|| refused() != before, "its undo");
        // For longer than that is tried.
        tokio::time::sleep(ms(2500)).await;
        cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 0).okay();
        let kept = || server.info_field("lock", "lock_kept") == "1";
        eventually(kept, "the other one alone to be kept");
        other.check().await.expect("it is held");
        cmd!(c, "DEL", "k").int();
    }
}

/// The keeper ends while other leases are asked for: all are kept again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_changes_while_the_keeper_ends() {
    let server = Server::start();
    let locks = locks(&server);
    let mut guards = Vec::new();
    for number in 0..300 {
        let guard = locks.lock(format!("k:{number}")).acquire().await;
        guards.push(std::sync::Arc::new(guard.expect("a lock")));
    }
    for round in 0..200 {
        let mut changing = tokio::task::JoinSet::new();
        for guard in &guards {
            let guard = std::sync::Arc::clone(guard);
            changing.spawn(async move { guard.extend(ms(60_000)).await });
        }
        tokio::time::sleep(Duration::from_micros(100 * (round % 50))).await;
        crate::support::end_connections(&server);
        for changed in changing.join_all().await {
            changed.expect("another lease");
        }
        let kept = || server.info_field("lock", "lock_kept") == "300";
        eventually(kept, "all to be kept again");
    }
}
