//! A lock on five servers, some of which are down, hang or come back.

use crate::five::Five;
use crate::support::{Watch, calls, is_free, ms};
use redis_lock_client::{Error, Guard, Loss};
use std::time::{Duration, Instant};
use testbed::{Expect, Load, Server, cmd, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_is_enough() {
    for down in 0..=2 {
        let mut five = Five::start();
        for server in &mut five.servers[..down] {
            server.kill9();
        }
        let guard = five.hold(&five.locks().lock("k")).await;
        guard.check().await.expect("a renewal");
        guard.release().await.expect("a release");
        eventually(|| five.are_free("k"), "the lock to be free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn less_is_an_error_that_says_so() {
    let mut five = Five::start();
    for server in &mut five.servers[..3] {
        server.kill9();
    }
    let lock = five.locks().lock("k").wait(ms(400));
    let start = Watch::here();
    let refused = lock.acquire().await;
    assert!(start.own() < ms(2000), "{:?}", start.own());
    let Err(Error::Unavailable(error)) = refused else {
        panic!("{refused:?}");
    };
    let text = error.to_string();
    assert!(text.contains("2 of 5 servers"), "{text}");
    for port in &five.ports()[..3] {
        assert!(text.contains(&format!("127.0.0.1:{port}: ")), "{text}");
    }
    eventually(|| five.are_free("k"), "nothing to stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_come_back_in_time_are_enough() {
    let mut five = Five::start();
    for server in &mut five.servers[..3] {
        server.kill9();
    }
    let lock = five.locks().lock("k");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    five.servers[1].restart();
    let guard = waiting.await.expect("a task").expect("a lock");
    assert_eq!(five.grants("k").len(), 3);
    guard.release().await.expect("a release");
}

/// Not even one time-out is spent on a server that hangs: the others are enough.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_hang_keep_nobody_waiting() {
    let five = Five::start();
    let locks = five.locks();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    five.signal(2, "STOP");
    let start = Watch::here();
    for _ in 0..10 {
        let guard = locks.lock("k").acquire().await.expect("a lock");
        guard.release().await.expect("a release");
    }
    let took = start.own();
    five.signal(2, "CONT");
    assert!(took < ms(1500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_back_is_used_again() {
    let mut five = Five::start();
    let locks = five.locks();
    five.servers[2].kill9();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    five.servers[2].restart();
    eventually(
        || calls(&five.servers[2], "ping") > 0,
        "it to be looked for",
    );
    // The answer to that may not have been read yet.
    for _ in 0..50 {
        let guard = locks.lock("k").acquire().await.expect("a lock");
        let has_all = five.grants("k").len() == 5;
        guard.release().await.expect("a release");
        if has_all {
            return;
        }
        tokio::time::sleep(ms(20)).await;
    }
    panic!("it is not used");
}

/// The server reads the request when everybody has long gone, and grants what it asks for.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_comes_late_is_released() {
    let five = Five::start();
    let locks = five.locks();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    let late = &five.servers[4];
    eventually(|| calls(late, "lock.release") == 1, "a connection to it");
    late.signal("STOP");
    let guard = locks.lock("k").acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    late.signal("CONT");
    eventually(|| calls(late, "lock.acquire") == 2, "the late request");
    eventually(|| is_free(late, "k"), "the late grant to be released");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_minority_has_granted_is_released() {
    let five = Five::start();
    for server in &five.servers[..3] {
        cmd!(server.connection(), "LOCK.ACQUIRE", "k", "other").grant();
    }
    let lock = five.locks().lock("k");
    assert!(lock.try_acquire().await.is_err());
    eventually(
        || five.servers[3..].iter().all(|server| is_free(server, "k")),
        "the grants of the minority to be released",
    );
    assert_eq!(five.grants("k").len(), 3);
}

/// The server has the grant in its log. It is told of the release when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_reaches_a_server_that_was_down() {
    let mut five = Five::start();
    five.servers[0]
        .reconfigure(|settings| {
            let settings = settings.config("appendonly", "yes");
            settings.config("appendfsync", "always")
        })
        .restart();
    let locks = five.locks();
    let guard = five.hold(&locks.lock("k")).await;
    five.servers[0].kill9();
    guard.release().await.expect("a release");
    five.servers[0].restart();
    eventually(|| is_free(&five.servers[0], "k"), "the release");
    assert!(calls(&five.servers[0], "lock.release") >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_go_on_without_a_minority() {
    let five = Five::start();
    let lock = five.locks().lock("k").lease(ms(2000));
    let guard = five.hold(&lock).await;
    five.signal(2, "STOP");
    tokio::time::sleep(ms(5000)).await;
    let checked = guard.check().await;
    five.signal(2, "CONT");
    checked.expect("it is held");
    assert!(calls(&five.servers[4], "lock.renew") >= 5);
    guard.release().await.expect("a release");
    eventually(|| five.are_free("k"), "the lock to be free");
}

/// Two have lost it, and one may have it still: that is no loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_majority_that_may_have_it_still_is_waited_for() {
    let five = Five::start();
    let guard = five.hold(&five.locks().lock("k")).await;
    for server in &five.servers[..2] {
        cmd!(server.connection(), "DEL", "k").int();
    }
    five.servers[2].signal("STOP");
    let refused = guard.check().await;
    five.servers[2].signal("CONT");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    guard.check().await.expect("it is held");
    guard.check().await.expect("a renewal");
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_the_lease_passes() {
    let five = Five::start();
    let lock = five.locks().lock("k").lease(ms(2000));
    let guard = lock.acquire().await.expect("a lock");
    five.signal(3, "STOP");
    let load = Load::here();
    let told = tokio::time::timeout(ms(10_000), guard.lost()).await;
    let late = Instant::now().saturating_duration_since(guard.deadline());
    five.signal(3, "CONT");
    assert_eq!(told, Ok(Loss::Expired));
    assert!(late < ms(500) + load.so_far(), "{late:?} late");
    eventually(|| five.are_free("k"), "the lock to be free");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_forget_it_end_it_when_they_are_a_majority() {
    let mut five = Five::start();
    let lock = five.locks().lock("k").lease(ms(3000));
    let guard = five.hold(&lock).await;
    for server in &mut five.servers[..2] {
        server.kill9();
        server.restart();
    }
    guard.check().await.expect("a renewal");
    let third = &mut five.servers[2];
    third.kill9();
    third.restart();
    let told = tokio::time::timeout(ms(10_000), guard.lost()).await;
    assert_eq!(told, Ok(Loss::NotHeld));
}

/// They do not know the commands.
#[tokio::test(flavor = "multi_thread")]
async fn a_minority_of_other_servers_does_not_matter() {
    let mut five = Five::start();
    for server in &mut five.servers[..2] {
        *server = Server::builder().without_module().start();
    }
    let locks = five.locks();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    guard.check().await.expect("a renewal");
    guard.release().await.expect("a release");
}

async fn timed_release(guard: Guard) -> (Result<(), Error>, Duration) {
    let start = Watch::here();
    (guard.release().await, start.own())
}

/// The release had no answer, which was told within its two seconds.
fn is_told_in_time((released, took): &(Result<(), Error>, Duration)) {
    assert!(
        matches!(released, Err(Error::Unavailable(_))),
        "{released:?}"
    );
    assert!(*took < ms(2600), "{took:?}");
}

/// What hangs is told in time: an acquire that does not wait within a second, a release within two.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_all_hang_are_told_in_time() {
    let five = Five::start();
    let locks = five.locks();
    let guard = five.hold(&locks.lock("k")).await;
    five.signal(5, "STOP");
    let start = Watch::here();
    let refused = locks.lock("other").try_acquire().await;
    let took = start.own();
    let released = timed_release(guard).await;
    five.signal(5, "CONT");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1300), "{took:?}");
    is_told_in_time(&released);
    eventually(
        || five.are_free("k") && five.are_free("other"),
        "nothing to stay",
    );
}

/// The release is told as not answered when the servers hang first then.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_an_answer_is_told() {
    let five = Five::start();
    let locks = five.locks();
    let guard = five.hold(&locks.lock("k")).await;
    five.signal(5, "STOP");
    let released = timed_release(guard).await;
    five.signal(5, "CONT");
    is_told_in_time(&released);
    eventually(|| five.are_free("k"), "it to be released");
}

/// What has been asked and does not answer is no server that says no.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_busy_only_where_a_majority_has_answered() {
    let mut five = Five::start();
    let lock = five.locks().lock("k");
    five.hold(&lock).await.release().await.expect("a release");
    eventually(|| five.are_free("k"), "the lock to be free");
    for server in &mut five.servers[..2] {
        server.kill9();
    }
    five.servers[2].signal("STOP");
    cmd!(five.servers[3].connection(), "LOCK.ACQUIRE", "k", "me").grant();
    let refused = lock.try_acquire().await;
    five.servers[2].signal("CONT");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
}
