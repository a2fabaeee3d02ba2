//! Guards, futures and clients that are dropped.

use crate::support::*;
use testbed::redis::Value;
use testbed::{Proxy, Server, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_dropped_is_released() {
    let server = Server::start();
    let locks = locks(&server);
    drop(locks.lock("k").acquire().await.expect("a lock"));
    await_free(&server, "k");
    let task = locks.task();
    let outer = task.lock("k").acquire().await.expect("a lock");
    let inner = outer.enter().await.expect("a hold");
    assert_eq!(info(&server, "k").holds, 2);
    drop(inner);
    eventually(|| info(&server, "k").holds == 1, "one hold");
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

/// An acquire that is dropped leaves nothing behind: in line, and while its reply is on its way.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_leaves_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let guard = locks.lock("k").acquire().await.expect("a lock");
    in_line(&server, &locks.lock("k"), 1).abort();
    await_waiters(&server, "k", 0);
    guard.release().await.expect("a release");
    let cancels = calls(&server, "lock.release");
    proxy.hold_back("LOCK.ACQUIRE");
    let acquiring = waiting(&locks.lock("k"));
    eventually(|| proxy.held_back() > 0, "the call");
    acquiring.abort();
    proxy.let_go();
    eventually(|| calls(&server, "lock.release") > cancels, "the cancel");
    await_free(&server, "k");
}

/// A task may ask again at once, with another owner: the cancel of the wait that it dropped is still on its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_asks_again_after_a_wait_that_it_dropped() {
    let server = Server::start();
    let locks = locks(&server);
    let held = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.task().lock("k");
    for _ in 0..20 {
        let waiting = tokio::time::timeout(ms(20), lock.acquire()).await;
        assert!(waiting.is_err(), "{waiting:?}");
    }
    await_waiters(&server, "k", 0);
    held.release().await.expect("a release");
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

/// When nobody has the client any more, its connections close; what it held ends with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_dropped_polls_no_more() {
    let server = Server::start();
    let locks = locks(&server);
    take_once(&locks, "k").await;
    assert_eq!(sessions(&server).len(), 1);
    drop(locks);
    let is_left = || sessions(&server)[0]["client-id"] == Value::Int(0);
    eventually(is_left, "no connection");
}
