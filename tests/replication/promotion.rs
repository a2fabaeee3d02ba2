//! A replica that takes over continues where its primary was.

use crate::*;

const DAY_MICROS: i64 = 86_400_000_000;

/// Pushes the clock of a primary most of a day ahead, and leaves no lock behind; the token.
#[track_caller]
fn push_ahead(primary: &Server) -> i64 {
    let mut c = primary.connection();
    let lead_ms = DAY_MICROS / 1000;
    cmd!(c, "CONFIG", "SET", "lock.max-token-lead-ms", lead_ms).okay();
    let token = cmd!(c, "LOCK.ACQUIRE", "k", "o").grant().token;
    let raised = token + DAY_MICROS - 3_600_000_000;
    cmd!(c, "LOCK.RENEW", "k", "o", "TOKEN", token, "RAISE", raised).grant();
    assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "o").int(), 0);
    raised
}

#[test]
fn a_promoted_replica_goes_on_after_a_raised_clock() {
    let primary = primary().start();
    let early = primary.replica();
    let below = early.replica();
    let raised = push_ahead(&primary);
    // One saw the effects pass, one saw them pass through the first, one was not there then.
    let late = primary.replica();
    for (name, replica) in [("early", &early), ("late", &late)] {
        primary.wait_for_sync(replica);
        assert_eq!(replica.last_token(), raised, "{name}");
    }
    early.wait_for_sync(&below);
    drop(primary);
    // From below, so that none is told of another's new grants.
    for replica in [&below, &early, &late] {
        follow(replica, None);
        assert_eq!(replica.next_token(), raised + 1);
    }
}

#[test]
fn a_failover_by_command_hands_everything_over_and_back() {
    let a = primary().start();
    let b = a.replica_with(|settings| settings.config("hz", "500"));
    let mut traffic = Traffic::on(&a);
    let (mut from, mut to) = (&a, &b);
    for _ in 0..2 {
        traffic.run(400);
        from.wait_for_sync(to);
        cmd!(from.connection(), "FAILOVER", "TO", "127.0.0.1", to.port()).okay();
        to.wait_for_role("master");
        from.wait_for_role("slave");
        let highest = traffic.highest();
        traffic.move_to(to);
        traffic.run(400);
        assert!(to.next_token() > highest);
        assert_in_step(to, from, "after the failover");
        (from, to) = (to, from);
    }
}
