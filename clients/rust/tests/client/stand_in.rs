//! The stand-in for unit tests.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Lost};
use redis_lock_client::testing::StandIn;

#[tokio::test]
async fn waiters_are_served_in_order_and_tokens_rise() {
    let server = StandIn::new();
    let locks = server.locks();
    let mut guard = locks.lock("k").acquire().await.expect("a lock");
    is(locks.lock("k").try_acquire().await, Busy);
    is(locks.lock("k").wait(ms(30)).acquire().await, Busy);
    let mut all = Vec::new();
    for count in 1..=3 {
        all.push(waiting(&locks.lock("k")));
        while server.count("k") != (1, count) {
            tokio::task::yield_now().await;
        }
    }
    for next in all {
        let token = guard.token();
        guard.release().await.expect("a release");
        guard = granted(next).await;
        assert!(guard.token() > token);
    }
    guard.check().await.expect("held");
    assert!(server.lose("k") && !server.lose("k"));
    assert_eq!(guard.lost().await.cause(), "deleted");
    is(guard.release().await, Lost);
    assert_eq!(server.count("k"), (0, 0));
}

#[tokio::test]
async fn other_kinds_of_locks() {
    let server = StandIn::new();
    let locks = server.locks();
    for lock in [locks.shared("k"), locks.permit("k", 2)] {
        let (one, two) = (
            lock.acquire().await.expect("a lock"),
            lock.acquire().await.expect("a lock"),
        );
        is(locks.lock("k").try_acquire().await, Busy);
        one.release().await.expect("a release");
        two.release().await.expect("a release");
    }
    let task = locks.task();
    let outer = task.lock("k").acquire().await.expect("a lock");
    let inner = task.lock("k").acquire().await.expect("a hold");
    outer.release().await.expect("a release");
    assert_eq!(server.count("k"), (1, 0));
    inner.extend(ms(2000)).await.expect("a renewal");
    let (owner, token) = (inner.owner().to_owned(), inner.token());
    inner.detach(LONG).await.expect("a renewal");
    let adopted = locks.lock("k").adopt(owner, token).await.expect("the lock");
    adopted.release().await.expect("a release");
    let lock = locks.lock("k");
    let fixed = lock.clone().fixed(ms(50)).acquire().await.expect("a lock");
    let next = lock.acquire().await.expect("a lock");
    assert_eq!(fixed.lost().await.cause(), "expired");
    drop(next);
    drop(lock.acquire_unless(async {}).await);
    locks.close().await.expect("all released");
    assert_eq!(server.count("k"), (0, 0));
}
