//! Guards and futures that are dropped.

use crate::support::*;
use testbed::{Proxy, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_dropped_is_released() {
    let server = Server::start();
    let locks = locks(&server);
    drop(locks.lock("k").acquire().await.expect("a lock"));
    await_free(&server, "k");
    let task = locks.task();
    let outer = task.lock("k").acquire().await.expect("a lock");
    drop(outer.enter().await.expect("a hold"));
    testbed::eventually(|| info(&server, "k").holds == 1, "one hold");
    assert!(outer.is_held());
}

/// It needs no runtime, and outlives the client's other handles.
#[test]
fn a_guard_is_dropped_without_a_runtime() {
    let server = Server::start();
    let locks = locks(&server);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let guard = runtime.block_on(locks.lock("k").acquire()).expect("a lock");
    drop(runtime);
    drop(locks);
    assert!(guard.is_held());
    drop(guard);
    await_free(&server, "k");
}

/// An acquire that is dropped while its reply is on its way leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_leaves_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    take_once(&locks, "other").await;
    proxy.hold_back("LOCK.ACQUIRE");
    let lock = locks.lock("k");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    testbed::eventually(|| proxy.held_back() > 0, "the call");
    acquiring.abort();
    proxy.let_go();
    testbed::eventually(|| calls(&server, "lock.release") >= 2, "the cancel");
    await_free(&server, "k");
}

/// A release whose future is dropped goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_dropped_goes_on() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.lose_reply_to("LOCK.RELEASE");
    assert!(tokio::time::timeout(ms(1), guard.release()).await.is_err());
    await_free(&server, "k");
}
