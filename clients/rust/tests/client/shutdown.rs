//! Shutting a locks down.

use crate::support::{is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Loss};
use std::time::{Duration, Instant};
use testbed::{Expect, Server, cmd, eventually};

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

    let start = Instant::now();
    locks.close().await;
    let took = start.elapsed();
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
    let start = Instant::now();
    locks.close().await;
    let took = start.elapsed();
    server.signal("CONT");
    assert!(took < Duration::from_secs(3), "{took:?}");
}
