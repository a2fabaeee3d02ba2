//! How long a grant may be trusted: from the sending of the call that set it.

use crate::support::{calls, info, locks, ms, waiters};
use std::time::Instant;
use testbed::{Load, Server, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_counts_from_when_it_was_asked_for() {
    let server = Server::start();
    let locks = locks(&server);
    // So that there is a connection.
    drop(locks.lock("other").acquire().await.expect("a lock"));
    for what in ["acquire", "extend", "enter"] {
        let lock = locks.lock("k").lease(ms(20_000)).fixed();
        let guard = match what {
            "acquire" => None,
            _ => Some(lock.acquire().await.expect("a lock")),
        };
        server.signal("STOP");
        let (load, asked) = (Load::here(), Instant::now());
        let task = tokio::spawn(async move {
            let guard = match guard {
                None => lock.acquire().await?,
                Some(guard) if what == "extend" => {
                    guard.extend(ms(20_000)).await.map(|()| guard)?
                }
                Some(guard) => guard.enter().await?,
            };
            Ok::<_, redis_lock_client::Error>(guard.deadline())
        });
        tokio::time::sleep(ms(500)).await;
        server.signal("CONT");
        let deadline = task.await.expect("a task").expect("a lock");
        let trusted = deadline - asked;
        assert!(
            trusted < ms(20_300) + load.so_far(),
            "{what}: not from the answer: {trusted:?}"
        );
        assert!(
            trusted >= ms(20_000),
            "{what}: the whole lease: {trusted:?}"
        );
        eventually(|| crate::support::is_free(&server, "k"), "the next round");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_wait_a_grant_is_renewed_once_and_counts_from_there() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k").lease(ms(3000));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    tokio::time::sleep(ms(1100)).await;
    let released = Instant::now();
    holder.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("a lock");
    assert_eq!(calls(&server, "lock.renew"), 1);
    assert!(guard.deadline() - released >= ms(3000), "from the renewal");
    // And never longer than the server keeps it.
    let kept = info(&server, "k").ttl_ms;
    let trusted = i64::try_from(guard.remaining().as_millis()).expect("a lease");
    assert!(trusted <= kept + 1, "{trusted} trusted, {kept} kept");
    // Without a wait there is no need for it.
    let other = locks.lock("other").acquire().await.expect("a lock");
    assert_eq!(calls(&server, "lock.renew"), 1);
    drop((guard, other));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_valid_runs_down() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").lease(ms(400)).fixed();
    let guard = lock.acquire().await.expect("a lock");
    let before = guard.remaining();
    assert!(before <= ms(400) && !before.is_zero(), "{before:?}");
    guard.check().await.expect("it is held");
    tokio::time::sleep(ms(420)).await;
    assert!(guard.remaining().is_zero());
    guard.check().await.expect_err("its time has passed");
}
