//! Acquires, waits and releases.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Misuse, Refused};
use redis_lock_client::Locks;
use std::time::Instant;
use testbed::{Expect, Server, cmd};

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
async fn waits_in_line() {
    let server = Server::start();
    let mut guard = locks(&server).lock("k").acquire().await.expect("a lock");
    let other = locks(&server);
    let mut all = Vec::new();
    for count in 1..=5 {
        all.push(in_line(&server, &other.lock("k"), count));
    }
    for waiting in all {
        let token = guard.token();
        guard.release().await.expect("a release");
        guard = granted(waiting).await;
        assert!(guard.token() > token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    is(locks.lock("k").wait(ms(50)).acquire().await, Busy);
    let stopped = locks
        .lock("k")
        .acquire_unless(tokio::time::sleep(ms(50)))
        .await;
    assert!(stopped.expect("no failure").is_none());
    await_waiters(&server, "k", 0);
    let late = tokio::time::timeout(ms(50), locks.lock("k").acquire()).await;
    assert!(late.is_err());
    await_waiters(&server, "k", 0);
    guard.release().await.expect("a release");
}

/// Rights, wrong passwords, a missing module, another type: reported at once, with the cause.
#[tokio::test(flavor = "multi_thread")]
async fn refusals() {
    let server = Server::start();
    let bare = Server::builder().without_module().start();
    cmd!(server.connection(), "SET", "text", "x").okay();
    let wrong = format!("redis://nobody:x@127.0.0.1:{}/", server.port());
    let of = |user, rights: &[&str]| locks_of(&server, user, rights, settings());
    let cases = [
        (locks(&server), "text", Misuse, "SET NX"),
        (
            of("poor", &["+@all", "-lock.acquire"]),
            "k",
            Refused,
            "NOPERM",
        ),
        (
            of("none", &["+@all", "-lock.session"]),
            "k",
            Refused,
            "NOPERM",
        ),
        (
            Locks::open(wrong).expect("locks"),
            "k",
            Refused,
            "authentication failed",
        ),
        (locks(&bare), "k", Refused, "is the module lock"),
    ];
    for (locks, key, kind, says) in cases {
        let begun = Instant::now();
        let error = is(locks.lock(key).acquire().await, kind);
        assert!(error.to_string().contains(says), "{error}");
        assert!(begun.elapsed() < ms(1000), "{error}");
        assert_eq!(error.key(), key);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments() {
    let server = Server::start();
    let ours = locks(&server);
    is(ours.permit("k", 0).acquire().await, Misuse);
    is(ours.lock("k").fixed(ms(0)).acquire().await, Misuse);
    let short = locks_at(server.port(), settings().lease(ms(999)));
    is(short.lock("k").acquire().await, Misuse);
    is(Locks::open("nonsense://"), Misuse);
    is(
        settings().quorum(["redis://a/", "redis://b/"]).map(|_| ()),
        Misuse,
    );
    let guard = ours.lock("k").acquire().await.expect("a lock");
    is(guard.extend(ms(500)).await, Misuse);
}
