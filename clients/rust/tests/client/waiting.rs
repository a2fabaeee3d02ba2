//! Waiting: one call, in line, on a connection of its own.

use crate::support::{calls, is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::Loss;
use std::time::Instant;
use testbed::{Expect, Server, cmd, eventually};

/// The connection of the only waiter and the milliseconds left to it, unless none or several wait.
fn only_waiter(server: &Server) -> Option<(i64, i64)> {
    let line = cmd!(server.connection(), "LOCK.WAITERS", "k").items();
    let [waiter] = <[_; 1]>::try_from(line).ok()?;
    let fields = waiter.fields();
    let field = |name: &str| fields[name].clone().int();
    Some((field("client-id"), field("left-ms")))
}

fn waiter(server: &Server) -> (i64, i64) {
    only_waiter(server).expect("one waiter")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_one_call_longer_than_the_response_time_out() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(200)));
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k").wait(ms(30_000));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let (connection, left) = waiter(&server);
    assert!(left > 20_000, "the whole time in one call: {left}");
    // While it waits, other calls are answered: it has a connection of its own.
    assert!(locks.lock("other").try_acquire().await.is_ok());
    tokio::time::sleep(ms(900)).await;
    assert_eq!(waiter(&server).0, connection, "it has kept its place");
    let released = Instant::now();
    holder.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("a lock");
    assert!(released.elapsed() < ms(15_000), "{:?}", released.elapsed());
    drop(guard);
    // The holder's, the try of the waiter, its wait, and that of the other lock.
    assert_eq!(calls(&server, "lock.acquire"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_served_in_the_order_in_which_they_came() {
    let server = Server::start();
    let locks = locks(&server);
    let mut guard = locks.lock("k").acquire().await.expect("a lock");
    let mut line = Vec::new();
    for number in 0..5 {
        let lock = locks.lock("k").owner(format!("w{number}")).wait_forever();
        line.push(tokio::spawn(async move { lock.acquire().await }));
        eventually(|| waiters(&server, "k").len() == number + 1, "a waiter");
    }
    for (number, waiting) in line.into_iter().enumerate() {
        guard.release().await.expect("a release");
        guard = waiting.await.expect("a task").expect("a lock");
        assert_eq!(guard.owner(), format!("w{number}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_survives_the_loss_of_its_connection() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let (connection, _) = waiter(&server);
    cmd!(server.connection(), "CLIENT", "KILL", "ID", connection).int();
    let is_back = || only_waiter(&server).is_some_and(|(new, _)| new != connection);
    eventually(is_back, "the waiter on a new connection");
    holder.release().await.expect("a release");
    drop(waiting.await.expect("a task").expect("a lock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_survives_a_restart() {
    let mut server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(500)));
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    server.restart();
    // Nothing was saved: the lock is free, and the holder is told so when it renews.
    let guard = waiting.await.expect("a task").expect("a lock");
    assert!(guard.token() > holder.token());
    holder.check().await.expect_err("the grant is gone");
    assert!(matches!(
        holder.lost().await,
        Loss::NotOwner | Loss::NotHeld
    ));
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_left() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(200)));
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let (connection, _) = waiter(&server);
    server.signal("STOP");
    tokio::time::sleep(ms(1000)).await;
    server.signal("CONT");
    let is_back = || only_waiter(&server).is_some_and(|(new, _)| new != connection);
    eventually(is_back, "the waiter on a new connection");
    holder.release().await.expect("a release");
    drop(waiting.await.expect("a task").expect("a lock"));
}

/// As in a failover in which the server keeps its connections: the wait is ended with `UNBLOCKED`, and
/// calls get `READONLY`.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_a_replica_for_a_while() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    // Of a primary that is not there.
    cmd!(server.connection(), "REPLICAOF", "127.0.0.1", 1).okay();
    let errors = |name: &str| {
        server
            .info("errorstats")
            .contains_key(&format!("errorstat_{name}"))
    };
    eventually(|| errors("UNBLOCKED") && errors("READONLY"), "both errors");
    let renewing = tokio::spawn(async move { holder.check().await.map(|()| holder) });
    tokio::time::sleep(ms(300)).await;
    assert!(!waiting.is_finished() && !renewing.is_finished());
    cmd!(server.connection(), "REPLICAOF", "NO", "ONE").okay();
    let holder = renewing.await.expect("a task").expect("a renewal");
    eventually(
        || waiters(&server, "k").len() == 1,
        "the waiter in line again",
    );
    holder.release().await.expect("a release");
    drop(waiting.await.expect("a task").expect("a lock"));
}
