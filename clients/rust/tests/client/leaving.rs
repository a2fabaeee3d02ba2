//! An acquire that nobody wants any more leaves neither a hold nor a wait behind; a dropped guard is
//! released.

use crate::support::{LONG, calls, is_free, locks, locks_at, ms, settings, waiters};
use std::time::{Duration, Instant};
use testbed::{Proxy, Server, eventually};

/// A lease or a wait that ended by itself would take a minute: what is over sooner was ended.
const AT_ONCE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_wait_leaves_the_line_at_once() {
    let server = Server::start();
    let locks = locks(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let wait = |owner: &str| {
        let lock = locks.lock("k").owner(owner).wait(LONG);
        tokio::spawn(async move { lock.acquire().await })
    };
    let first = wait("first");
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let second = wait("second");
    eventually(|| waiters(&server, "k").len() == 2, "two waiters");

    let dropped = Instant::now();
    first.abort();
    eventually(|| waiters(&server, "k") == ["second"], "the line to shrink");
    assert!(dropped.elapsed() < AT_ONCE, "{:?}", dropped.elapsed());

    holder.release().await.expect("a release");
    let guard = second.await.expect("a task").expect("a lock");
    assert_eq!(guard.owner(), "second");
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_while_it_is_granted_leaves_nothing() {
    let server = Server::start();
    let locks = locks(&server);
    let mut granted = 0;
    for run in 0..60 {
        let holder = locks.lock("k").acquire().await.expect("a lock");
        let lock = locks.lock("k");
        let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
        eventually(|| waiters(&server, "k").len() == 1, "a waiter");
        let release = tokio::spawn(holder.release());
        // Some before the grant, some after it.
        tokio::time::sleep(Duration::from_micros(50 * (run % 20))).await;
        waiting.abort();
        granted += usize::from(waiting.await.is_ok());
        release.await.expect("a task").expect("a release");
        eventually(|| is_free(&server, "k"), "the grant to be given back");
        assert!(waiters(&server, "k").is_empty());
    }
    println!("{granted} of 60 were granted before they were dropped");
}

/// Who is told that a wait was called off neither holds nor waits from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_was_stopped_is_over() {
    let server = Server::start();
    let locks = locks(&server);
    let mut stopped = 0;
    for run in 0..60 {
        let holder = locks.lock("k").acquire().await.expect("a lock");
        let stop = tokio_util::sync::CancellationToken::new();
        let (lock, told) = (locks.lock("k"), stop.clone());
        let waiting =
            tokio::spawn(async move { lock.acquire_unless(told.cancelled_owned()).await });
        eventually(|| waiters(&server, "k").len() == 1, "a waiter");
        let release = tokio::spawn(holder.release());
        tokio::time::sleep(Duration::from_micros(50 * (run % 20))).await;
        stop.cancel();
        let outcome = waiting.await.expect("a task").expect("no error");
        release.await.expect("a task").expect("a release");
        match outcome {
            Some(guard) => guard.release().await.expect("a release"),
            None => stopped += 1,
        }
        assert!(is_free(&server, "k") && waiters(&server, "k").is_empty());
    }
    println!("{stopped} of 60 were stopped before they were granted");
}

/// The call that waits comes to the server after the release that was to end it, and finds the lock
/// free.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_on_its_way_leaves_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let holder = locks.lock("k").acquire().await.expect("a lock");
    proxy.hold_back("BLOCK");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| proxy.held_back() == 1, "a wait on its way");
    waiting.abort();
    eventually(|| calls(&server, "lock.release") >= 1, "the first release");
    holder.release().await.expect("a release");
    let acquired = calls(&server, "lock.acquire");
    proxy.let_go();
    let arrived = || calls(&server, "lock.acquire") == acquired + 1;
    eventually(arrived, "the wait to arrive");
    eventually(|| is_free(&server, "k"), "the grant to be given back");
    assert!(waiters(&server, "k").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_try_gives_its_grant_back() {
    let server = Server::start();
    let locks = locks(&server);
    // So that there is a connection.
    drop(locks.lock("other").acquire().await.expect("a lock"));
    server.signal("STOP");
    let lock = locks.lock("k");
    let trying = tokio::spawn(async move { lock.try_acquire().await.map(drop) });
    tokio::time::sleep(ms(200)).await;
    trying.abort();
    assert!(trying.await.is_err(), "it had no answer yet");
    server.signal("CONT");
    let acquired = || calls(&server, "lock.acquire") == 2;
    eventually(acquired, "the call to be carried out");
    eventually(|| is_free(&server, "k"), "the grant to be given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_is_released() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    let dropped = Instant::now();
    drop(guard);
    let next = waiting.await.expect("a task").expect("a lock");
    assert!(dropped.elapsed() < AT_ONCE, "{:?}", dropped.elapsed());
    // Also from a thread that knows no runtime.
    std::thread::spawn(move || drop(next))
        .join()
        .expect("a thread");
    eventually(|| is_free(&server, "k"), "the second guard to be released");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_panics_gives_the_lock_back() {
    let server = Server::start();
    let lock = locks(&server).lock("k");
    let task = tokio::spawn(async move {
        let work = lock.with_lock(async |_| panic!("on purpose"));
        let _: Result<(), redis_lock_client::Error> = work.await;
    });
    assert!(task.await.expect_err("a panic").is_panic());
    eventually(|| is_free(&server, "k"), "the lock to be released");
}

#[test]
fn a_guard_may_outlive_the_runtime() {
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let guard = runtime.block_on(async {
        let lock = locks(&server).lock("k");
        lock.acquire().await.expect("a lock")
    });
    drop(runtime);
    // Nobody is left to release it: the lease ends the lock, as the documentation says.
    drop(guard);
    assert!(!is_free(&server, "k"));
}

/// Nobody looks after what it holds any more.
#[test]
fn a_guard_tells_when_the_runtime_of_its_client_has_ended() {
    let server = Server::start();
    let (first, second) = [(); 2]
        .map(|()| tokio::runtime::Runtime::new().expect("a runtime"))
        .into();
    let guard = first.block_on(async {
        let lock = locks(&server).lock("k");
        lock.acquire().await.expect("a lock")
    });
    let token = guard.cancellation();
    assert!(guard.is_held());
    drop(first);
    second.block_on(async {
        let told = tokio::time::timeout(AT_ONCE, guard.lost()).await;
        assert_eq!(told, Ok(redis_lock_client::Loss::Closed));
        assert!(!guard.is_held() && token.is_cancelled() && guard.remaining().is_zero());
        guard.release().await.expect_err("it is lost");
    });
}

/// What was released was not lost, whatever becomes of its client.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_what_was_released_says_nothing_of_its_client() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let token = guard.cancellation();
    guard.release().await.expect("a release");
    locks.close().await;
    drop(locks);
    let told = tokio::time::timeout(ms(500), token.cancelled()).await;
    assert!(told.is_err(), "it was released");
}
