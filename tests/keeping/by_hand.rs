//! An administrator's PERSIST and PEXPIRE of a kept lock.

use crate::support::{Keeper, at_one_moment, await_renewals, end_of_lease, kept_by, run, stands};
use testbed::state::unix_ms;
use testbed::{Expect, Load, Server, eventually};

#[test]
fn a_persisted_lock_is_not_renewed_and_stays_kept() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 1000 KEEP 60000");
    keeper.acquire("clock a PX 1000 KEEP 60000");
    run(&mut c, "PERSIST k").int();
    await_renewals(&server, 4);
    assert_eq!(run(&mut c, "PTTL k").int(), -1);
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    keeper.is_answered();
}

/// When the PERSIST is lifted, the third is counted anew.
#[test]
fn a_lifted_persist_begins_the_third_anew() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let token = keeper.acquire("k a PX 3000 KEEP 60000").token;
    keeper.acquire("clock a PX 1000 KEEP 60000");
    for (lift, is_call) in [("PEXPIRE k 60000", false), ("LOCK.RENEW k a", true)] {
        run(&mut c, "PERSIST k").int();
        await_renewals(&server, 4);
        run(&mut c, lift).value();
        let lifted = unix_ms();
        let load = Load::on(&server);
        let end = end_of_lease(&mut c);
        eventually(|| end_of_lease(&mut c) != end, "a renewal");
        let renewed = end_of_lease(&mut c) - 3000;
        let after = renewed - lifted;
        // It is looked at now and then while it is persisted, and no later than its lease says.
        let early = if is_call { -10 } else { -200 };
        let latest = 1600 + load.so_far_ms();
        assert!((1000 + early..latest).contains(&after), "{lift}: {after}");
    }
    // A re-entry and a partial release leave it persisted, and kept.
    run(&mut c, "PERSIST k").int();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(run(&mut c, "PTTL k").int(), -1);
    stands(&mut c, token);
    keeper.is_answered();
}

/// A PERSIST that is lifted with less than a third of the lease.
#[test]
fn a_persist_that_is_lifted_by_a_short_expiry_is_renewed_in_time() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 3000 KEEP 60000");
    keeper.acquire("clock a PX 1000 KEEP 60000");
    run(&mut c, "PERSIST k").int();
    await_renewals(&server, 4);
    run(&mut c, "PEXPIRE k 800").int();
    let end = end_of_lease(&mut c);
    eventually(|| end_of_lease(&mut c) > end, "a renewal");
    keeper.is_answered();
}

#[test]
fn an_expiry_by_hand_stands_until_the_next_own_renewal() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let before = unix_ms();
    keeper.acquire("k a PX 3000 KEEP 60000");
    for (expiry, others) in [(1900, false), (60_000, true)] {
        run(&mut c, &format!("PEXPIRE k {expiry}")).int();
        let end = end_of_lease(&mut c);
        eventually(
            || {
                let now = end_of_lease(&mut c);
                assert_ne!(now, -2, "lost");
                now != end
            },
            "the next renewal",
        );
        let renewed = end_of_lease(&mut c) - 3000;
        assert!(renewed - before >= 1000, "{others}");
    }
    keeper.is_answered();
}

/// One that ends before the next renewal ends the grant.
#[test]
fn an_expiry_by_hand_before_the_next_renewal_ends_the_grant() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 30000 KEEP 60000");
    let lines = ["PEXPIRE k 100", "PEXPIRETIME k"];
    let end = at_one_moment(&mut c, &lines).remove(1).int();
    keeper.is_closed();
    assert!(unix_ms() >= end);
    let granted = run(&mut c, "LOCK.ACQUIRE k b").grant();
    assert!(granted.token >= end * 1000);
}

/// Shares are renewed whatever is done to the key, which gives it its TTL again.
#[test]
fn a_persisted_share_is_renewed() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a SHARED PX 1500 KEEP 60000");
    let _second = Keeper::on(&server, "k b SHARED PX 1500 KEEP 60000");
    run(&mut c, "PERSIST k").int();
    eventually(|| run(&mut c, "PTTL k").int() > 0, "a renewal");
    await_renewals(&server, 4);
    keeper.is_answered();
    assert_eq!(kept_by(&mut c).len(), 2);
}
