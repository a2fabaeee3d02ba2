//! Waiting for a lock on five servers.

use crate::five::{Five, locks_at};
use crate::support::{LONG, Watch, is_free, ms, settings, waiters};
use redis_lock_client::{Error, Loss};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Instant;
use testbed::{Expect, Proxy, cmd, eventually};

/// Each holder sees itself alone, and a higher token than all before it.
#[tokio::test(flavor = "multi_thread")]
async fn contenders_take_turns() {
    const TURNS: u64 = 5;
    let five = Five::start();
    let (is_held, last) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let contenders = (0..8).map(|_| {
        let lock = five.locks().lock("k");
        let (is_held, last) = (Arc::clone(&is_held), Arc::clone(&last));
        tokio::spawn(async move {
            for _ in 0..TURNS {
                let guard = lock.acquire().await.expect("a lock");
                assert!(!is_held.swap(true, SeqCst), "two holders");
                let before = last.swap(guard.token(), SeqCst);
                assert!(before < guard.token(), "{before} before {}", guard.token());
                tokio::task::yield_now().await;
                assert!(is_held.swap(false, SeqCst));
                guard.release().await.expect("a release");
            }
        })
    });
    let start = Watch::here();
    for contender in contenders.collect::<Vec<_>>() {
        contender.await.expect("a task");
    }
    assert!(start.own() < LONG / 4, "{:?}", start.own());
    eventually(|| five.are_free("k"), "the lock to be free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_stands_in_the_line_of_the_first_server() {
    let five = Five::start();
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    let lock = five.locks().lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&five.servers[0], "k").len() == 1, "a waiter");
    let token = guard.token();
    guard.release().await.expect("a release");
    let next = waiting.await.expect("a task").expect("a lock");
    assert!(next.token() > token);
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_gone_is_waited_for_no_longer_than_its_lease() {
    let five = Five::start();
    let lock = five.locks().lock("k").lease(ms(1500));
    let guard = lock.acquire().await.expect("a lock");
    let end = guard.deadline();
    let _ = guard.detach().await.expect("a token");
    let next = five.locks().lock("k").acquire().await.expect("a lock");
    let now = Instant::now();
    assert!(now >= end, "{:?} early", end - now);
    assert!(now - end < ms(1000), "{:?} late", now - end);
    next.release().await.expect("a release");
}

/// The line is where a lock stands that nobody releases; all other servers are free.
#[tokio::test(flavor = "multi_thread")]
async fn one_server_that_is_not_free_is_not_waited_for() {
    let five = Five::start();
    let first = &five.servers[0];
    cmd!(first.connection(), "LOCK.ACQUIRE", "k", "other", "EX", 60).grant();
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    let lock = five.locks().lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(first, "k").len() == 1, "a waiter");
    guard.release().await.expect("a release");
    let next = tokio::time::timeout(ms(10_000), waiting).await;
    let next = next.expect("soon").expect("a task").expect("a lock");
    next.release().await.expect("a release");
}

/// Its earlier attempts may have left grants behind.
#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_an_owner_of_its_own() {
    let five = Five::start();
    let _guard = five.locks().lock("k").acquire().await.expect("a lock");
    let lock = five.locks().lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let in_line = || waiters(&five.servers[0], "k").pop();
    eventually(|| in_line().is_some(), "a waiter");
    let first = in_line();
    eventually(
        || in_line().is_some_and(|owner| Some(owner) != first),
        "another attempt",
    );
    waiting.abort();
}

/// Its turn has come in the moment in which it is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_nobody_hears_of_is_given_back() {
    let five = Five::start();
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    let proxy = Proxy::start(five.ports()[0]);
    let mut ports = five.ports();
    ports[0] = proxy.port();
    let lock = locks_at(ports, settings()).lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let first = &five.servers[0];
    eventually(|| waiters(first, "k").len() == 1, "a waiter");
    let before = guard.owner().to_owned();
    proxy.fall_silent();
    guard.release().await.expect("a release");
    let has_come = || five.grants("k").iter().any(|(owner, _)| *owner != before);
    eventually(has_come, "the turn to come");
    waiting.abort();
    drop(waiting.await); // with the lock, where a slow machine has let it ask all servers anew
    eventually(|| five.are_free("k"), "it to be given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_ends_with_its_server_is_left() {
    let mut five = Five::start();
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    let lock = five.locks().lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&five.servers[0], "k").len() == 1, "a waiter");
    five.servers[0].kill9();
    eventually(|| waiters(&five.servers[1], "k").len() == 1, "a waiter");
    guard.release().await.expect("a release");
    let next = waiting.await.expect("a task").expect("a lock");
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_leaves_nothing() {
    let five = Five::start();
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    let lock = five.locks().lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let first = &five.servers[0];
    eventually(|| waiters(first, "k").len() == 1, "a waiter");
    waiting.abort();
    eventually(|| waiters(first, "k").is_empty(), "it to be cancelled");
    guard.release().await.expect("a release");
    eventually(|| five.are_free("k"), "the lock to be free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_gives_everything_back() {
    let five = Five::start();
    let (locks, other) = (five.locks(), five.locks());
    let foreign = other.lock("foreign").acquire().await.expect("a lock");
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("foreign");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let first = &five.servers[0];
    eventually(|| waiters(first, "foreign").len() == 1, "a waiter");
    locks.close().await;
    assert!(five.are_free("k"));
    assert!(waiters(first, "foreign").is_empty());
    assert_eq!(guard.lost().await, Loss::Closed);
    assert!(matches!(
        waiting.await.expect("a task"),
        Err(Error::Misuse(_))
    ));
    foreign.check().await.expect("another locks's");
    assert!(!is_free(first, "foreign"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_does_not_hold_a_shutdown_up_for_long() {
    let five = Five::start();
    let locks = five.locks_with(settings().reply_time(ms(300)));
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    five.servers[0].signal("STOP");
    let start = Watch::here();
    locks.close().await;
    let took = start.own();
    five.servers[0].signal("CONT");
    assert!(took < ms(3000), "{took:?}");
    eventually(|| five.are_free("k"), "the lock to be free");
}
