//! Owners that come back, as tasks and those that the caller names: nothing late of one call of theirs may end
//! what a later one has got.

use crate::support::{Watch, calls, info, is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Guard, Lock, Locks};
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};

/// What the proxy sees of `RELEASE … ALL`.
const ALL: &str = "\r\nALL\r\n";

/// The server, some locks behind a proxy, and a connection that has been opened already.
async fn behind_proxy() -> (Server, Proxy, Locks) {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let warm = locks.lock("warm").acquire().await.expect("a lock");
    warm.release().await.expect("a release");
    (server, proxy, locks)
}

/// Another owner has the lock.
fn taken(server: &Server) {
    cmd!(server.connection(), "LOCK.ACQUIRE", "k", "other", "EX", 60).grant();
}

fn free(server: &Server) {
    cmd!(server.connection(), "DEL", "k").int();
}

/// A wait for this lock, when it is in line.
fn in_line(server: &Server, lock: Lock) -> tokio::task::JoinHandle<()> {
    let waiting = tokio::spawn(async move { drop(lock.wait_forever().acquire().await) });
    eventually(|| waiters(server, "k").len() == 1, "a waiter");
    waiting
}

/// It has the lock, and the server says so too.
async fn stands(server: &Server, guard: &Guard) {
    assert!(!is_free(server, "k"), "it was ended");
    let token = i64::try_from(guard.token()).expect("a token");
    assert_eq!(info(server, "k").token, token);
    guard.check().await.expect("it is held");
}

/// The undo of a task's wait comes to the server when the task has the lock by a later call.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_undo_does_not_end_what_a_task_got_since() {
    let (server, proxy, locks) = behind_proxy().await;
    taken(&server);
    let task = locks.task();
    let waiting = in_line(&server, task.lock("k"));
    proxy.hold_back(ALL);
    waiting.abort();
    eventually(|| proxy.held_back() >= 1, "an undo on its way");
    eventually(|| waiters(&server, "k").is_empty(), "the wait to end");
    free(&server);
    let lock = task.lock("k").wait(ms(20_000));
    let guard = lock.acquire().await.expect("a lock");
    let before = calls(&server, "lock.release");
    let late = proxy.held_back() as u64;
    proxy.let_go();
    let arrived = || calls(&server, "lock.release") >= before + late;
    eventually(arrived, "what is late");
    stands(&server, &guard).await;
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

/// A named owner's undo is not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn the_undo_of_a_named_owner_is_sent_once() {
    let (server, proxy, locks) = behind_proxy().await;
    taken(&server);
    let lock = locks.lock("k").owner("me").wait(ms(20_000));
    let waiting = in_line(&server, lock.clone());
    let before = calls(&server, "lock.release");
    proxy.inject(Fault::Keep, ALL, 1);
    waiting.abort();
    eventually(|| proxy.lost() == 1, "an undo without an answer");
    proxy.hold_back(ALL);
    eventually(|| waiters(&server, "k").is_empty(), "the wait to end");
    free(&server);
    let guard = lock.acquire().await.expect("a lock");
    assert_eq!(guard.owner(), "me");
    let late = proxy.held_back() as u64;
    proxy.let_go();
    let arrived = || calls(&server, "lock.release") >= before + 1 + late;
    eventually(arrived, "what is late");
    stands(&server, &guard).await;
    assert_eq!(calls(&server, "lock.release"), before + 1);
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

/// The server stands still while a wait is given up, and the same owner asks again meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_while_the_server_stood_still() {
    let server = Server::start();
    let locks = locks(&server);
    let task = locks.task();
    for (lock, still) in [
        (task.lock("k"), 500),
        (task.lock("k"), 1500),
        (task.lock("k"), 2500),
        (locks.lock("k").owner("me"), 500),
        (locks.lock("k").owner("me"), 1500),
        (locks.lock("k").owner("me"), 2500),
    ] {
        taken(&server);
        let waiting = in_line(&server, lock.clone());
        server.signal("STOP");
        waiting.abort();
        let lock = lock.wait(ms(20_000));
        let again = tokio::spawn(async move { lock.acquire().await });
        tokio::time::sleep(ms(still)).await;
        server.signal("CONT");
        free(&server);
        let guard = again.await.expect("a task").expect("a lock");
        eventually(|| waiters(&server, "k").is_empty(), "the wait to end");
        // What is still on its way, if anything is, is not later than this.
        tokio::time::sleep(ms(1200)).await;
        stands(&server, &guard).await;
        guard.release().await.expect("a release");
        eventually(|| is_free(&server, "k"), "nothing to stay");
    }
}

