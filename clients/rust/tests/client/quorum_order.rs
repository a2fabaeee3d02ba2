//! A lock on five servers is renewed while calls are late: nothing of an earlier call comes behind a later one.

use crate::five::Behind;
use crate::support::{LONG, info, ms, settings};
use testbed::{Fault, Server, eventually};
use tokio::time::sleep;

impl Behind {
    fn leases(&self) -> [i64; 5] {
        let lease = |server: &Server| info(server, "k").lease_ms;
        self.five.servers.each_ref().map(lease)
    }
}

/// Else some servers have another lease than the one that is counted.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_again_of_a_renewal_comes_behind_no_later_one() {
    let behind = Behind::start(settings().lease(LONG));
    let guard = behind.five.hold(&behind.locks.lock("k")).await;
    for (first, lease) in [0, 1, 2, 3, 0, 1, 2, 3].into_iter().zip(30_000..) {
        let late = &behind.proxies[first..][..2];
        for proxy in late {
            proxy.inject(Fault::ResetRequest, "LOCK.RENEW", 1);
            proxy.hold_back("LOCK.RENEW");
        }
        guard.check().await.expect("it is held");
        guard.extend(ms(lease)).await.expect("a renewal");
        for proxy in late {
            proxy.let_go();
        }
        let wanted = [lease; 5].map(|lease| i64::try_from(lease).expect("a number"));
        eventually(|| behind.leases() == wanted, "the lease");
        sleep(ms(50)).await; // what is late would be there by then
        assert_eq!(behind.leases(), wanted);
    }
    guard.release().await.expect("a release");
    eventually(|| behind.five.are_free("k"), "the lock to be free");
}

/// The answers of a minority come too late for the attempt, which would release what they have.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_releases_nothing_behind_a_renewal() {
    let behind = Behind::start(settings().lease(LONG));
    let lock = behind.locks.lock("k");
    let guard = behind.five.hold(&lock).await;
    guard.release().await.expect("a release");
    eventually(|| behind.five.are_free("k"), "the lock to be free");
    for proxy in &behind.proxies[..2] {
        proxy.inject(Fault::Delay(700), "RAISE", 1);
    }
    let guard = lock.acquire().await.expect("a lock");
    let all = vec![(guard.owner().to_owned(), guard.token()); 5];
    eventually(|| behind.five.grants("k") == all, "all to have it");
    guard.extend(ms(30_000)).await.expect("a renewal");
    sleep(ms(900)).await; // the time for an answer is over, and the servers are back
    assert_eq!(behind.five.grants("k"), all);
    assert_eq!(behind.leases(), [30_000; 5]);
    guard.release().await.expect("a release");
    eventually(|| behind.five.are_free("k"), "the lock to be free");
}
