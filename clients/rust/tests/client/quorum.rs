//! A lock on five servers: taken, renewed, entered, given back, and its token.

use crate::five::Five;
use crate::support::{calls, ms, settings};
use redis_lock_client::{Error, Locks, Loss};
use testbed::{Expect, cmd, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_have_one_token() {
    let five = Five::start();
    let locks = five.locks();
    let guard = five.hold(&locks.lock("k")).await;
    assert_eq!(
        five.grants("k"),
        vec![(guard.owner().to_owned(), guard.token()); 5]
    );
    assert!(guard.owner().starts_with("test:"));
    assert!(guard.remaining() < ms(59_500) && guard.remaining() > ms(50_000));
    guard.release().await.expect("a release");
    eventually(|| five.are_free("k"), "the lock to be free");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_from_holder_to_holder() {
    let five = Five::start();
    let clients = [five.locks(), five.locks()];
    let mut last = 0;
    for turn in 0..20 {
        let lock = clients[turn % 2].lock("k");
        let guard = lock.acquire().await.expect("a lock");
        assert!(guard.token() > last, "{} after {last}", guard.token());
        last = guard.token();
        guard.release().await.expect("a release");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_is_not_granted_again() {
    let five = Five::start();
    let locks = five.locks();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let other = five.locks().lock("k").wait(ms(300));
    assert!(other.try_acquire().await.is_err());
    let refused = other.acquire().await;
    assert!(matches!(refused, Err(Error::Busy)), "{refused:?}");
    guard.check().await.expect("it is held");
    guard.release().await.expect("a release");
    drop(other.acquire().await.expect("a lock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_renews_itself() {
    let five = Five::start();
    let guard = five.locks().lock("k").lease(ms(900)).acquire().await;
    let guard = guard.expect("a lock");
    tokio::time::sleep(ms(2500)).await;
    guard.check().await.expect("it is held");
    assert!(calls(&five.servers[0], "lock.renew") >= 4);
    guard.extend(ms(20_000)).await.expect("a renewal");
    assert!(guard.remaining() > ms(15_000));
    guard.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_counted_by_the_client() {
    let five = Five::start();
    let outer = five.hold(&five.locks().lock("k")).await;
    let inner = outer.enter().await.expect("a hold");
    assert_eq!(inner.token(), outer.token());
    outer.release().await.expect("a release");
    assert_eq!(five.grants("k").len(), 5);
    inner.release().await.expect("a release");
    eventually(|| five.are_free("k"), "the lock to be free");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_under_it() {
    let five = Five::start();
    let lock = five.locks().lock("k");
    let token = lock
        .with_lock(async |guard| Ok::<_, Error>(guard.token()))
        .await;
    assert!(token.expect("work") > 0);
    eventually(|| five.are_free("k"), "the lock to be free");
}

/// Two servers may lose it, and a majority is left; a third one ends it.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_lost_when_a_majority_has_lost_it() {
    let five = Five::start();
    let guard = five.hold(&five.locks().lock("k")).await;
    for server in &five.servers[..2] {
        assert_eq!(cmd!(server.connection(), "DEL", "k").int(), 1);
    }
    guard.check().await.expect("a renewal");
    assert_eq!(five.grants("k").len(), 3, "none is taken again");
    cmd!(five.servers[2].connection(), "DEL", "k").int();
    cmd!(five.servers[2].connection(), "LOCK.ACQUIRE", "k", "other").grant();
    let refused = guard.check().await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::NotOwner))),
        "{refused:?}"
    );
    assert_eq!(guard.lost().await, Loss::NotOwner);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_is_told_by_the_release() {
    let five = Five::start();
    let guard = five.hold(&five.locks().lock("k")).await;
    for server in &five.servers[..3] {
        cmd!(server.connection(), "DEL", "k").int();
    }
    let refused = guard.release().await;
    assert!(
        matches!(refused, Err(Error::Lost(Loss::NotHeld))),
        "{refused:?}"
    );
    eventually(|| five.are_free("k"), "the rest to be given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_client_goes_on_with_it() {
    let five = Five::start();
    let guard = five.locks().lock("k").acquire().await.expect("a lock");
    let owner = guard.owner().to_owned();
    let token = guard.detach().await.expect("a token");
    let lock = five.locks().lock("k").owner(owner);
    let guard = lock.adopt(token).await.expect("the lock");
    assert_eq!(guard.token(), token);
    guard.release().await.expect("a release");
    eventually(|| five.are_free("k"), "the lock to be free");
}

/// What earlier attempts of one owner have left would be counted with the grants of a later one.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_of_the_callers_choice_is_refused() {
    let five = Five::start();
    let refused = five.locks().lock("k").owner("me").acquire().await;
    assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_quorum_is_refused() {
    let of = |ports: &[u16]| -> Result<Locks, Error> {
        settings().quorum(ports.iter().map(|port| ("127.0.0.1", *port)))
    };
    for ports in [&[][..], &[1], &[1, 2], &[1, 2, 3, 4], &[1, 2, 1]] {
        let refused = of(ports);
        assert!(
            matches!(refused, Err(Error::Misuse(_))),
            "{ports:?}: {refused:?}"
        );
    }
    of(&[1, 2, 3]).expect("a quorum of three");
}

/// The answer of a server is what it is, whichever server gives it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_majority_is_told() {
    let five = Five::start();
    for server in &five.servers[..2] {
        cmd!(server.connection(), "SET", "k", 1).okay();
    }
    let locks = five.locks();
    let guard = locks.lock("k").acquire().await.expect("a lock");
    guard.release().await.expect("a release");
    eventually(
        || calls(&five.servers[4], "lock.release") == 1,
        "all to know",
    );
    cmd!(five.servers[2].connection(), "SET", "k", 1).okay();
    let refused = locks.lock("k").acquire().await;
    assert!(
        matches!(&refused, Err(Error::Misuse(text)) if text.starts_with("WRONGTYPE ")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_too_short_to_be_trusted_is_no_lock() {
    let five = Five::start();
    let lock = five.locks().lock("k").lease(ms(2)).wait(ms(50));
    let refused = lock.acquire().await;
    assert!(
        matches!(refused, Err(Error::Busy | Error::Unavailable(_))),
        "{refused:?}"
    );
    eventually(|| five.are_free("k"), "nothing to stay");
}

/// Clocks that run at other speeds are allowed for, as in a renewal; and what is fixed stays so.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_tells_no_more_than_may_be_trusted() {
    let five = Five::start();
    let guard = five.hold(&five.locks().lock("k")).await;
    guard.check().await.expect("it is held");
    assert!(guard.remaining() < ms(59_500), "{:?}", guard.remaining());
    let fixed = five.locks().lock("fixed").fixed().lease(ms(2000));
    let guard = fixed.acquire().await.expect("a lock");
    let before = guard.deadline();
    guard.check().await.expect("it is held");
    assert_eq!(guard.deadline(), before);
}
