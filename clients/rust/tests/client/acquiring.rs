//! Taking a lock, and what is refused.

use crate::support::{info, is_free, locks, locks_at, ms, settings};
use redis_lock_client::{Error, Locks};
use testbed::{Expect, Server, cmd};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_and_given_back() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks
        .lock("k")
        .lease(ms(20_000))
        .acquire()
        .await
        .expect("a lock");
    let info = info(&server, "k");
    assert_eq!(info.token, i64::try_from(guard.token()).expect("a token"));
    assert_eq!(info.owner, guard.owner().as_bytes());
    assert_eq!((info.holds, info.lease_ms), (1, 20_000));
    assert_eq!(guard.key(), b"k");
    guard.check().await.expect("it is held");
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_acquire_has_an_owner_of_its_own() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k");
    let first = lock.acquire().await.expect("a lock");
    let parts: Vec<_> = first.owner().split(':').collect();
    assert_eq!((parts[0], parts.len()), ("test", 4), "{}", first.owner());
    assert_eq!(parts[2], std::process::id().to_string());
    assert!(lock.try_acquire().await.is_err());
    let (token, owner) = (first.token(), first.owner().to_owned());
    first.release().await.expect("a release");
    let second = lock.try_acquire().await.expect("a lock");
    assert!(second.token() > token && second.owner() != owner);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_wait_ends() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").wait(ms(150));
    let guard = lock.acquire().await.expect("a lock");
    let start = std::time::Instant::now();
    assert!(matches!(lock.acquire().await, Err(Error::Busy)));
    assert!(start.elapsed() >= ms(150), "{:?}", start.elapsed());
    assert_eq!(crate::support::waiters(&server, "k"), Vec::<String>::new());
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_under_a_lock() {
    let server = Server::start();
    let locks = locks(&server);
    let token = locks
        .lock("k")
        .with_lock(async |guard| {
            assert_eq!(info(&server, "k").owner, guard.owner().as_bytes());
            Ok::<_, Error>(guard.token())
        })
        .await
        .expect("work");
    assert!(token > 1 << 32 && is_free(&server, "k"));
}

/// A future that is sent to another thread, as most are, must be able to go there.
#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock_can_be_spawned() {
    let server = Server::start();
    let lock = locks(&server).lock("k");
    let task = tokio::spawn(async move {
        let text = "borrowed".to_owned();
        lock.with_lock(async |guard| {
            tokio::task::yield_now().await;
            Ok::<_, Error>(guard.token() > 0 && text.len() == 8)
        })
        .await
    });
    assert!(task.await.expect("a task").expect("work"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_keep_their_code() {
    let server = Server::start();
    let locks = locks(&server);
    cmd!(server.connection(), "SET", "text", "v").okay();
    let refused = locks.lock("text").acquire().await;
    assert!(
        matches!(&refused, Err(Error::Misuse(text)) if text.starts_with("WRONGTYPE ")),
        "{refused:?}"
    );
    let refused = locks.lock("k").lease(ms(0)).try_acquire().await;
    assert!(
        matches!(&refused, Err(Error::Misuse(text)) if text.starts_with("ERR ")),
        "{refused:?}"
    );
    cmd!(server.connection(), "CONFIG", "SET", "lock.max-waiters", 0).okay();
    let _held = locks.lock("k").acquire().await.expect("a lock");
    let refused = locks.lock("k").acquire().await;
    assert!(
        matches!(&refused, Err(Error::Refused { code, .. }) if code == "MAXWAITERS"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_told_of() {
    let mut server = Server::start();
    server.kill9();
    let locks = locks_at(server.port(), settings().reply_time(ms(200)));
    let start = std::time::Instant::now();
    let refused = locks.lock("k").wait(ms(300)).acquire().await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(start.elapsed() >= ms(300), "it gave up early");
    let refused = locks.lock("k").try_acquire().await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}

#[test]
fn a_client_needs_a_runtime() {
    let refused = Locks::open("redis://127.0.0.1/");
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}

#[tokio::test]
async fn what_can_be_no_owner_is_refused() {
    let locks = Locks::open("redis://127.0.0.1:1/").expect("locks");
    for owner in ["", "*"] {
        let refused = locks.lock("k").owner(owner).acquire().await;
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    }
    let refused = locks.lock("k").adopt(1).await;
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}

/// Each would be taken for something else by the server: a lease that nobody renews, a lock that all share.
#[tokio::test(flavor = "multi_thread")]
async fn what_would_mean_something_else_is_refused() {
    let server = Server::start();
    let locks = locks(&server);
    let zero = std::time::Duration::ZERO;
    for lock in [
        locks.lock("k").keep(zero),
        locks_at(server.port(), settings().keep(zero)).lock("k"),
        locks.permit("k", 0),
    ] {
        let refused = lock.acquire().await;
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
        let refused = lock.owner("me").adopt(1).await;
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    }
}

/// A second grant in its name would be no second place.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_takes_no_name() {
    let server = Server::start();
    let refused = locks(&server).permit("k", 2).owner("me").acquire().await;
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}