/// Who has to wait for an undo is told that the server does not answer, not that others have the lock.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_without_an_answer_is_not_busy() {
    let server = Server::start();
    let locks = locks(&server);
    drop(locks.lock("warm").acquire().await.expect("a lock"));
    server.signal("STOP");
    let lock = locks.lock("k").owner("me");
    assert!(tokio::time::timeout(ms(200), lock.acquire()).await.is_err());
    let start = Watch::here();
    let refused = lock.try_acquire().await;
    let took = start.own();
    server.signal("CONT");
    assert!(
        matches!(refused, Err(redis_lock_client::Error::Unavailable(_))),
        "{refused:?}"
    );
    assert!(took < ms(1500), "{took:?}");
    eventually(|| is_free(&server, "k"), "nothing to stay");
}

/// The call of the wait comes to the server after its undo, and is granted: that grant is released by its token.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_named_owner_got_after_its_undo_is_released() {
    let (server, proxy, locks) = behind_proxy().await;
    taken(&server);
    proxy.hold_back("BLOCK");
    let lock = locks.lock("k").owner("me").wait_forever();
    let waiting = tokio::spawn(async move { drop(lock.acquire().await) });
    eventually(|| proxy.held_back() == 1, "a wait on its way");
    let before = calls(&server, "lock.release");
    waiting.abort();
    let undone = || calls(&server, "lock.release") == before + 1;
    eventually(undone, "the undo");
    free(&server);
    let acquired = calls(&server, "lock.acquire");
    proxy.let_go();
    let arrived = || calls(&server, "lock.acquire") == acquired + 1;
    eventually(arrived, "the wait to arrive");
    eventually(|| is_free(&server, "k"), "the grant to be given back");
}

/// So it comes behind the undo of the call before. Newer servers count a call that waits when its wait is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_owner_asks_on_the_keeper_first() {
    let server = Server::start();
    let locks = locks(&server);
    taken(&server);
    let begin = calls(&server, "lock.acquire");
    let _waiting = in_line(&server, locks.lock("k"));
    let before = calls(&server, "lock.acquire");
    let of_a_wait = before - begin;
    let lock = locks.lock("k").owner("me").wait_forever();
    let named = tokio::spawn(async move { drop(lock.acquire().await) });
    eventually(|| waiters(&server, "k").len() == 2, "two waiters");
    assert_eq!(calls(&server, "lock.acquire"), before + of_a_wait);
    named.abort();
}

