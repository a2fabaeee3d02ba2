//! Locks that come soon, and are held for a moment: they are not handed to the keeper. Those that are held for
//! longer are.

use crate::support::{calls, is_free, locks, ms, waiters};
use redis_lock_client::{Error, Guard, Lock, Locks};
use std::time::Instant;
use testbed::{Expect, Server, cmd, eventually};

/// A lock that was waited for, but for a moment only.
async fn waited_for(server: &Server, locks: &Locks, lock: &Lock) -> Guard {
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(server, "k").len() == 1, "a waiter");
    holder.release().await.expect("a release");
    waiting.await.expect("a task").expect("a lock")
}

fn is_kept(server: &Server) -> bool {
    let holders = cmd!(server.connection(), "LOCK.HOLDERS", "k").items();
    holders
        .into_iter()
        .any(|holder| holder.fields()["keep-ms"].clone().int() > 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_held_for_a_moment_is_not_renewed() {
    let server = Server::start();
    let locks = locks(&server);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let lock = locks.lock("k").wait(ms(30_000));
            tokio::spawn(async move {
                for _ in 0..25 {
                    let guard = lock.acquire().await.expect("a lock");
                    guard.release().await.expect("a release");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    // On a busy machine one or the other takes longer than a moment.
    let (releases, renewals) = (calls(&server, "lock.release"), calls(&server, "lock.renew"));
    assert_eq!(releases, 200);
    assert!(renewals < 20, "{renewals} of 200 were renewed");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_held_for_longer_outlives_its_lease() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").lease(ms(1000)).wait(ms(30_000));
    let guard = waited_for(&server, &locks, &lock).await;
    eventually(|| is_kept(&server), "the lock to be kept");
    tokio::time::sleep(ms(1600)).await;
    assert!(guard.remaining() > ms(0));
    guard.release().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_goes_in_that_moment_is_told_as_lost() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").wait(ms(30_000));
    let guard = waited_for(&server, &locks, &lock).await;
    cmd!(server.connection(), "DEL", "k").int();
    let told = tokio::time::timeout(ms(5000), guard.lost()).await;
    told.expect("the loss to be told");
    assert!(!guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_in_that_moment_asks_for_the_grant_itself() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").wait(ms(30_000));
    let guard = waited_for(&server, &locks, &lock).await;
    guard.check().await.expect("it is held");
    assert!(is_kept(&server), "by the check");
    guard.release().await.expect("a release");

    let guard = waited_for(&server, &locks, &lock).await;
    cmd!(server.connection(), "DEL", "k").int();
    assert!(matches!(guard.check().await, Err(Error::Lost(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_away_in_that_moment_is_not_taken_back() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").lease(ms(1000)).wait(ms(30_000));
    let guard = waited_for(&server, &locks, &lock).await;
    guard.detach().await.expect("it is held");
    eventually(|| is_free(&server, "k"), "the lease to end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_at_the_end_of_that_moment_leaves_nothing() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").wait(ms(30_000));
    for round in 0..20 {
        let guard = waited_for(&server, &locks, &lock).await;
        tokio::time::sleep(ms(90 + round)).await;
        guard.release().await.expect("a release");
        assert!(is_free(&server, "k"), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_came_late_is_renewed_first() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k").lease(ms(1200)).wait(ms(30_000));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    tokio::time::sleep(ms(450)).await;
    holder.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("a lock");
    assert_eq!(calls(&server, "lock.renew"), 1);
    assert!(guard.deadline() > Instant::now() + ms(500));
}

/// Its lease is all that it has: it begins when the caller is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_is_renewed_first() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").fixed().wait(ms(30_000));
    let guard = waited_for(&server, &locks, &lock).await;
    assert_eq!(calls(&server, "lock.renew"), 1);
    guard.release().await.expect("a release");
}
