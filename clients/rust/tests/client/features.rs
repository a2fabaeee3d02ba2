//! Tasks, shared locks, permits, leases, hand-overs, several locks and leaders.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Deadlock, Lost, NotAlone};
use redis_lock_client::{Error, several};
use std::sync::{Arc, Mutex};
use testbed::{Server, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_enters_again() {
    let server = Server::start();
    let locks = locks(&server);
    let (one, two) = (locks.task(), locks.task());
    let first = one.lock("a").acquire().await.expect("a lock");
    let again = one.lock("a").try_acquire().await.expect("a hold");
    let other = two.lock("b").acquire().await.expect("a lock");
    assert_eq!(
        (again.token(), info(&server, "a").holds),
        (first.token(), 2)
    );
    let inner = again.enter().await.expect("a hold");
    assert_eq!(info(&server, "a").holds, 3);
    let next = in_line(&server, &two.lock("a"), 1);
    is(one.lock("b").acquire().await, Deadlock);
    inner.release().await.expect("a release");
    first.release().await.expect("a release");
    assert!(again.is_held());
    again.release().await.expect("a release");
    granted(next).await.release().await.expect("a release");
    other.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_locks_and_permits() {
    let server = Server::start();
    let locks = locks(&server);
    for lock in [locks.shared("k"), locks.permit("k", 2)] {
        let (one, two) = (
            lock.acquire().await.expect("a lock"),
            lock.acquire().await.expect("a lock"),
        );
        assert_ne!(one.owner(), two.owner());
        is(locks.lock("k").try_acquire().await, Busy);
        one.release().await.expect("a release");
        two.release().await.expect("a release");
    }
    let (one, two) = (locks.task(), locks.task());
    let _reader = one.shared("k").acquire().await.expect("a lock");
    let _other = two.shared("k").acquire().await.expect("a lock");
    is(one.lock("k").try_acquire().await, NotAlone);
}

/// A fixed lease is not renewed, whether the grant was waited for or not; it expires, or is extended.
#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_expires() {
    let server = Server::start();
    let locks = locks(&server);
    let first = locks
        .lock("k")
        .fixed(ms(500))
        .acquire()
        .await
        .expect("a lock");
    let second = locks
        .lock("k")
        .fixed(ms(300))
        .acquire()
        .await
        .expect("a lock");
    assert_eq!(first.lost().await.kind(), Lost);
    second.extend(ms(700)).await.expect("a renewal");
    let left = second.remaining();
    assert!(left > ms(400) && left <= ms(700), "{left:?}");
    second.lost().await;
    is(second.release().await, Lost);
    await_free(&server, "k");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maximum_time_ends_a_grant() {
    let server = Server::start();
    let guard = locks(&server)
        .lock("k")
        .at_most(ms(100))
        .acquire()
        .await
        .expect("a lock");
    assert_eq!(guard.lost().await.cause(), "its maximum time is over");
    await_free(&server, "k");
}

/// What one process detaches, another adopts; the token stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_handed_on() {
    let server = Server::start();
    let of = || locks_at(server.port(), settings().prefix("p:"));
    let (from, to) = (of(), of());
    for lock in [to.lock("k"), to.lock("k").fixed(LONG)] {
        let guard = from.lock("k").acquire().await.expect("a lock");
        let (owner, token) = (guard.owner().to_owned(), guard.token());
        guard.detach(ms(5000)).await.expect("a renewal");
        assert_eq!(info(&server, "p:k").owner, owner.as_bytes());
        let adopted = lock.adopt(&owner, token).await.expect("the lock");
        assert!(adopted.token() == token && adopted.is_held());
        adopted.check().await.expect("held");
        adopted.release().await.expect("a release");
        is(lock.adopt(&owner, token).await, Lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_or_none() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    let all = ["c", "b", "a"].map(|key| task.lock(key));
    let other = locks.lock("b").acquire().await.expect("a lock");
    is(several::acquire(&all, Some(ms(0))).await, Busy);
    assert!(is_free(&server, "a"));
    other.release().await.expect("a release");
    let guards = several::acquire(&all, None).await.expect("all");
    let keys: Vec<_> = guards.iter().map(|guard| guard.key().to_vec()).collect();
    assert_eq!(keys, [b"c", b"b", b"a"]);
    assert_eq!(guards[0].owner(), guards[2].owner());
    several::release(guards).await.expect("a release");
    assert!(is_free(&server, "a") && is_free(&server, "c"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_leads_again() {
    let server = Server::start();
    let lock = locks(&server).lock("k");
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let leading = {
        let (lock, tokens) = (lock.clone(), Arc::clone(&tokens));
        tokio::spawn(async move {
            lock.lead(|guard| {
                tokens.lock().expect("tokens").push(guard.token());
                std::future::pending::<Result<(), Error>>()
            })
            .await
        })
    };
    let led = |count| eventually(|| tokens.lock().expect("tokens").len() == count, "a leader");
    led(1);
    delete(&server, "k");
    led(2);
    leading.abort();
    await_free(&server, "k");
    let bad = lock.lead(|_| async { Err(Bad) }).await;
    assert!(bad.is_err());
}

/// For the test of `lead`: any error may be the work's.
#[derive(Debug)]
struct Bad;

impl From<Error> for Bad {
    fn from(_: Error) -> Self {
        Self
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock() {
    let server = Server::start();
    let lock = locks(&server).lock("k");
    let worked = lock.with(async |guard| Ok::<_, Error>(guard.token())).await;
    assert!(worked.expect("work") > 0);
    let failed = lock.with(async |_| Err::<(), Bad>(Bad)).await;
    assert!(failed.is_err() && is_free(&server, "k"));
    let lost = lock.with(async |guard| {
        delete(&server, "k");
        guard.lost().await;
        std::future::pending::<Result<(), Error>>().await
    });
    is(lost.await, Lost);
}

/// A shorter lease of a grant in the session is renewed as such.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_changed() {
    let server = Server::start();
    let guard = locks(&server).lock("k").acquire().await.expect("a lock");
    guard.extend(ms(1000)).await.expect("a renewal");
    assert!(guard.remaining() <= ms(1000));
    tokio::time::sleep(ms(2500)).await; // the time is tested
    assert!(guard.is_held());
    guard.release().await.expect("a release");
}