/// The release of a guard is on its way for long, and the same owner has the grant again meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_release_does_not_end_what_the_owner_got_since() {
    for is_task in [false, true] {
        let (server, proxy, locks) = behind_proxy().await;
        let lock = if is_task {
            locks.task().lock("k")
        } else {
            locks.lock("k").owner("me")
        };
        let lock = lock.wait(ms(20_000));
        let guard = lock.acquire().await.expect("a lock");
        let (asked, released) = (
            calls(&server, "lock.acquire"),
            calls(&server, "lock.release"),
        );
        proxy.hold_back("LOCK.RELEASE");
        drop(guard);
        eventually(|| proxy.held_back() >= 1, "a release on its way");
        let again = tokio::spawn(async move { lock.acquire().await });
        let has_asked = || calls(&server, "lock.acquire") > asked;
        eventually(has_asked, "the next acquire");
        let late = proxy.held_back() as u64;
        proxy.let_go();
        let guard = again.await.expect("a task").expect("a lock");
        // The server has closed the first connection, from which the grant was taken over.
        let arrived = || calls(&server, "lock.release") >= released + late - 1;
        eventually(arrived, "what is late");
        stands(&server, &guard).await;
        guard.release().await.expect("a release");
        assert!(is_free(&server, "k"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_and_the_next_acquire_of_its_owner() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks.lock("k").owner("me").wait(ms(20_000));
    for _ in 0..300 {
        let guard = lock.acquire().await.expect("a lock");
        let next = {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        };
        drop(guard);
        let guard = next.await.expect("a task").expect("a lock");
        guard.check().await.expect("it is held");
        assert_eq!(info(&server, "k").owner, b"me");
        drop(guard);
    }
    eventually(|| is_free(&server, "k"), "it to be released");
}

/// A second acquire of the same owner that is given up takes its own hold away, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_was_given_up_is_given_back() {
    let (server, proxy, locks) = behind_proxy().await;
    for lock in [locks.lock("k").owner("me"), locks.task().lock("k")] {
        let outer = lock.acquire().await.expect("a lock");
        proxy.inject(Fault::Delay(400), "LOCK.ACQUIRE", 1);
        assert!(tokio::time::timeout(ms(100), lock.acquire()).await.is_err());
        eventually(|| proxy.pending() == 0, "the second acquire");
        eventually(
            || info(&server, "k").holds == 1,
            "its hold to be given back",
        );
        stands(&server, &outer).await;
        outer.downgrade().await.expect("its only hold");
        outer.release().await.expect("a release");
        assert!(is_free(&server, "k"));
    }
}

/// What is held here already is held once more by an adoption.
#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_of_what_is_held_here_is_a_further_hold() {
    let server = Server::start();
    let locks = locks(&server);
    let first = locks.lock("k").owner("me").acquire().await.expect("a lock");
    let second = locks.adopt("k", "me", first.token()).await;
    let second = second.expect("a hold");
    first.release().await.expect("a release");
    stands(&server, &second).await;
    free(&server);
    second.lost().await;

    let first = locks.lock("k").owner("me").acquire().await.expect("a lock");
    let second = locks.lock("k").owner("me").adopt(first.token()).await;
    let second = second.expect("a hold");
    free(&server);
    assert_eq!(first.lost().await, second.lost().await);
}

/// However many holds there were: who adopts has one guard.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_is_free_when_it_is_released() {
    let server = Server::start();
    let locks = locks(&server);
    let mut c = server.connection();
    let grant = cmd!(c, "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
    cmd!(c, "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
    let token = u64::try_from(grant.token).expect("a token");
    let guard = locks.adopt("k", "me", token).await.expect("the grant");
    assert_eq!(info(&server, "k").holds, 2);
    guard.release().await.expect("a release");
    assert!(is_free(&server, "k"));
}

/// To leave a lock to somebody else, one must be the only one that has it here.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_hold_alone_can_be_left() {
    let server = Server::start();
    let lock = locks(&server).lock("k").owner("me");
    let first = lock.acquire().await.expect("a lock");
    let second = lock.acquire().await.expect("a hold");
    let refused = second.detach().await;
    assert!(
        matches!(refused, Err(redis_lock_client::Error::Misuse(_))),
        "{refused:?}"
    );
    eventually(
        || info(&server, "k").holds == 1,
        "its hold to be given back",
    );
    stands(&server, &first).await;
    let token = first.detach().await.expect("the last one");
    // It is the same one's still, and so it is got as it stands.
    let again = lock.try_acquire().await.expect("a lock");
    assert_eq!(again.token(), token);
    again.release().await.expect("a release");
}

/// In the owner's name somebody else released it, of which no connection tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_tells_of_a_release_by_somebody_else() {
    let server = Server::start();
    let locks = locks(&server);
    let release = || cmd!(server.connection(), "LOCK.RELEASE", "k", "me", "ALL").int();
    let guard = locks.lock("k").owner("me").acquire().await.expect("a lock");
    guard.check().await.expect("it is held");
    release();
    guard.check().await.expect_err("it is gone");
    assert!(!guard.is_held());
    guard.lost().await;

    let grant = cmd!(server.connection(), "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
    let token = u64::try_from(grant.token).expect("a token");
    let guard = locks.adopt("k", "me", token).await.expect("the grant");
    guard.check().await.expect("it is held");
    release();
    guard.check().await.expect_err("it is gone");
    assert!(!guard.is_held());

    let asked = calls(&server, "lock.fence");
    let guard = locks.task().lock("k").acquire().await.expect("a lock");
    guard.check().await.expect("it is held");
    assert_eq!(
        calls(&server, "lock.fence"),
        asked,
        "only where it is needed"
    );
}
