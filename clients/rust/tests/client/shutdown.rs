//! Shutting a locks down.

use crate::support::{Watch, is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Loss};
use std::time::Duration;
use testbed::{Expect, Proxy, Server, cmd, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_given_back() {
    let server = Server::start();
    let (locks, other) = (locks(&server), locks(&server));
    let foreign = other.lock("foreign").acquire().await.expect("a lock");
    let plain = locks.lock("plain").acquire().await.expect("a lock");
    let outer = locks.lock("nested").acquire().await.expect("a lock");
    let inner = outer.enter().await.expect("a hold");
    drop(locks.lock("dropped").acquire().await.expect("a lock"));
    let lock = locks.lock("foreign");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "foreign").len() == 1, "a waiter");

    locks.close().await;
    assert!(
        ["plain", "nested", "dropped"]
            .iter()
            .all(|key| is_free(&server, key))
    );
    assert!(waiters(&server, "foreign").is_empty());
    assert!(matches!(
        waiting.await.expect("a task"),
        Err(Error::Misuse(_))
    ));
    for guard in [&plain, &outer, &inner] {
        assert_eq!(guard.lost().await, Loss::Closed);
        assert!(guard.remaining().is_zero());
    }
    let refused = locks.lock("plain").try_acquire().await;
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    let refused = plain.release().await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::Closed))),
        "{refused:?}"
    );
    foreign.check().await.expect("another locks's");
    locks.close().await;
}

#[tokio::test]
async fn a_wait_in_another_task_is_called_off_before_it_is_done() {
    let server = Server::start();
    let (locks, other) = (locks(&server), locks(&server));
    let _foreign = other.lock("foreign").acquire().await.expect("a lock");
    let lock = locks.lock("foreign");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_waiting(&server).await;

    // On this one thread, the other task cannot run unless this one waits for it.
    locks.close().await;
    assert!(waiters(&server, "foreign").is_empty());
    let outcome = waiting.await.expect("a task");
    assert!(matches!(outcome, Err(Error::Misuse(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_wait_that_nobody_looks_at_any_more_is_called_off() {
    let server = Server::start();
    let (locks, other) = (locks(&server), locks(&server));
    let _foreign = other.lock("foreign").acquire().await.expect("a lock");
    let lock = locks.lock("foreign");
    let mut waiting = std::pin::pin!(lock.acquire());
    tokio::select! {
        outcome = &mut waiting => panic!("{outcome:?}"),
        () = until_waiting(&server) => {}
    }

    let start = Watch::on(&server);
    locks.close().await;
    let took = start.own();
    assert!(waiters(&server, "foreign").is_empty());
    assert!(took < Duration::from_secs(2), "{took:?}");
    let outcome = waiting.await;
    assert!(matches!(outcome, Err(Error::Misuse(_))), "{outcome:?}");
}

/// Leaves the thread to the others, unlike `eventually`.
async fn until_waiting(server: &Server) {
    while waiters(server, "foreign").is_empty() {
        tokio::time::sleep(ms(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_afterwards() {
    let server = Server::start();
    let locks = locks(&server);
    let _guard = locks
        .lock("k")
        .lease(ms(1000))
        .acquire()
        .await
        .expect("a lock");
    locks.close().await;
    cmd!(server.connection(), "CONFIG", "RESETSTAT").okay();
    tokio::time::sleep(ms(500)).await;
    assert_eq!(crate::support::calls(&server, "ping"), 0);
    assert!(is_free(&server, "k"));
    let clients = || cmd!(server.connection(), "CLIENT", "LIST").text();
    eventually(
        || !clients().contains("name=lock-"),
        "its connections to close",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent_does_not_hold_it_up_for_long() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(300)));
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    server.signal("STOP");
    let start = Watch::on(&server);
    locks.close().await;
    let took = start.own();
    server.signal("CONT");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Who gives up waiting for it has asked for it all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_that_nobody_waits_for_gives_all_back() {
    let server = Server::start();
    let locks = locks(&server);
    let mut guards = Vec::new();
    for number in 0..300 {
        guards.push(
            locks
                .lock(format!("k:{number}"))
                .acquire()
                .await
                .expect("a lock"),
        );
    }
    assert!(
        tokio::time::timeout(Duration::ZERO, locks.close())
            .await
            .is_err()
    );
    let held = || cmd!(server.connection(), "DBSIZE").int();
    eventually(|| held() == 0, "all to be released");
}

/// A program may have no runtime where it ends.
#[test]
fn a_close_outside_of_a_runtime() {
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (locks, guard) = runtime.block_on(async {
        let locks = locks(&server);
        let guard = locks.lock("k").acquire().await.expect("a lock");
        (locks, guard)
    });
    wait(locks.close());
    assert!(is_free(&server, "k"));
    drop(guard);
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(outcome) => return outcome,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// One does not take the connection from another that is under way.
#[tokio::test(flavor = "multi_thread")]
async fn two_closes_at_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.hold_back("LOCK.RELEASE");
    let first = locks.clone();
    let first = tokio::spawn(async move { first.close().await });
    eventually(|| proxy.held_back() == 1, "a release on its way");
    let second = tokio::spawn(async move { locks.close().await });
    tokio::time::sleep(ms(200)).await;
    assert!(!second.is_finished(), "nothing is released yet");
    proxy.let_go();
    first.await.expect("a task");
    second.await.expect("a task");
    assert!(is_free(&server, "k"));
    drop(guard);
}
