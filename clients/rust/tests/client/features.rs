//! Leases, hand-overs, several locks, leaders, and work under a lock. Tasks, shared locks and permits are the trial's.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Lost};
use redis_lock_client::{Error, several};
use std::sync::{Arc, Mutex};
use testbed::{Server, eventually};

/// A fixed lease and a maximum time end a grant, which is reported with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn grants_that_end() {
    let server = Server::start();
    let lock = locks(&server).lock("k");
    for (lock, reason) in [
        (lock.clone().fixed(ms(100)), "expired"),
        (lock.at_most(ms(100)), "its maximum time is over"),
    ] {
        let guard = lock.acquire().await.expect("a lock");
        assert_eq!(guard.lost().await.cause(), reason);
        is(guard.release().await, Lost);
        await_free(&server, "k");
    }
}

/// A lease that is changed is renewed as such by the session, and a fixed one ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn leases_that_are_changed() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let fixed = locks.lock("f").fixed(LONG).acquire().await.expect("a lock");
    for guard in [&guard, &fixed] {
        guard.extend(ms(1000)).await.expect("a renewal");
        assert!(guard.remaining() <= ms(1000));
    }
    fixed.lost().await;
    tokio::time::sleep(ms(1500)).await; // the time is tested
    assert!(guard.is_held());
    guard.release().await.expect("a release");
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
