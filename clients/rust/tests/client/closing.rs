//! The end of the client, and releases that are refused.

use crate::support::*;
use redis_lock_client::ErrorKind::{Misuse, Refused, Unavailable};
use std::time::Instant;
use testbed::Server;

/// Close ends waits, releases grants, and closes the connections; afterwards nothing works.
#[tokio::test(flavor = "multi_thread")]
async fn close_releases_all() {
    let server = Server::start();
    let (ours, other) = (locks(&server), locks(&server));
    let guard = ours.lock("k").acquire().await.expect("a lock");
    let fixed = ours.lock("f").fixed(LONG).acquire().await.expect("a lock");
    let theirs = other.lock("theirs").acquire().await.expect("a lock");
    let wait = in_line(&server, &ours.lock("theirs"), 1);
    ours.close().await.expect("all released");
    let closed = is(wait.await.expect("a task"), Misuse);
    assert_eq!(closed.cause(), "the client is closed");
    assert!(is_free(&server, "k") && is_free(&server, "f"));
    await_waiters(&server, "theirs", 0);
    is(guard.release().await, Misuse);
    drop(fixed);
    is(ours.lock("k").acquire().await, Misuse);
    ours.close().await.expect("nothing to do");
    theirs.release().await.expect("a release");
}

/// A server that hangs does not hold up close for long.
#[tokio::test(flavor = "multi_thread")]
async fn close_is_limited() {
    let server = Server::start();
    let locks = locks(&server);
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    server.signal("STOP");
    let begun = Instant::now();
    is(locks.close().await, Unavailable);
    assert!(begun.elapsed() < ms(5000));
    server.signal("CONT");
}

/// A session that has ended is not closed over and over: its grants are released one by one.
#[tokio::test(flavor = "multi_thread")]
async fn close_after_the_end_of_the_session() {
    let server = Server::start();
    let locks = locks(&server);
    let _guard = locks.lock("k").acquire().await.expect("a lock");
    kill_sessions(&server);
    locks.close().await.expect("all released");
    assert!(is_free(&server, "k") && sessions(&server).is_empty());
}

/// When nobody has the client any more, its connections close; what it held ends with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_dropped_polls_no_more() {
    let server = Server::start();
    let locks = locks(&server);
    take_once(&locks, "k").await;
    assert_eq!(sessions(&server).len(), 1);
    drop(locks);
    testbed::eventually(
        || sessions(&server)[0]["client-id"] == testbed::redis::Value::Int(0),
        "no connection",
    );
}

/// A refused release is reported, and the client leaves the session, so that the grant is not renewed forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_release_ends_the_renewal() {
    let server = Server::start();
    let locks = locks_of(&server, "worker", &["+@all"], settings().lease(ms(1000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let other = locks.lock("other").acquire().await.expect("a lock");
    set_rights(&server, "worker", &["-lock.release"]);
    is(guard.release().await, Refused);
    await_free(&server, "k");
    assert!(other.is_held());
    set_rights(&server, "worker", &["+lock.release"]);
    other.release().await.expect("a release");
}

/// A right that is taken away from renewals alone is no loss: the server renews.
#[tokio::test(flavor = "multi_thread")]
async fn other_rights_that_are_missing_are_no_loss() {
    let server = Server::start();
    let rights = ["+@all", "-lock.renew", "-lock.fence", "-ping"];
    let locks = locks_of(&server, "worker", &rights, settings().lease(ms(1000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    is(guard.check().await, Refused);
    is(guard.extend(ms(2000)).await, Refused);
    tokio::time::sleep(ms(2500)).await; // the time is tested
    assert!(guard.loss().is_none());
    guard.release().await.expect("a release");
}
