//! A lock on five servers, some of which are down, hang, or lose what they granted.

use crate::quorum::Several;
use crate::support::*;
use redis_lock_client::ErrorKind::{Lost, Unavailable};
use testbed::eventually;

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
    quorum
        .lock("k")
        .acquire()
        .await
        .expect("a lock")
        .release()
        .await
        .expect("a release");
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
    several
        .hold(&quorum, "k")
        .await
        .release()
        .await
        .expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_that_is_down_is_named() {
    let mut several = Several::start(3);
    let quorum = several.quorum();
    let guard = several.hold(&quorum, "k").await;
    several.servers[1].kill9();
    several.servers[2].kill9();
    let error = is(
        quorum.lock("other").wait(ms(500)).acquire().await,
        Unavailable,
    );
    for part in [
        "server 2",
        "server 3",
        &several.servers[2].port().to_string(),
    ] {
        assert!(error.cause().contains(part), "{error}");
    }
    is(guard.check().await, Unavailable);
}
