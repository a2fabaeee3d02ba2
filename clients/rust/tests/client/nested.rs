//! Nested use: further holds of the same grant, given back in any order.

use crate::support::{info, is_free, locks, ms};
use redis_lock_client::{Error, Loss};
use testbed::{Expect, Server, cmd, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn holds_are_counted_and_given_back_in_any_order() {
    let server = Server::start();
    let locks = locks(&server);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0]] {
        let outer = locks.lock("k").acquire().await.expect("a lock");
        let middle = outer.enter().await.expect("a hold");
        let inner = middle.enter().await.expect("a hold");
        assert!(
            [&middle, &inner]
                .iter()
                .all(|guard| guard.token() == outer.token())
        );
        assert_eq!(info(&server, "k").holds, 3);
        let mut guards = [Some(outer), Some(middle), Some(inner)];
        for (given_back, number) in order.into_iter().enumerate() {
            assert_eq!(
                info(&server, "k").holds,
                3 - i64::try_from(given_back).expect("few")
            );
            let guard = guards[number].take().expect("a guard");
            guard.release().await.expect("a release");
        }
        assert!(is_free(&server, "k"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_guards_give_back_their_hold_each() {
    let server = Server::start();
    let outer = locks(&server).lock("k").acquire().await.expect("a lock");
    let inner = outer.enter().await.expect("a hold");
    drop(outer);
    eventually(|| info(&server, "k").holds == 1, "one hold to be left");
    inner.check().await.expect("it is still held");
    drop(inner);
    eventually(|| is_free(&server, "k"), "no hold to be left");
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_that_are_released_at_once_leave_nothing() {
    let server = Server::start();
    let locks = locks(&server);
    for _ in 0..20 {
        let outer = locks.lock("k").acquire().await.expect("a lock");
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let inner = outer.enter().await.expect("a hold");
            tasks.push(tokio::spawn(inner.release()));
        }
        tasks.push(tokio::spawn(outer.release()));
        for task in tasks {
            task.await.expect("a task").expect("a release");
        }
        assert!(is_free(&server, "k"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_named_enters_what_it_holds() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").owner("me");
    let outer = lock.acquire().await.expect("a lock");
    let inner = lock.acquire().await.expect("a hold");
    let third = lock.try_acquire().await.expect("a hold");
    assert_eq!(info(&server, "k").holds, 3);
    outer.release().await.expect("a release");
    third.release().await.expect("a release");
    assert_eq!(info(&server, "k").holds, 1);
    assert_eq!(info(&server, "k").owner, b"me");
    inner.release().await.expect("a release");
    assert!(is_free(&server, "k"));
    let again = lock.acquire().await.expect("a lock");
    assert_eq!(info(&server, "k").holds, 1);
    drop(again);
}

#[tokio::test(flavor = "multi_thread")]
async fn to_enter_what_is_lost_is_refused() {
    let server = Server::start();
    let guard = locks(&server).lock("k").acquire().await.expect("a lock");
    cmd!(server.connection(), "DEL", "k").int();
    let refused = guard.enter().await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::NotHeld))),
        "{refused:?}"
    );
    assert_eq!(guard.lost().await, Loss::NotHeld);
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_left_and_resumed_elsewhere() {
    let server = Server::start();
    let (here, there) = (locks(&server), locks(&server));
    let lock = here.lock("k").owner("user:7").lease(ms(30_000));
    let token = lock
        .acquire()
        .await
        .expect("a lock")
        .detach()
        .await
        .expect("a token");
    here.close().await;
    assert_eq!(info(&server, "k").owner, b"user:7");

    let lock = there.lock("k").owner("user:7").lease(ms(50_000));
    let guard = lock.adopt(token).await.expect("the grant");
    assert_eq!(guard.token(), token);
    assert_eq!(info(&server, "k").lease_ms, 50_000);
    guard.release().await.expect("a release");
    let refused = lock.adopt(token).await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::NotHeld))),
        "{refused:?}"
    );
    let newer = lock.acquire().await.expect("a lock");
    let refused = lock.adopt(token).await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::Fenced))),
        "{refused:?}"
    );
    newer.check().await.expect("it is another grant");
}

/// The longest silence that is asked for is the server's, on the next connection too; and so the longest lease.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_entered_again_has_its_longer_silence() {
    let server = Server::start();
    let locks = locks(&server);
    for lock in [locks.task().lock("k"), locks.lock("k").owner("me")] {
        let outer = lock.clone().lease(ms(20_000)).acquire().await;
        let outer = outer.expect("a lock");
        let inner = lock.clone().lease(ms(90_000)).keep(ms(80_000));
        let inner = inner.acquire().await.expect("a hold");
        assert!(outer.remaining() > ms(80_000));
        let last = lock.acquire().await.expect("a hold");
        let told = || locks.holders("k");
        let before = told().await.expect("a holder")[0].kept_by;
        crate::support::end_connections(&server);
        let mut holder = told().await.expect("a holder").remove(0);
        while [None, before].contains(&holder.kept_by) {
            tokio::time::sleep(ms(20)).await;
            holder = told().await.expect("a holder").remove(0);
        }
        assert_eq!((holder.lease, holder.holds), (ms(90_000), 3));
        let fields = cmd!(server.connection(), "LOCK.HOLDERS", "k").items();
        let fields = fields.into_iter().next().expect("a holder").fields();
        assert_eq!(fields["keep-ms"].clone().int(), 80_000);
        for guard in [outer, inner, last] {
            guard.release().await.expect("a release");
        }
    }
}
