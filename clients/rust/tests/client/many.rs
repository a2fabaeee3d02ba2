//! Many at once, without growth.

use crate::support::{end_connections, is_free, locks, locks_at, ms, settings};
use redis_lock_client::Locks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testbed::{Expect, Server, cmd, eventually};
use tokio::task::JoinSet;

/// How much of each: more where there is time for it.
fn scale(usual: usize, long: usize) -> usize {
    if std::env::var_os("LONG").is_some() {
        long
    } else {
        usual
    }
}

fn number(server: &Server, section: &str, field: &str) -> u64 {
    server.info_field(section, field).parse().expect("a number")
}

async fn take_all(locks: &Locks, count: usize) -> Vec<redis_lock_client::Guard> {
    let mut taking = JoinSet::new();
    for number in 0..count {
        let lock = locks.lock(format!("lock:{number}"));
        taking.spawn(async move { lock.wait(ms(30_000)).acquire().await.expect("a lock") });
    }
    taking.join_all().await
}

/// On one thread, which then stands still for longer than the lease.
#[tokio::test]
async fn ten_thousand_locks_survive_a_runtime_that_stands_still() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().lease(ms(2000)));
    let guards = take_all(&locks, 10_000).await;
    std::thread::sleep(Duration::from_secs(3));
    // What has come meanwhile is read, and the clock told.
    tokio::time::sleep(ms(300)).await;
    assert!(guards.iter().all(redis_lock_client::Guard::is_held));
    guards[9_999].check().await.expect("it is held");
    assert_eq!(cmd!(server.connection(), "DBSIZE").int(), 10_000);
    let start = Instant::now();
    drop(guards);
    while cmd!(server.connection(), "DBSIZE").int() > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "not all are released"
        );
        tokio::time::sleep(ms(50)).await;
    }
}

/// The keeper of thousands is killed: all are kept again.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_locks_come_back() {
    let server = Server::start();
    let locks = locks(&server);
    let guards = take_all(&locks, 2_000).await;
    end_connections(&server);
    let kept = || number(&server, "lock", "lock_kept") == 2_000;
    eventually(kept, "all to be kept again");
    assert!(guards.iter().all(redis_lock_client::Guard::is_held));
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_tasks_share_ten_locks() {
    let server = Server::start();
    let locks = locks(&server);
    let inside: Arc<Vec<AtomicBool>> = Arc::new((0..10).map(|_| AtomicBool::new(false)).collect());
    let done = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..500 {
        let (locks, inside, done) = (locks.clone(), Arc::clone(&inside), Arc::clone(&done));
        tasks.spawn(async move {
            let place = number % 10;
            let lock = locks.lock(format!("lock:{place}")).wait_forever();
            for _ in 0..scale(2, 20) {
                let guard = lock.acquire().await.expect("a lock");
                assert!(!inside[place].swap(true, SeqCst), "two at once");
                tokio::task::yield_now().await;
                inside[place].store(false, SeqCst);
                guard.release().await.expect("a release");
                done.fetch_add(1, SeqCst);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(done.load(SeqCst), 500 * scale(2, 20));
    assert!((0..10).all(|place| is_free(&server, &format!("lock:{place}"))));
    // Idle connections do not stay by the hundred.
    let few = || number(&server, "clients", "connected_clients") < 25;
    eventually(few, "idle connections to close");
}

#[tokio::test(flavor = "multi_thread")]
async fn contended_locks_open_no_connections_once_warm() {
    let server = Server::start();
    let locks = locks(&server);
    let rounds = async |count: usize| {
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let lock = locks.lock("k").wait_forever();
            tasks.spawn(async move {
                for _ in 0..count {
                    let guard = lock.acquire().await.expect("a lock");
                    guard.release().await.expect("a release");
                }
            });
        }
        tasks.join_all().await;
    };
    rounds(20).await;
    let opened = || number(&server, "stats", "total_connections_received");
    let looked = Instant::now();
    let before = opened();
    rounds(scale(500, 12_500)).await;
    // But for the look itself.
    assert!(
        opened() - before <= 4,
        "{} in {:?}",
        opened() - before,
        looked.elapsed()
    );
}

/// Waits that are called off give their connections back.
#[tokio::test(flavor = "multi_thread")]
async fn called_off_waits_open_no_connections_once_warm() {
    let server = Server::start();
    let locks = locks(&server);
    let _holder = locks.lock("k").acquire().await.expect("a lock");
    let opened = || number(&server, "stats", "total_connections_received");
    let mut before = 0;
    for round in 0..scale(60, 2000) {
        if round == 5 {
            before = opened();
        }
        let lock = locks.lock("k").wait_forever();
        let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
        let calls = || number(&server, "lock", "lock_waiting");
        // Each look is a connection too: wait a little in place of looking.
        tokio::time::sleep(ms(4)).await;
        waiting.abort();
        let _ = waiting.await;
        if round % 20 == 0 {
            eventually(|| calls() == 0, "the line to be empty");
        }
    }
    let more = opened() - before;
    assert!(more < 40, "{more}");
}
