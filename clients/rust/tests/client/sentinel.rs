//! Through failovers under Sentinels.

use crate::support::{info, ms, settings, waiters};
use redis_lock_client::{Error, Guard, Locks};
use std::time::Duration;
use testbed::{Sentinels, sentinels, within};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);

fn locks(sentinels: &Sentinels) -> Locks {
    let addresses = sentinels
        .sentinels()
        .iter()
        .map(|sentinel| ("127.0.0.1", sentinel.port()));
    settings()
        .reply_time(ms(500))
        .sentinel(sentinels::NAME, addresses, "redis://-/")
        .expect("a locks")
}

/// A holder, and one who waits.
async fn holder_and_waiter(sentinels: &Sentinels) -> (Guard, JoinHandle<Result<Guard, Error>>) {
    let locks = locks(sentinels);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k").owner("next");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let primary = sentinels.server(sentinels.primary());
    within(PATIENCE, || waiters(primary, "k").len() == 1, "a waiter");
    for replica in sentinels
        .servers()
        .iter()
        .filter(|server| server.port() != primary.port())
    {
        primary.wait_for_sync(replica);
    }
    (guard, waiting)
}

/// The lock and the line are at the new primary, and the lock goes on from there.
async fn go_on(
    sentinels: &Sentinels,
    new: usize,
    guard: Guard,
    waiting: JoinHandle<Result<Guard, Error>>,
) {
    let primary = sentinels.server(new);
    within(
        PATIENCE,
        || waiters(primary, "k") == ["next"],
        "the waiter at the new primary",
    );
    guard.check().await.expect("the grant has come along");
    assert_eq!(info(primary, "k").owner, guard.owner().as_bytes());
    let token = guard.token();
    guard.release().await.expect("a release");
    let next = waiting.await.expect("a task").expect("a lock");
    assert!(next.token() > token);
    assert_eq!(info(primary, "k").owner, b"next");
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_dies() {
    let mut sentinels = Sentinels::start(1, 3);
    let (guard, waiting) = holder_and_waiter(&sentinels).await;
    sentinels.server_mut(0).kill9();
    let new = sentinels.wait_for_primary_other_than(0);
    go_on(&sentinels, new, guard, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hands_over() {
    let sentinels = Sentinels::start(1, 3);
    let (guard, waiting) = holder_and_waiter(&sentinels).await;
    let new = sentinels.fail_over();
    go_on(&sentinels, new, guard, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs() {
    let sentinels = Sentinels::start(1, 3);
    let (guard, waiting) = holder_and_waiter(&sentinels).await;
    sentinels.server(0).signal("STOP");
    let new = sentinels.wait_for_primary_other_than(0);
    go_on(&sentinels, new, guard, waiting).await;
    sentinels.server(0).signal("CONT");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_sentinel_knows() {
    let sentinels = Sentinels::start(0, 1);
    let address = ("127.0.0.1", sentinels.sentinels()[0].port());
    let locks = settings()
        .reply_time(ms(300))
        .sentinel("no-such-name", [address], "redis://-/")
        .expect("a locks");
    let refused = locks.lock("k").try_acquire().await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}
