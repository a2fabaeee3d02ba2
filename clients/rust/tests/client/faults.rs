//! Losses, cuts, and the end of sessions.

use crate::support::*;
use redis_lock_client::ErrorKind::Lost;
use redis_lock_client::{Error, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testbed::Fault;
use testbed::{Expect, Proxy, Server, cmd, eventually};

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

/// The connections are killed over and over: no lock is lost, and no wait its place.
#[tokio::test(flavor = "multi_thread")]
async fn cuts_of_the_connection_lose_nothing() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = in_line(&server, &locks.lock("k"), 1);
    for _ in 0..5 {
        let polls = calls(&server, "lock.session|poll");
        cmd!(
            server.connection(),
            "CLIENT",
            "KILL",
            "TYPE",
            "normal",
            "SKIPME",
            "yes"
        )
        .int();
        eventually(|| calls(&server, "lock.session|poll") > polls, "a POLL");
    }
    assert!(guard.is_held());
    assert_eq!(sessions(&server).len(), 1);
    guard.release().await.expect("a release");
    granted(next).await.release().await.expect("a release");
}

/// An operator kills the session that waits: its waits are queued again in their order.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_loses_no_order() {
    let server = Server::start();
    let ours = locks(&server);
    let mut guard = locks(&server)
        .lock("k")
        .fixed(LONG)
        .acquire()
        .await
        .expect("a lock");
    let kept = ours
        .lock("kept")
        .fixed(LONG)
        .acquire()
        .await
        .expect("a lock");
    let all = [1, 2, 3].map(|count| in_line(&server, &ours.lock("k"), count));
    kill_sessions(&server);
    await_waiters(&server, "k", 3);
    kept.check().await.expect("held");
    for next in all {
        guard.release().await.expect("a release");
        guard = granted(next).await;
    }
    guard.release().await.expect("a release");
}

/// Behind a proxy that loses everything, a grant becomes unsure at the end of its lease and is lost by silence; the
/// server has it for no longer than a lease.
#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_grant() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings().lease(ms(1000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.swallow();
    eventually(|| !guard.is_held(), "no certainty");
    assert_eq!(guard.lost().await.cause(), "silence");
    proxy.speak();
    await_free(&server, "k");
}

/// A call whose reply is lost is repeated, and takes nothing twice.
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
