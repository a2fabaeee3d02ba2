//! A lock on several servers: taken, waited for, given back, its token; and servers that are down, hang, or lose it.

use crate::support::*;
use redis_lock_client::ErrorKind::{Busy, Lost, Misuse, Unavailable};
use redis_lock_client::quorum::QuorumGuard;
use redis_lock_client::{Builder, Error, Quorum};
use testbed::redis::Value;
use testbed::{Expect, Server, cmd, eventually};

/// Servers that do not know of each other.
struct Several {
    servers: Vec<Server>,
}

impl Several {
    fn start(count: usize) -> Self {
        let servers = (0..count).map(|_| Server::start()).collect();
        Self { servers }
    }

    fn quorum(&self) -> Quorum {
        self.quorum_with(settings())
    }

    fn quorum_with(&self, settings: Builder) -> Quorum {
        let places = self.servers.iter().map(|it| ("127.0.0.1", it.port()));
        settings.quorum(places).expect("a quorum")
    }

    /// The tokens at the servers that run and have granted the lock.
    fn tokens(&self, key: &str) -> Vec<u64> {
        let up = self.servers.iter().filter(|server| server.is_up());
        let tokens = up.filter_map(|server| {
            let reply = cmd!(server.connection(), "LOCK.INFO", key).value();
            (reply != Value::Nil).then(|| u64::try_from(reply.lock_info().token).expect("a token"))
        });
        tokens.collect()
    }

    fn await_free(&self, key: &str) {
        eventually(|| self.tokens(key).is_empty(), "the lock to be free");
    }

    /// A lock that all servers have granted: on a busy machine, one goes on without those that are late.
    async fn hold(&self, quorum: &Quorum, key: &str) -> QuorumGuard {
        loop {
            let guard = quorum.lock(key).acquire().await.expect("a lock");
            let has_all = || self.tokens(key) == vec![guard.token(); self.servers.len()];
            // A grant whose token was raised late is given back, perhaps after the first look.
            if has_all() && guard.check().await.is_ok() && has_all() {
                return guard;
            }
            guard.release().await.expect("a release");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_have_one_token_and_tokens_rise() {
    let several = Several::start(5);
    let clients = [several.quorum(), several.quorum()];
    let mut last = 0;
    for turn in 0..10 {
        let guard = several.hold(&clients[turn % 2], "k").await;
        assert!(guard.token() > last && guard.is_held() && guard.key() == b"k");
        last = guard.token();
        guard.check().await.expect("held");
        is(clients[(turn + 1) % 2].lock("k").try_acquire().await, Busy);
        guard.release().await.expect("a release");
        several.await_free("k");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_served_in_the_order_of_the_first_line() {
    let several = Several::start(3);
    let quorum = several.quorum();
    let mut guard = quorum.lock("k").acquire().await.expect("a lock");
    is(quorum.lock("k").wait(ms(200)).acquire().await, Busy);
    await_waiters(&several.servers[0], "k", 0); // its place is given up in the background
    let mut all = Vec::new();
    for count in 1..=3 {
        let lock = quorum.lock("k");
        all.push(tokio::spawn(async move { lock.acquire().await }));
        await_waiters(&several.servers[0], "k", count);
    }
    for next in all {
        let token = guard.token();
        guard.release().await.expect("a release");
        guard = next.await.expect("a task").expect("a lock");
        assert!(guard.token() > token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_leaves_no_line_and_no_grant() {
    let several = Several::start(3);
    let quorum = several.quorum();
    let guard = quorum.lock("k").acquire().await.expect("a lock");
    let late = tokio::time::timeout(ms(300), quorum.lock("k").acquire()).await;
    assert!(late.is_err());
    await_waiters(&several.servers[0], "k", 0);
    drop(guard);
    several.await_free("k");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_leases_and_the_end() {
    let several = Several::start(3);
    let quorum = several.quorum_with(settings().lease(ms(1000)));
    let lock = quorum.lock("k");
    let worked = lock.with(async |guard| Ok::<_, Error>(guard.token())).await;
    assert!(worked.expect("work") > 0);
    several.await_free("k");
    let guard = quorum.lock("k").acquire().await.expect("a lock");
    tokio::time::sleep(ms(2500)).await; // the time is tested: each server renews
    assert!(guard.is_held());
    guard.extend(ms(20_000)).await.expect("a renewal");
    assert!(guard.remaining() > ms(15_000));
    quorum.close().await.expect("all released");
    several.await_free("k");
    is(guard.release().await, Misuse);
    is(quorum.lock("k").acquire().await, Misuse);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_ends() {
    let several = Several::start(3);
    let lock = several.quorum().lock("k").fixed(ms(700));
    let guard = lock.acquire().await.expect("a lock");
    assert!(guard.remaining() <= ms(700));
    let loss = guard.lost().await;
    assert!(loss.cause().contains("expired"), "{loss}");
    is(guard.release().await, Lost);
}

/// Two servers may lose it, and a majority is left; a third one ends it, and the rest is given back.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_lost_when_a_majority_has_lost_it() {
    let several = Several::start(5);
    let guard = several.hold(&several.quorum(), "k").await;
    for server in &several.servers[..2] {
        delete(server, "k");
    }
    guard.check().await.expect("held");
    assert!(guard.loss().is_none());
    delete(&several.servers[2], "k");
    let loss = guard.lost().await;
    for part in ["server 1", "server 3", "deleted"] {
        assert!(loss.cause().contains(part), "{loss}");
    }
    several.await_free("k");
    is(guard.check().await, Lost);
    is(guard.release().await, Lost);
}

/// A minority that hangs or is gone holds up nobody for long.
#[tokio::test(flavor = "multi_thread")]
async fn a_minority_may_be_down() {
    let mut several = Several::start(5);
    let quorum = several.quorum();
    let guard = quorum.lock("k").acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    several.servers[0].kill9();
    several.servers[1].signal("STOP");
    for _ in 0..3 {
        let guard = quorum.lock("k").acquire().await.expect("a lock");
        guard.check().await.expect("held");
        guard.release().await.expect("a release");
    }
    several.servers[1].signal("CONT");
    several.servers[0].restart();
    eventually(|| several.tokens("k").is_empty(), "what was missed is sent");
    let guard = several.hold(&quorum, "k").await;
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_that_is_down_is_named() {
    let mut several = Several::start(3);
    let quorum = several.quorum();
    let guard = several.hold(&quorum, "k").await;
    several.servers[1].kill9();
    several.servers[2].kill9();
    let other = quorum.lock("other").wait(ms(500));
    let error = is(other.acquire().await, Unavailable);
    let port = several.servers[2].port().to_string();
    for part in ["server 2", "server 3", &port] {
        assert!(error.cause().contains(part), "{error}");
    }
    is(guard.check().await, Unavailable);
}
