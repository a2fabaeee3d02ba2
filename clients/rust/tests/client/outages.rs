//! Servers that stall, die and come back, and crowds of callers.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Lost, Unavailable};
use std::time::Instant;
use testbed::{Expect, Sentinels, Server, cmd, eventually, within};
use tokio::task::JoinSet;

/// A restart without data ends the grants: they are reported, and a wait gets a new place.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_a_loss() {
    let mut server = Server::start();
    let ours = locks(&server);
    let guard = ours.lock("k").acquire().await.expect("a lock");
    let other = locks(&server)
        .lock("other")
        .acquire()
        .await
        .expect("a lock");
    let next = in_line(&server, &ours.lock("other"), 1);
    server.kill9();
    server.restart();
    guard.lost().await;
    other.lost().await;
    granted(next).await.release().await.expect("a release");
    is(guard.release().await, Lost);
}

/// What a frozen server granted before stands when it goes on in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_of_the_server_loses_nothing() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = in_line(&server, &locks.lock("k"), 1);
    server.signal("STOP");
    let begun = Instant::now();
    let error = is(locks.lock("free").try_acquire().await, Unavailable);
    assert!(begun.elapsed() < ms(2000), "{error}");
    server.signal("CONT");
    guard.release().await.expect("a release");
    granted(next).await.release().await.expect("a release");
    await_free(&server, "free");
}

/// Waits need no connections: a thousand of one process have one for the session and one for the calls.
#[tokio::test(flavor = "multi_thread")]
async fn waits_need_no_connections() {
    let server = Server::start();
    let first = locks(&server).lock("k").acquire().await.expect("a lock");
    let before = cmd!(server.connection(), "CLIENT", "LIST")
        .text()
        .lines()
        .count();
    let ours = locks(&server);
    let mut all = JoinSet::new();
    for _ in 0..1000 {
        let lock = ours.lock("k");
        all.spawn(async move {
            lock.with(async |_| Ok::<_, redis_lock_client::Error>(()))
                .await
        });
    }
    await_waiters(&server, "k", 1000);
    let now = cmd!(server.connection(), "CLIENT", "LIST")
        .text()
        .lines()
        .count();
    assert!(now <= before + 2, "{now} connections after {before}");
    first.release().await.expect("a release");
    while let Some(worked) = all.join_next().await {
        worked.expect("a task").expect("work");
    }
}

/// The first call after an outage returns in time, and nothing is kept of those that failed.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage() {
    let mut server = Server::start();
    let locks = locks(&server);
    take_once(&locks, "k").await;
    server.kill9();
    let mut all = JoinSet::new();
    for number in 0..50 {
        let lock = locks.lock(format!("k{number}")).wait(ms(1));
        all.spawn(async move { lock.acquire().await });
    }
    while let Some(failed) = all.join_next().await {
        let error = is(failed.expect("a task"), Unavailable);
        assert!(
            error.to_string().contains(&server.port().to_string()),
            "{error}"
        );
    }
    server.restart();
    let begun = Instant::now();
    let guard = locks.lock("k").try_acquire().await.expect("a lock");
    assert!(begun.elapsed() < ms(700), "{:?}", begun.elapsed());
    guard.release().await.expect("a release");
}

/// After a failover by a Sentinel, grants move to a session of the new primary, and waits ask there.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinels() {
    let sentinels = Sentinels::start(1, 1);
    let of = || {
        let places = sentinels
            .sentinels()
            .iter()
            .map(|sentinel| ("127.0.0.1", sentinel.port()));
        settings()
            .sentinel(testbed::sentinels::NAME, places, "redis://-/")
            .expect("locks")
    };
    let (ours, other) = (of(), of());
    let guard = ours.lock("k").acquire().await.expect("a lock");
    let primary = sentinels.server(sentinels.primary());
    let next = in_line(primary, &other.lock("k"), 1);
    cmd!(primary.connection(), "WAIT", 1, 0).int();
    sentinels.fail_over();
    guard.check().await.expect("held");
    within(LONG, || guard.is_held(), "certainty");
    guard.release().await.expect("a release");
    let released = granted(next).await.release().await;
    assert!(released.is_ok() || released.is_err_and(|error| error.kind() == Lost)); // by the old primary
}

/// Hundreds of callers on a few locks: each gets one, and none is left behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd() {
    let server = Server::start();
    let locks = locks(&server);
    let mut all = JoinSet::new();
    for number in 0..300 {
        let lock = locks.lock(format!("k{}", number % 10));
        all.spawn(async move {
            let guard = lock.acquire().await?;
            guard.check().await?;
            guard.release().await
        });
    }
    while let Some(worked) = all.join_next().await {
        worked.expect("a task").expect("a lock");
    }
    eventually(
        || (0..10).all(|number| is_free(&server, &format!("k{number}"))),
        "all free",
    );
    let holder = locks.lock("k1").acquire().await.expect("a lock");
    is(locks.lock("k1").try_acquire().await, Busy);
    drop(holder);
}

/// A release that the server cannot carry out is repeated before each POLL, and the POLL waits all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_release_does_not_hurry_the_session() {
    let server = Server::start();
    let settings = settings().lease(ms(1000)).reply_time(ms(500));
    let locks = locks_at(server.port(), settings);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let need = |count| {
        cmd!(
            server.connection(),
            "CONFIG",
            "SET",
            "min-replicas-to-write",
            count
        )
    };
    need(1).ok();
    is(guard.release().await, Unavailable);
    let polled = || calls(&server, "lock.session|poll");
    let (before, begun) = (polled(), Instant::now());
    eventually(|| polled() >= before + 4, "more POLLs");
    assert!(begun.elapsed() >= ms(300), "{:?}", begun.elapsed()); // a POLL blocks for a third of the lease
    need(0).ok();
    await_free(&server, "k");
}
