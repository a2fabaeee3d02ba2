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

/// Who waits hears of a new primary while the connection to the old one is open: what is kept there goes along.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_by_a_primary_that_was_replaced() {
    let sentinels = Sentinels::start(1, 3);
    let locks = locks(&sentinels);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let other = locks.lock("other").acquire().await.expect("a lock");
    let lock = locks.lock("other").wait_forever();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let old = sentinels.server(0);
    within(PATIENCE, || waiters(old, "other").len() == 1, "a waiter");
    old.wait_for_sync(sentinels.server(1));
    let new = sentinels.fail_over();
    let primary = sentinels.server(new);
    let kept = || primary.info_field("lock", "lock_kept") == "2";
    within(
        PATIENCE,
        || waiters(primary, "other").len() == 1,
        "the waiter",
    );
    within(PATIENCE, kept, "both to be kept again");
    guard.release().await.expect("a release");
    other.release().await.expect("a release");
    drop(waiting.await.expect("a task").expect("a lock"));
}

/// The last primary that was known goes on being used while no Sentinel says anything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_whose_sentinels_are_away() {
    for hang in [false, true] {
        let mut sentinels = Sentinels::start(1, 3);
        let locks = locks(&sentinels);
        let guard = locks.lock("k").acquire().await.expect("a lock");
        // They ask the Sentinels, too.
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let lock = locks.lock("k").wait_forever();
            waiting.spawn(async move { lock.acquire().await.map(drop) });
        }
        let primary = sentinels.server(0);
        within(PATIENCE, || waiters(primary, "k").len() == 12, "waiters");
        for number in 0..3 {
            if hang {
                sentinels.sentinel_mut(number).signal("STOP");
            } else {
                sentinels.sentinel_mut(number).kill9();
            }
        }
        let primary = sentinels.server(0);
        primary.signal("STOP");
        let refused = locks.lock("other").try_acquire().await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        primary.signal("CONT");
        guard.check().await.expect("it is held");
        for _ in 0..3 {
            let other = locks.lock("other").try_acquire().await.expect("a lock");
            other.release().await.expect("a release");
        }
        guard.release().await.expect("a release");
        for number in 0..3 {
            if hang {
                sentinels.sentinel_mut(number).signal("CONT");
            }
        }
    }
}
