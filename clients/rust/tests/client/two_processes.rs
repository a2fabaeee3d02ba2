//! One owner in several processes: of a kept grant the last to ask has it, and the others are told once.

use crate::support::{calls, is_free, kept_by, locks, locks_at, ms, settings};
use redis_lock_client::{Error, Guard, Locks, Loss};
use testbed::{Expect, Proxy, Server, cmd, eventually};

async fn loss(guard: &Guard) -> Loss {
    let told = tokio::time::timeout(ms(10_000), guard.lost()).await;
    told.expect("a loss")
}

fn closes(server: &Server) -> u64 {
    let count = server.info_field("lock", "lock_kept_closes");
    count.parse().expect("a number")
}

/// Told as lost, and nothing of it is sent.
async fn is_told(server: &Server, first: Guard, second: &Guard, other: &Guard) {
    assert_eq!(loss(&first).await, Loss::KeptElsewhere);
    let (keeper, renewals) = (kept_by(server, "k"), calls(server, "lock.renew"));
    let releases = calls(server, "lock.release");
    other.check().await.expect("it is held");
    assert!(matches!(
        first.release().await,
        Err(Error::Lost(Loss::KeptElsewhere))
    ));
    // In a second they would have taken it from each other twenty times.
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(kept_by(server, "k"), keeper);
    assert_eq!(closes(server), 1);
    assert_eq!(calls(server, "lock.release"), releases);
    assert!(calls(server, "lock.renew") <= renewals + 1, "of the other");
    second.check().await.expect("it is held");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_to_ask_has_it() {
    let server = Server::start();
    let (one, two) = (locks(&server), locks(&server));
    let acquire = async |locks: &Locks| locks.lock("k").owner("me").acquire().await;
    let other = one.lock("other").acquire().await.expect("a lock");
    let first = acquire(&one).await.expect("a lock");
    let second = acquire(&two).await.expect("the same lock");
    assert_eq!(first.token(), second.token());
    is_told(&server, first, &second, &other).await;
    // Asking again takes it back, once.
    let third = acquire(&one).await.expect("the same lock");
    assert_eq!(third.token(), second.token());
    assert_eq!(loss(&second).await, Loss::KeptElsewhere);
    third.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_is_not_taken_back() {
    let server = Server::start();
    let (one, two) = (locks(&server), locks(&server));
    let other = one.lock("other").acquire().await.expect("a lock");
    let mut c = server.connection();
    let grant = cmd!(c, "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
    let token = u64::try_from(grant.token).expect("a token");
    let first = one.adopt("k", "me", token).await.expect("the grant");
    let second = two.adopt("k", "me", token).await.expect("the grant");
    is_told(&server, first, &second, &other).await;
}

/// A check while there is no keeper does not take it back either.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_does_not_take_it_back() {
    let server = Server::start();
    for _ in 0..20 {
        let (one, two) = (locks(&server), locks(&server));
        let first = one.lock("k").owner("me").acquire().await.expect("a lock");
        let second = two.lock("k").owner("me").acquire().await.expect("a lock");
        let told = first.check().await;
        assert!(
            matches!(told, Err(Error::Lost(Loss::KeptElsewhere))),
            "{told:?}"
        );
        second.check().await.expect("it is held");
        second.release().await.expect("a release");
    }
}

/// What the server believes to be kept by an earlier connection of the same client is its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_was_forgotten_on_its_way_loses_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings().lease(ms(3000)));
    let guard = locks.lock("k").owner("me").acquire().await.expect("a lock");
    let before = kept_by(&server, "k");
    proxy.forget();
    let is_back = || ![0, before].contains(&kept_by(&server, "k"));
    eventually(is_back, "the next keeper");
    guard.check().await.expect("it is held");
    guard.release().await.expect("a release");
}

/// Without the right to look, it is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_look_it_is_renewed() {
    let server = Server::start();
    let mut c = server.connection();
    let rules = [
        "on",
        ">pw",
        "~*",
        "+lock.acquire",
        "+lock.release",
        "+lock.renew",
        "+ping",
    ];
    for more in [&[][..], &["+lock.holders"][..], &["+client|id"][..]] {
        let mut user = testbed::redis::cmd("ACL");
        user.arg("SETUSER")
            .arg("worker")
            .arg("reset")
            .arg(&rules)
            .arg(more);
        user.exec(&mut c).expect("a user");
        let url = format!("redis://worker:pw@127.0.0.1:{}/", server.port());
        let locks = settings().single(url).expect("locks");
        let guard = locks.lock("k").owner("me").acquire().await.expect("a lock");
        let before = kept_by(&server, "k");
        cmd!(c, "CLIENT", "KILL", "ID", before).int();
        let is_back = || ![0, before].contains(&kept_by(&server, "k"));
        eventually(is_back, "the next keeper");
        guard.release().await.expect("a release");
    }
}

/// After a restart the server counts its connections anew: what was an own one is another's.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_before_a_restart_is_anybodys() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    let id = |server: &Server| cmd!(server.connection(), "CLIENT", "ID").int();
    while id(&server) < 100 {}
    let (one, two) = (locks(&server), locks(&server));
    let first = one.lock("k").owner("me").acquire().await.expect("a lock");
    let own = kept_by(&server, "k");
    server.stop();
    server.restart();
    eventually(|| kept_by(&server, "k") > 0, "it to be kept again");
    assert!(kept_by(&server, "k") < own);
    while id(&server) < own - 1 {}
    let second = two.lock("k").owner("me").acquire().await.expect("the lock");
    assert_eq!(kept_by(&server, "k"), own, "the same id");
    assert_eq!(loss(&first).await, Loss::KeptElsewhere);
    second.check().await.expect("it is held");
}

/// An adoption that was given up, and may not be ended just then, is kept by nobody.
#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_that_could_not_be_called_off_is_not_kept() {
    let server = Server::start();
    let mut c = server.connection();
    let proxy = Proxy::start(server.port());
    let locks = locks_at(proxy.port(), settings());
    let other = locks.lock("other").acquire().await.expect("a lock");
    let grant = cmd!(c, "LOCK.ACQUIRE", "k", "me", "EX", 60).grant();
    let token = u64::try_from(grant.token).expect("a token");
    proxy.inject(testbed::Fault::Delay(500), "LOCK.RENEW", 1);
    let adopting = tokio::spawn(async move { locks.adopt("k", "me", token).await.map(drop) });
    eventually(|| kept_by(&server, "k") > 0, "it to be kept");
    cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 1).okay();
    adopting.abort();
    let refused = || {
        server
            .info("errorstats")
            .contains_key("errorstat_NOREPLICAS")
    };
    eventually(refused, "its undo");
    cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 0).okay();
    eventually(|| kept_by(&server, "k") == 0, "nobody to keep it");
    eventually(|| kept_by(&server, "other") > 0, "the other to be kept");
    assert!(!is_free(&server, "k"), "it is another's");
    other.check().await.expect("it is held");
}
