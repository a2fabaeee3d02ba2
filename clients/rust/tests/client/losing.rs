//! Losing a lock: told at once, and the work under it ends.

use crate::support::{calls, is_free, locks, locks_at, ms, settings};
use redis_lock_client::{Error, Guard, Loss};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;
use testbed::{Expect, Proxy, Server, cmd, eventually};

/// A guard whose loss nobody would hear of by its lease alone for a while.
async fn held(server: &Server) -> Guard {
    let lock = locks(server).lock("k").owner("me").lease(ms(1500));
    lock.acquire().await.expect("a lock")
}

/// The guard tells of the loss in every way that it has.
async fn assert_lost(guard: Guard, wanted: Loss) {
    let token = guard.cancellation();
    let told = tokio::time::timeout(ms(5000), guard.lost()).await;
    assert_eq!(told, Ok(wanted));
    assert!(token.is_cancelled() && guard.cancellation().is_cancelled());
    assert!(guard.remaining().is_zero());
    assert!(matches!(guard.check().await, Err(Error::Lost(loss)) if loss == wanted));
    let refused = guard.check().await;
    assert!(
        matches!(refused, Err(Error::Lost(loss)) if loss == wanted),
        "{refused:?}"
    );
    let refused = guard.release().await;
    assert!(
        matches!(refused, Err(Error::Lost(loss)) if loss == wanted),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_deleted() {
    let server = Server::start();
    let guard = held(&server).await;
    cmd!(server.connection(), "DEL", "k").int();
    assert_lost(guard, Loss::NotHeld).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_anothers() {
    let server = Server::start();
    let guard = held(&server).await;
    let mut c = server.connection();
    cmd!(c, "MULTI").okay();
    cmd!(c, "DEL", "k").value();
    cmd!(c, "LOCK.ACQUIRE", "k", "other").value();
    cmd!(c, "EXEC").items();
    assert_lost(guard, Loss::NotOwner).await;
    assert_eq!(crate::support::info(&server, "k").owner, b"other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_grant_of_the_same_owner() {
    let server = Server::start();
    let guard = held(&server).await;
    let mut c = server.connection();
    cmd!(c, "MULTI").okay();
    cmd!(c, "DEL", "k").value();
    cmd!(c, "LOCK.ACQUIRE", "k", "me").value();
    cmd!(c, "EXEC").items();
    assert_lost(guard, Loss::Fenced).await;
    assert_eq!(crate::support::info(&server, "k").holds, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_has_passed_in_silence() {
    let server = Server::start();
    let locks = locks_at(server.port(), settings().reply_time(ms(400)));
    let lock = locks.lock("k").lease(ms(1500));
    let guard = lock.acquire().await.expect("a lock");
    server.signal("STOP");
    let deadline = guard.deadline();
    let told = tokio::time::timeout(ms(10_000), guard.lost()).await;
    let late = Instant::now().saturating_duration_since(guard.deadline());
    server.signal("CONT");
    assert_eq!(told, Ok(Loss::Expired));
    assert!(
        guard.deadline() >= deadline && late < ms(500),
        "{late:?} late"
    );
    assert!(guard.remaining().is_zero());
    // Nothing brings it back.
    eventually(|| is_free(&server, "k"), "the lock to be free");
    assert!(matches!(
        guard.check().await,
        Err(Error::Lost(Loss::Expired))
    ));
}

/// The server hears the renewals and keeps the lock, but the holder hears nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_renewed_without_an_answer() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings().reply_time(ms(200)));
    let guard = locks.lock("k").lease(ms(3000)).acquire().await;
    let guard = guard.expect("a lock");
    proxy.fall_silent();
    let told = tokio::time::timeout(ms(10_000), guard.lost()).await;
    assert_eq!(told, Ok(Loss::Expired));
    proxy.speak();
    // Nobody is to wait for a lease that nobody uses.
    eventually(
        || calls(&server, "lock.release") >= 1,
        "the lock to be given back",
    );
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone() {
    let mut server = Server::start();
    let guard = held(&server).await;
    server.kill9();
    assert_eq!(
        tokio::time::timeout(ms(5000), guard.lost()).await,
        Ok(Loss::Expired)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lost_lock_is_dropped() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let server = Server::start();
    let lock = locks(&server).lock("k").lease(ms(1500));
    let was_dropped = Arc::new(AtomicBool::new(false));
    let goes_on = AtomicBool::new(false);
    let outcome = lock
        .with_lock(async |_| {
            let _dropped = Dropped(Arc::clone(&was_dropped));
            cmd!(server.connection(), "DEL", "k").int();
            tokio::time::sleep(ms(20_000)).await;
            goes_on.store(true, SeqCst);
            Ok::<_, Error>(())
        })
        .await;
    assert!(
        matches!(outcome, Err(Error::Lost(Loss::NotHeld))),
        "{outcome:?}"
    );
    assert!(was_dropped.load(SeqCst) && !goes_on.load(SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_nobody_knew_of_is_found_at_the_end_of_the_work() {
    let server = Server::start();
    // The keeper would have told of it.
    let lock = locks(&server).lock("k").fixed();
    let work = lock.with_lock(async |_| {
        cmd!(server.connection(), "DEL", "k").int();
        Ok::<_, Error>(())
    });
    let outcome = work.await;
    assert!(
        matches!(outcome, Err(Error::Lost(Loss::NotHeld))),
        "{outcome:?}"
    );
}

/// The caller's side of the token must not tell other holders of a loss that there is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_caller_cancels_is_the_callers_own() {
    let server = Server::start();
    let guard = held(&server).await;
    guard.cancellation().cancel();
    assert!(!guard.cancellation().is_cancelled());
    guard.check().await.expect("it is held");
}

/// Without an answer the shorter lease may be the one that counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_lease_that_was_not_answered_is_believed() {
    for is_fixed in [false, true] {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let lock = locks_at(proxy.port(), settings()).lock("k");
        let lock = if is_fixed { lock.fixed() } else { lock };
        let guard = lock.acquire().await.expect("a lock");
        // What is refused changes nothing.
        let refused = guard.extend(ms(0)).await;
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
        assert!(guard.remaining() > ms(50_000), "{:?}", guard.remaining());
        proxy.inject(testbed::Fault::Silence, "LOCK.RENEW", 1);
        let unknown = guard.extend(ms(1500)).await;
        assert!(matches!(unknown, Err(Error::Unavailable(_))), "{unknown:?}");
        let told = tokio::time::timeout(ms(5000), guard.lost()).await;
        assert_eq!(told, Ok(Loss::Expired));
    }
}
