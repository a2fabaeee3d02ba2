//! The grant of an acquire; wrong arguments and missing rights. Waits, kinds of locks and refusals are in the trial.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Misuse, Refused};
use redis_lock_client::Locks;
use std::time::Instant;
use testbed::Server;

#[tokio::test(flavor = "multi_thread")]
async fn takes_and_releases() {
    let server = Server::start();
    let locks = Locks::new(&server.client(), "test");
    let guard = locks.lock("k").acquire().await.expect("a lock");
    assert_eq!(info(&server, "k").owner, guard.owner().as_bytes());
    assert_eq!(u64::try_from(info(&server, "k").token), Ok(guard.token()));
    assert!(guard.is_held() && guard.owner().starts_with("test:"));
    assert_eq!(guard.key(), b"k");
    guard.check().await.expect("held");
    is(locks.lock("k").try_acquire().await, Busy);
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments() {
    let server = Server::start();
    let ours = locks(&server);
    is(ours.permit("k", 0).acquire().await, Misuse);
    is(ours.lock("k").fixed(ms(0)).acquire().await, Misuse);
    let short = settings().lease(ms(1)).silence(ms(1)); // the server renews once a second at most
    take_once(&locks_at(server.port(), short), "k").await;
    is(Locks::open("nonsense://"), Misuse);
    is(
        settings().quorum(["redis://a/", "redis://b/"]).map(|_| ()),
        Misuse,
    );
    let guard = ours.lock("k").acquire().await.expect("a lock");
    is(guard.extend(ms(500)).await, Misuse);
}

/// Without the right to open a session every acquire fails at once, with the cause.
#[tokio::test(flavor = "multi_thread")]
async fn no_right_to_sessions() {
    let server = Server::start();
    let locks = locks_of(&server, "+@all -lock.session", settings());
    let begun = Instant::now();
    let error = is(locks.lock("k").acquire().await, Refused);
    assert!(begun.elapsed() < ms(1000), "{error}");
    assert!(error.cause().contains("NOPERM"), "{error}");
    assert_eq!(error.key(), "k");
}

/// A right that is taken away from renewals alone is no loss: the server renews.
#[tokio::test(flavor = "multi_thread")]
async fn other_rights_that_are_missing_are_no_loss() {
    let server = Server::start();
    let rights = "+@all -lock.renew -lock.fence -ping";
    let locks = locks_of(&server, rights, settings().lease(ms(1000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    is(guard.check().await, Refused);
    is(guard.extend(ms(2000)).await, Refused);
    tokio::time::sleep(ms(2500)).await; // the time is tested
    assert!(guard.loss().is_none());
    guard.release().await.expect("a release");
}
