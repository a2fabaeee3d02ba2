//! Calls whose answer is lost: carried out, repeated, and not counted twice.

use crate::support::{calls, info, is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Locks, Loss};
use testbed::{Expect, Proxy, Server, cmd, eventually};

/// A locks whose answers can be lost.
fn behind_proxy(server: &Server) -> (Proxy, Locks) {
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    (proxy, locks)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_is_one_hold() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    proxy.lose_reply_to("LOCK.ACQUIRE");
    let guard = locks.lock("k").acquire().await.expect("a lock");
    assert_eq!((proxy.lost(), calls(&server, "lock.acquire")), (1, 2));
    assert_eq!(info(&server, "k").holds, 1);
    guard.release().await.expect("a release");

    proxy.lose_reply_to("LOCK.ACQUIRE");
    let guard = locks.lock("k").try_acquire().await.expect("a lock");
    assert_eq!((proxy.lost(), info(&server, "k").holds), (2, 1));
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));

    // However little time there is, a call is repeated once.
    proxy.lose_reply_to("LOCK.ACQUIRE");
    let lock = locks.lock("k").wait(ms(0));
    let guard = lock.acquire().await.expect("a lock");
    assert_eq!((proxy.lost(), info(&server, "k").holds), (3, 1));
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_after_a_wait_is_one_hold() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let holder = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k");
    proxy.lose_reply_to("BLOCK");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    holder.release().await.expect("a release");
    let guard = waiting.await.expect("a task").expect("a lock");
    assert_eq!((proxy.lost(), info(&server, "k").holds), (1, 1));
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_one_hold() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let outer = locks.lock("k").acquire().await.expect("a lock");
    proxy.lose_reply_to("LOCK.ACQUIRE");
    let inner = outer.enter().await.expect("a hold");
    assert_eq!((proxy.lost(), info(&server, "k").holds), (1, 2));
    inner.release().await.expect("a release");
    outer.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_keeps_the_grant() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.lose_reply_to("LOCK.RENEW");
    guard.extend(ms(40_000)).await.expect("a renewal");
    // Twice by the call, and once by the next keeper.
    assert_eq!(proxy.lost(), 1);
    assert!((2..=3).contains(&calls(&server, "lock.renew")));
    assert_eq!(
        (info(&server, "k").holds, info(&server, "k").lease_ms),
        (1, 40_000)
    );
    guard.check().await.expect("it is held");
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_comes_back_keeps_the_grant() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.lose_reply_to("LOCK.RENEW");
    cmd!(server.connection(), "CLIENT", "KILL", "TYPE", "normal").int();
    eventually(|| proxy.lost() == 1, "a renewal");
    eventually(|| calls(&server, "lock.renew") >= 2, "another one");
    guard.check().await.expect("it is held");
    assert_eq!(info(&server, "k").holds, 1);
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_gives_one_hold_back() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let outer = locks.lock("k").acquire().await.expect("a lock");
    let middle = outer.enter().await.expect("a hold");
    let inner = outer.enter().await.expect("a hold");
    proxy.lose_reply_to("LOCK.RELEASE");
    inner.release().await.expect("a release");
    assert_eq!((proxy.lost(), info(&server, "k").holds), (1, 2));
    middle.release().await.expect("a release");
    assert_eq!(info(&server, "k").holds, 1);
    outer.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

/// The second call finds the lock free, or another's. It has been given back: that is no error, and
/// touches nobody's grant.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_release_is_done_when_it_is_repeated() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.lose_reply_to("LOCK.RELEASE");
    guard.release().await.expect("a release");
    assert_eq!(calls(&server, "lock.release"), 2);
    assert!(is_free(&server, "k"));

    let guard = locks.lock("k").acquire().await.expect("a lock");
    let lock = locks.lock("k").owner("other");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    eventually(|| waiters(&server, "k").len() == 1, "a waiter");
    proxy.lose_reply_to("LOCK.RELEASE");
    guard.release().await.expect("a release");
    let next = waiting.await.expect("a task").expect("a lock");
    assert_eq!(calls(&server, "lock.release"), 4);
    assert_eq!(info(&server, "k").owner, b"other");
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_release_of_what_is_lost_is_an_error() {
    let server = Server::start();
    // The keeper would have told of it.
    let lock = locks(&server).lock("k").fixed();
    let guard = lock.acquire().await.expect("a lock");
    cmd!(server.connection(), "DEL", "k").int();
    let refused = guard.release().await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::NotHeld))),
        "{refused:?}"
    );
}

/// A call that could not be sent has done nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_after_a_restart_with_no_data_tells_of_the_loss() {
    let mut server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    server.kill9();
    // From then on it knows of no connection.
    let refused = locks.lock("other").try_acquire().await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    let releasing = tokio::spawn(guard.release());
    tokio::time::sleep(ms(300)).await;
    server.restart();
    let refused = releasing.await.expect("a task");
    assert!(
        matches!(refused, Err(Error::Lost(Loss::NotHeld))),
        "{refused:?}"
    );
}

/// The call is repeated, and what is answered then is a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_a_lost_answer_leaves_nothing() {
    let server = Server::start();
    let (proxy, locks) = behind_proxy(&server);
    let mut c = server.connection();
    drop(locks.lock("warm").acquire().await.expect("a lock"));
    eventually(|| is_free(&server, "warm"), "a release");
    proxy.lose_reply_to("LOCK.ACQUIRE");
    proxy.hold_back("lock-keeper");
    let lock = locks.lock("k");
    let refused = tokio::spawn(async move { lock.acquire().await });
    eventually(|| proxy.held_back() == 1, "the next keeper");
    assert!(!is_free(&server, "k"));
    cmd!(c, "CONFIG", "SET", "maxmemory", 1).okay();
    proxy.let_go();
    let refused = refused.await.expect("a task");
    cmd!(c, "CONFIG", "SET", "maxmemory", 0).okay();
    assert!(
        matches!(&refused, Err(Error::Refused { code, .. }) if code == "OOM"),
        "{refused:?}"
    );
    eventually(|| is_free(&server, "k"), "it to be given back");
}
