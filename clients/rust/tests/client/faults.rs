//! Losses, lost replies, outages and many waits. Stalls, cuts, restarts, crowds and the ends of sessions are the
//! trial's.

use crate::support::*;
use redis_lock_client::ErrorKind::{Lost, Unavailable};
use redis_lock_client::{Error, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};
use tokio::task::JoinSet;

#[derive(Clone, Default)]
struct Losses(Arc<AtomicUsize>);

impl Observer for Losses {
    fn lost(&self, _: &Error) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A grant that is deleted is reported within a moment, in every way, and once.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_reported_in_every_way() {
    let server = Server::start();
    let observed = Losses::default();
    let locks = locks_at(server.port(), settings().observer(observed.clone()));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let cancellation = guard.cancellation();
    delete(&server, "k");
    cancellation.cancelled().await;
    let loss = guard.lost().await;
    assert_eq!((loss.kind(), loss.cause()), (Lost, "deleted"));
    assert!(!guard.is_held() && guard.remaining().is_zero() && guard.loss().is_some());
    is(guard.check().await, Lost);
    is(guard.release().await, Lost);
    eventually(|| observed.0.load(Ordering::SeqCst) == 1, "one report");
}

/// A call whose reply is lost, with its connection or without, is repeated and takes nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_are_asked_for_again() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    for fault in [Fault::Cut, Fault::Reset, Fault::ResetRequest, Fault::Keep] {
        proxy.inject(fault, "LOCK.ACQUIRE", 1);
        let guard = locks.lock("k").acquire().await.expect("a lock");
        let info = info(&server, "k");
        assert_eq!((info.holds, &*info.owner), (1, guard.owner().as_bytes()));
        proxy.inject(fault, "LOCK.RELEASE", 1);
        guard.release().await.expect("a release");
        await_free(&server, "k");
    }
}

/// The connections are dead, new ones work: the first call uses a part of its time for them only.
#[tokio::test(flavor = "multi_thread")]
async fn dead_connections_do_not_fail_the_first_call() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    take_once(&locks, "k").await;
    proxy.forget();
    let guard = locks.lock("k").try_acquire().await.expect("a lock");
    guard.release().await.expect("a release");
}

/// Waits need no connections: a thousand of one process have one for the session and one for the calls.
#[tokio::test(flavor = "multi_thread")]
async fn waits_need_no_connections() {
    let server = Server::start();
    let connections = || {
        let clients = cmd!(server.connection(), "CLIENT", "LIST").text();
        clients.lines().count()
    };
    let first = locks(&server).lock("k").acquire().await.expect("a lock");
    let before = connections();
    let ours = locks(&server);
    let mut all = JoinSet::new();
    for _ in 0..1000 {
        let lock = ours.lock("k");
        all.spawn(async move { lock.acquire().await?.release().await });
    }
    await_waiters(&server, "k", 1000);
    let now = connections();
    assert!(now <= before + 2, "{now} connections after {before}");
    first.release().await.expect("a release");
    for worked in all.join_all().await {
        worked.expect("a lock");
    }
}

/// The first call after an outage returns in time, and errors name the server.
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
    let port = server.port().to_string();
    for failed in all.join_all().await {
        let error = is(failed, Unavailable);
        assert!(error.to_string().contains(&port), "{error}");
    }
    server.restart();
    let begun = Instant::now();
    let guard = locks.lock("k").try_acquire().await.expect("a lock");
    assert!(begun.elapsed() < ms(700), "{:?}", begun.elapsed());
    guard.release().await.expect("a release");
}

/// A release that the server cannot carry out is repeated before each POLL, and the POLL waits all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_release_does_not_hurry_the_session() {
    let server = Server::start();
    let settings = settings().lease(ms(1000)).reply_time(ms(500));
    let locks = locks_at(server.port(), settings);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let need = |count| {
        let mut server = server.connection();
        cmd!(server, "CONFIG", "SET", "min-replicas-to-write", count).okay();
    };
    need(1);
    is(guard.release().await, Unavailable);
    let polled = || calls(&server, "lock.session|poll");
    let (before, begun) = (polled(), Instant::now());
    eventually(|| polled() >= before + 4, "more POLLs");
    assert!(begun.elapsed() >= ms(300), "{:?}", begun.elapsed()); // a POLL blocks for a third of the lease
    need(0);
    await_free(&server, "k");
}
