//! Every call has a limit in time, whatever the server does, and what cannot pass is told at once.

use crate::support::{Watch, is_free, locks, locks_at, ms, settings, waiters};
use redis_lock_client::{Error, Locks, several};
use std::net::TcpListener;
use std::time::Duration;
use testbed::{Expect, Fault, Proxy, Server, cmd, eventually};

/// Much less than any time-out that would have to pass, 20 seconds or more.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How long this takes, but for what a busy machine adds.
async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let start = Watch::here();
    (call.await, start.own())
}

fn at(url: String) -> Locks {
    Locks::open(url).expect("locks")
}

#[tokio::test(flavor = "multi_thread")]
async fn now_or_not_at_all_when_no_server_answers() {
    let mut server = Server::start();
    server.kill9();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_port = silent.local_addr().expect("an address").port();
    for port in [server.port(), silent_port] {
        let locks = at(format!("redis://127.0.0.1:{port}/"));
        let (refused, took) = timed(locks.lock("k").try_acquire()).await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        assert!(took < ms(1500), "{took:?}");
        let ((), took) = timed(locks.close()).await;
        assert!(took < ms(2600), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_at_once() {
    let server = Server::start();
    cmd!(server.connection(), "CONFIG", "SET", "requirepass", "right").okay();
    let port = server.port();
    for (login, why) in [
        (":wrong@", "WRONGPASS"),
        ("nobody:wrong@", "WRONGPASS"),
        ("", "NOAUTH"),
    ] {
        let locks = at(format!("redis://{login}127.0.0.1:{port}/"));
        let (refused, took) = timed(locks.lock("k").wait(ms(20_000)).acquire()).await;
        assert!(
            matches!(&refused, Err(Error::Refused { code, .. }) if code == why),
            "{refused:?}"
        );
        assert!(took < AT_ONCE, "{took:?}");
    }
    let locks = at(format!("redis://:right@127.0.0.1:{port}/"));
    drop(locks.lock("k").acquire().await.expect("a lock"));
    let received = server_connections(port);
    assert!(received < 20, "{received} connections");
}

fn server_connections(port: u16) -> u64 {
    let client =
        redis_lock_client::redis::Client::open(format!("redis://:right@127.0.0.1:{port}/"));
    let mut c = client
        .expect("a client")
        .get_connection()
        .expect("a connection");
    let info: String = cmd!(c, "INFO", "stats")
        .map(|value| testbed::redis::from_redis_value(value).expect("text"))
        .expect("an answer");
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    line.and_then(|count| count.trim().parse().ok())
        .expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_told_at_once() {
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "+ping").okay();
    let locks = at(format!("redis://poor:pw@127.0.0.1:{}/", server.port()));
    let (refused, took) = timed(locks.lock("k").wait(ms(20_000)).acquire()).await;
    assert!(
        matches!(&refused, Err(Error::Refused { code, .. }) if code == "NOPERM"),
        "{refused:?}"
    );
    assert!(took < AT_ONCE, "{took:?}");
}

/// No more than what docs/operations.md gives a service: not even its connections can be named.
#[tokio::test(flavor = "multi_thread")]
async fn few_rights_are_enough() {
    let server = Server::start();
    let mut c = server.connection();
    let rules = [
        "on",
        ">pw",
        "~lock:*",
        "+lock.acquire",
        "+lock.release",
        "+lock.renew",
        "+ping",
    ];
    let mut user = testbed::redis::cmd("ACL");
    user.arg("SETUSER").arg("worker").arg(&rules);
    user.exec(&mut c).expect("a user");
    let locks = at(format!("redis://worker:pw@127.0.0.1:{}/", server.port()));
    let guard = locks
        .lock("lock:k")
        .lease(ms(1000))
        .acquire()
        .await
        .expect("a lock");
    let other = locks.clone();
    let waiting =
        tokio::spawn(async move { other.lock("lock:k").wait(ms(20_000)).acquire().await });
    eventually(|| waiters(&server, "lock:k").len() == 1, "a waiter");
    tokio::time::sleep(ms(1200)).await;
    guard.check().await.expect("it is held");
    guard.release().await.expect("a release");
    drop(waiting.await.expect("a task").expect("a lock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_module_is_told_at_once() {
    let server = Server::builder().without_module().start();
    let locks = locks(&server);
    let (refused, took) = timed(locks.lock("k").acquire()).await;
    let refused = refused.expect_err("no module");
    assert!(
        refused.to_string().contains("is the module lock loaded?"),
        "{refused}"
    );
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_full_is_waited_for() {
    let server = Server::start();
    let mut c = server.connection();
    let locks = locks(&server);
    cmd!(c, "CONFIG", "SET", "maxclients", 1).okay();
    let (refused, took) = timed(locks.lock("k").try_acquire()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1500), "{took:?}");
    let waiting = tokio::spawn(async move { locks.lock("k").wait(ms(20_000)).acquire().await });
    tokio::time::sleep(ms(300)).await;
    cmd!(c, "CONFIG", "SET", "maxclients", 100).okay();
    drop(waiting.await.expect("a task").expect("a lock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_waited_for() {
    let server = Server::start();
    let locks = locks(&server);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let mut c = server.connection();
    cmd!(c, "CONFIG", "SET", "busy-reply-threshold", 100).okay();
    let busy = std::thread::spawn(move || {
        cmd!(c, "EVAL", "while true do end", 0).expect_err("killed");
    });
    let client = server.client();
    let is_busy = || {
        let mut c = client.get_connection().ok()?;
        cmd!(c, "PING").err()
    };
    eventually(|| is_busy().is_some(), "the server to be busy");
    let waiting = tokio::spawn(async move { locks.lock("other").wait(ms(20_000)).acquire().await });
    tokio::time::sleep(ms(300)).await;
    let mut c = client.get_connection().expect("a connection");
    cmd!(c, "SCRIPT", "KILL").okay();
    busy.join().expect("a thread");
    drop(waiting.await.expect("a task").expect("a lock"));
    guard.check().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_and_a_close_are_bounded() {
    let server = Server::start();
    let locks = locks(&server);
    let first = locks.lock("first").acquire().await.expect("a lock");
    let _second = locks.lock("second").acquire().await.expect("a lock");
    let mut waiting = Vec::new();
    for _ in 0..30 {
        let lock = locks.lock("second").wait_forever();
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
    }
    eventually(|| waiters(&server, "second").len() == 30, "all in line");
    server.signal("STOP");
    let (refused, took) = timed(first.release()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(3000), "{took:?}");
    let ((), took) = timed(locks.close()).await;
    assert!(took < ms(3000), "{took:?}");
    for waiting in waiting {
        let outcome = waiting.await.expect("a task");
        assert!(matches!(outcome, Err(Error::Misuse(_))), "{outcome:?}");
    }
    server.signal("CONT");
    eventually(
        || waiters(&server, "second").is_empty(),
        "the line to be empty",
    );
}

/// A network that swallows everything: told in time, and what was held comes free.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_network() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings().lease(ms(2000)));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    proxy.fall_silent();
    let (refused, took) = timed(locks.lock("other").try_acquire()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1500), "{took:?}");
    let (refused, took) = timed(guard.check()).await;
    assert!(
        refused.is_err() && took < ms(2500),
        "{refused:?} after {took:?}"
    );
    assert!(tokio::time::timeout(ms(6000), guard.lost()).await.is_ok());
    proxy.speak();
    eventually(
        || is_free(&server, "k") && is_free(&server, "other"),
        "nothing to stay",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_several_takes_no_longer_than_one() {
    let server = Server::start();
    let locks = locks(&server);
    let all: Vec<_> = (0..5).map(|it| locks.lock(format!("k:{it}"))).collect();
    let guards = several::acquire(&all, ms(5000)).await.expect("all");
    server.signal("STOP");
    let (refused, took) = timed(several::release(guards)).await;
    server.signal("CONT");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(3000), "{took:?}");
}

/// What ends in time is about to be renewed for the last time when the server stops answering.
#[tokio::test(flavor = "multi_thread")]
async fn a_last_renewal_holds_up_no_other_call() {
    let server = Server::start();
    let locks = locks(&server);
    let lock = locks
        .lock("k")
        .owner("me")
        .lease(ms(8000))
        .at_most(ms(9000));
    let guard = lock.acquire().await.expect("a lock");
    let inner = guard.enter().await.expect("a hold");
    server.signal("STOP");
    tokio::time::sleep(ms(1500)).await;
    let (refused, took) = timed(guard.enter()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1500), "{took:?}");
    let (refused, took) = timed(lock.try_acquire()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1500), "{took:?}");
    let (refused, took) = timed(guard.extend(ms(5000))).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1500), "{took:?}");
    let (refused, took) = timed(inner.release()).await;
    server.signal("CONT");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(2500), "{took:?}");
}

/// Connecting, the lock itself, its replicas and the keeper: all within the time of one call.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_server_with_a_replica_takes_no_longer() {
    let server = Server::start();
    let replica = server.replica();
    server.wait_for_sync(&replica);
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    drop(locks.lock("warm").acquire().await.expect("a lock"));
    proxy.inject(Fault::Delay(400), "", 100);
    let lock = locks.lock("k").replicas(1);
    let (refused, took) = timed(lock.try_acquire()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(took < ms(1400), "{took:?}");
    let lock = lock.wait(ms(500));
    let (_, took) = timed(lock.acquire()).await;
    assert!(took < ms(1900), "{took:?}");
    proxy.inject(Fault::Cut, "", 0);
    eventually(|| is_free(&server, "k"), "nothing to stay");
}

/// The turn of the owner, and what comes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_and_a_further_hold_take_no_longer_than_one_call() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let warm = locks.lock("warm").acquire().await.expect("a lock");
    warm.release().await.expect("a release");
    let lock = locks.lock("k").owner("me");
    for adopts in [false, true] {
        proxy.inject(Fault::Delay(800), "LOCK", 2);
        let first = {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        };
        eventually(|| !is_free(&server, "k"), "the first one's grant");
        let info = crate::support::info(&server, "k");
        let token = u64::try_from(info.token).expect("a token");
        let (refused, took) = if adopts {
            timed(lock.adopt(token)).await
        } else {
            timed(lock.try_acquire()).await
        };
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        assert!(took < ms(1300), "{took:?}");
        let guard = first.await.expect("a task").expect("a lock");
        guard.release().await.expect("a release");
        eventually(|| is_free(&server, "k"), "it to be released");
    }
}

/// What passes shortly before the time is over is found.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_try_leaves_time_for_its_answer() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    drop(locks.lock("warm").acquire().await.expect("a lock"));
    proxy.inject(Fault::Delay(3), "", 1000);
    let mut c = server.connection();
    cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 1).okay();
    let trying = tokio::spawn(async move { locks.lock("k").try_acquire().await });
    tokio::time::sleep(ms(780)).await;
    cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 0).okay();
    let guard = trying.await.expect("a task").expect("a lock");
    guard.release().await.expect("a release");
}
