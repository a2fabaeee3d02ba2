//! What one owner has here, and what else it has.

use crate::support::{calls, info, is_free, locks, locks_at, ms, settings};
use redis_lock_client::{Error, Loss};
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};

/// Further holds of the same owner were taken elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_guard_frees_what_has_more_holds() {
    let server = Server::start();
    let lock = locks(&server).lock("k").owner("me");
    let more = || {
        for _ in 0..3 {
            cmd!(server.connection(), "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
        }
    };
    more();
    let guard = lock.acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"), "it is held by nobody");

    more();
    let token = u64::try_from(info(&server, "k").token).expect("a token");
    let outer = lock.adopt(token).await.expect("the grant");
    let inner = outer.enter().await.expect("a hold");
    inner.release().await.expect("a release");
    outer.check().await.expect("it is held");
    outer.release().await.expect("a release");
    assert!(is_free(&server, "k"), "it is held by nobody");
}

/// Somebody in this process asks for it, or adopts it, while it is being left to somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_a_lock_is_left_knows_when_it_is_lost() {
    for adopts in [false, true] {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let locks = locks_at(proxy.port(), settings().lease(ms(1500)));
        let lock = locks.lock("k");
        let lock = if adopts { lock } else { lock.owner("me") };
        let guard = lock.acquire().await.expect("a lock");
        let (owner, token) = (guard.owner().to_owned(), guard.token());
        let before = calls(&server, "lock.renew");
        proxy.inject(Fault::Delay(300), "LOCK.RENEW", 1);
        let leaving = tokio::spawn(guard.detach());
        eventually(|| calls(&server, "lock.renew") > before, "it to be left");
        let next = if adopts {
            locks.adopt("k", owner, token).await
        } else {
            lock.acquire().await
        };
        let next = next.expect("a lock");
        leaving.await.expect("a task").expect("it is left");
        tokio::time::sleep(ms(2000)).await;
        assert!(next.is_held() && !is_free(&server, "k"), "it is kept");
        cmd!(server.connection(), "DEL", "k").int();
        let told = tokio::time::timeout(ms(5000), next.lost()).await;
        assert_eq!(told, Ok(Loss::NotHeld));
    }
}

/// The network comes back just after the loss, and the owner has the grant again before what is left of it is cleared
/// away.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_and_got_again_is_not_released() {
    for adopts in [false, true] {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let locks = locks_at(proxy.port(), settings().lease(ms(1500)).reply_time(ms(900)));
        let lock = locks.lock("k").owner("me").wait(ms(20_000));
        let guard = lock.acquire().await.expect("a lock");
        let token = guard.token();
        proxy.swallow();
        assert_eq!(guard.lost().await, Loss::Expired);
        let again = {
            let lock = lock.clone();
            tokio::spawn(async move {
                if adopts {
                    lock.adopt(token).await
                } else {
                    lock.acquire().await
                }
            })
        };
        tokio::time::sleep(ms(100)).await;
        proxy.speak();
        match again.await.expect("a task") {
            Ok(again) => {
                // What is still on its way, if anything is, is not later than this.
                tokio::time::sleep(ms(1500)).await;
                assert!(!again.is_held() || !is_free(&server, "k"), "it was ended");
            }
            Err(error) => {
                assert!(
                    adopts && matches!(error, Error::Lost(_) | Error::Unavailable(_)),
                    "{error:?}"
                );
            }
        }
    }
}

/// Whoever has it here has it with whom adopts it here, also where nobody has named the owner.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_left_is_held_once_more_by_an_adoption() {
    let server = Server::start();
    let locks = locks(&server);
    let first = locks.lock("k").acquire().await.expect("a lock");
    let second = locks.adopt("k", first.owner(), first.token()).await;
    let second = second.expect("a hold");
    assert_eq!(info(&server, "k").holds, 2);
    first.release().await.expect("a release");
    second.check().await.expect("it is held");
    assert!(!is_free(&server, "k"));
    second.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}
