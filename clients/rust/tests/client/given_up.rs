//! What was given up does not stay with the server, and takes no longer than it was given.

use crate::support::{Watch, calls, locks, locks_at, ms, settings, waiters};
use redis_lock_client::Error;
use std::time::Duration;
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};

/// A grant that was to be adopted, and was not, is its owner's: nobody keeps it here, and nobody releases it.
#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_that_was_dropped_keeps_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let other = crate::support::locks(&server);
    let guard = other.lock("k").acquire().await.expect("a lock");
    let owner = guard.owner().to_owned();
    let token = guard.detach().await.expect("to leave it");
    let warm = locks.lock("warm").acquire().await.expect("a lock");
    warm.release().await.expect("a release");
    let before = calls(&server, "lock.renew");
    proxy.inject(Fault::Delay(400), "LOCK.RENEW", 1);
    let adopting = locks.adopt("k", owner.clone(), token);
    assert!(tokio::time::timeout(ms(100), adopting).await.is_err());
    eventually(
        || calls(&server, "lock.renew") == before + 2,
        "two renewals",
    );
    let holders = other.holders("k").await.expect("holders");
    assert_eq!(holders.len(), 1);
    assert_eq!(
        (&holders[0].owner, holders[0].kept_by),
        (&owner.into_bytes(), None)
    );
}

/// The time to wait is one for the turn of the task and for the line.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_no_longer_than_its_time() {
    let server = Server::start();
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "other", "EX", 60).grant();
    let task = locks(&server).task();
    let lock = task.lock("k").wait(ms(1000));
    let first = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let start = Watch::on(&server);
    assert!(matches!(lock.acquire().await, Err(Error::Busy)));
    assert!(start.own() < ms(1500), "{:?}", start.own());
    assert!(matches!(first.await.expect("a task"), Err(Error::Busy)));
}

/// The connection for the wait is opened within the time to wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_connection_does_not_lengthen_the_wait() {
    let server = Server::start();
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "other", "EX", 60).grant();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let warm = locks.lock("warm").acquire().await.expect("a lock");
    warm.release().await.expect("a release");
    proxy.inject(Fault::Delay(700), "lock-wait", 1);
    let start = Watch::on(&server);
    let refused = locks.lock("k").wait(ms(1000)).acquire().await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    let (took, own) = (start.elapsed(), start.own());
    assert!(took > ms(950) && own < ms(1500), "{took:?}, {own:?}");
}

/// An adoption that was given up releases nothing, and what is left of it does not end the keeping for the next one.
#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_after_one_that_was_dropped_is_kept() {
    let server = Server::start();
    let locks = locks(&server);
    let grant = cmd!(server.connection(), "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
    let token = u64::try_from(grant.token).expect("a token");
    for run in 0..300 {
        let first = {
            let locks = locks.clone();
            tokio::spawn(async move { locks.adopt("k", "me", token).await })
        };
        tokio::time::sleep(Duration::from_micros(10 * (run % 30))).await;
        first.abort();
        if let Ok(Ok(guard)) = first.await {
            guard.detach().await.expect("to leave it");
        }
        let guard = locks.adopt("k", "me", token).await.expect("the grant");
        tokio::time::sleep(ms(3)).await;
        guard.check().await.expect("it is held");
        let holders = locks.holders("k").await.expect("holders");
        assert!(holders[0].kept_by.is_some(), "in run {run}");
        guard.detach().await.expect("to leave it");
    }
}
