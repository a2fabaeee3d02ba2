//! A lock on five servers whose answers are lost: no call counts twice.

use crate::five::Behind;
use crate::support::{calls, info, is_free, ms, settings};
use testbed::{Proxy, eventually};

impl Behind {
    fn lose_answers_to(&self, command: &str) {
        for proxy in &self.proxies {
            proxy.lose_reply_to(command);
        }
    }

    fn lost(&self) -> usize {
        self.proxies.iter().map(Proxy::lost).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_is_one_hold() {
    let behind = Behind::start(settings());
    for command in ["LOCK.ACQUIRE", "LOCK.RENEW"] {
        let before = behind.lost();
        behind.lose_answers_to(command);
        let guard = behind.locks.lock("k").acquire().await.expect("a lock");
        let five = &behind.five;
        eventually(|| five.are_held_by(&guard), "a majority to have it");
        assert!(behind.lost() >= before + 3, "{} lost", behind.lost());
        let holders = five.servers.iter().filter(|server| !is_free(server, "k"));
        for server in holders {
            assert_eq!(info(server, "k").holds, 1);
        }
        guard.release().await.expect("a release");
        eventually(|| behind.five.are_free("k"), "the lock to be free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_and_a_release_are_done_once() {
    let behind = Behind::start(settings());
    let guard = behind.five.hold(&behind.locks.lock("k")).await;
    let releases = |server| calls(server, "lock.release");
    let before = behind.five.servers.each_ref().map(releases);
    behind.lose_answers_to("LOCK.RENEW");
    guard.extend(ms(20_000)).await.expect("a renewal");
    eventually(|| behind.lost() == 5, "the answers to be lost");
    behind.lose_answers_to("LOCK.RELEASE");
    guard.release().await.expect("a release");
    eventually(|| behind.lost() == 10, "the answers to be lost");
    assert!(behind.five.are_free("k"));
    for (server, before) in behind.five.servers.iter().zip(before) {
        eventually(|| releases(server) >= before + 2, "a second call");
    }
}

/// It ends while the servers are asked, and while they lift their grants.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_leaves_nothing() {
    let behind = Behind::start(settings());
    for command in ["LOCK.ACQUIRE", "LOCK.RENEW"] {
        for proxy in &behind.proxies {
            proxy.hold_back(command);
        }
        let before: usize = behind.proxies.iter().map(Proxy::held_back).sum();
        let lock = behind.locks.lock("k");
        let acquire = tokio::spawn(async move { lock.acquire().await });
        eventually(
            || behind.proxies.iter().map(Proxy::held_back).sum::<usize>() >= before + 3,
            "the requests to a majority",
        );
        acquire.abort();
        assert!(acquire.await.is_err());
        for proxy in &behind.proxies {
            proxy.let_go();
        }
        let seen = |server| calls(server, "lock.release") > 0;
        eventually(|| behind.five.servers.iter().all(seen), "the releases");
        eventually(|| behind.five.are_free("k"), "nothing to stay");
    }
}
