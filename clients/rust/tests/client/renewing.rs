//! Renewal in the background.

use crate::support::{calls, locks, locks_at, info, ms, settings};
use std::time::Duration;
use testbed::{Expect, Server, cmd, eventually};
use tokio::runtime::Handle;

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_outlives_its_lease_while_it_is_held() {
    let server = Server::start();
    let guard = locks(&server)
        .lock("k")
        .lease(ms(1500))
        .acquire()
        .await
        .expect("a lock");
    tokio::time::sleep(ms(4800)).await;
    guard.check().expect("it is held");
    let token = i64::try_from(guard.token()).expect("a token");
    assert_eq!(info(&server, "k").token, token);
    let renewals = calls(&server, "lock.renew");
    // Every 500 ms; fewer on a busy machine, never more.
    assert!((6..=9).contains(&renewals), "{renewals}");
    guard.release().await.expect("a release");
    let renewals = calls(&server, "lock.renew");
    tokio::time::sleep(ms(700)).await;
    assert_eq!(
        calls(&server, "lock.renew"),
        renewals,
        "none after the release"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_renews_all_locks() {
    const LOCKS: usize = 50;
    let server = Server::start();
    let locks = locks(&server);
    let mut guards = vec![
        locks
            .lock("0")
            .lease(ms(1500))
            .acquire()
            .await
            .expect("a lock"),
    ];
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let tasks_for_one = tasks();
    for number in 1..LOCKS {
        let lock = locks.lock(number.to_string()).lease(ms(1500));
        guards.push(lock.acquire().await.expect("a lock"));
    }
    // The task that took a lock may end a little after its caller has it.
    eventually(|| tasks() <= tasks_for_one, "no more tasks than for one");
    tokio::time::sleep(ms(3000)).await;
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    assert_eq!(cmd!(server.connection(), "DBSIZE").int(), 50);
    drop(guards);
    eventually(
        || cmd!(server.connection(), "DBSIZE").int() == 0,
        "all to be released",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_a_lock_ends_with_its_lease() {
    let server = Server::start();
    let lock = locks(&server).lock("k").lease(ms(500)).fixed();
    let guard = lock.acquire().await.expect("a lock");
    let loss = tokio::time::timeout(ms(5000), guard.lost())
        .await
        .expect("a loss");
    assert_eq!(loss, redis_lock_client::Loss::Expired);
    assert_eq!(calls(&server, "lock.renew"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_is_renewed_in_its_own_time() {
    let server = Server::start();
    let guard = locks(&server).lock("k").acquire().await.expect("a lock");
    guard.extend(ms(900)).await.expect("a renewal");
    assert!(guard.remaining() <= ms(900));
    tokio::time::sleep(ms(1800)).await;
    guard.check().expect("it is held");
    assert!(calls(&server, "lock.renew") >= 3);
    assert_eq!(info(&server, "k").lease_ms, 900);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_renewal_is_tried_again_within_the_lease() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(300)));
    let guard = locks
        .lock("k")
        .lease(ms(6000))
        .acquire()
        .await
        .expect("a lock");
    // Away when the first renewal is due, and back before the lease ends.
    tokio::time::sleep(ms(1500)).await;
    server.signal("STOP");
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.signal("CONT");
    tokio::time::sleep(Duration::from_secs(4)).await;
    guard.check().expect("it is held");
    guard.release().await.expect("a release");
}
