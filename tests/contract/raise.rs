//! `LOCK.RENEW … TOKEN t RAISE r`: the second round of a quorum over several servers.

use crate::support::{last_token, now_us, run, starts_lease, unchanged};
use redis::Connection;
use testbed::{Expect, Grant, cmd, started};

fn acquire(c: &mut Connection) -> Grant {
    run(c, "LOCK.ACQUIRE k a PX 60000").grant()
}

fn raise(token: i64, raised: i64) -> String {
    format!("LOCK.RENEW k a TOKEN {token} RAISE {raised}")
}

#[test]
fn it_lifts_the_grants_token_and_the_clock_with_it() {
    let (_server, mut c) = started();
    let grant = acquire(&mut c);
    let raised = now_us() + 2_000_000;
    let renewed =
        starts_lease(&mut c, "k", 60_000, |c| run(c, &raise(grant.token, raised))).grant();
    let (token, before) = (raised, grant.clone());
    assert_eq!(renewed, Grant { token, ..before });
    cmd!(c, "LOCK.FENCE", "k", raised).okay();
    cmd!(c, "LOCK.FENCE", "k", grant.token).refused("FENCED");
    assert_eq!(last_token(&mut c), raised);
    let other = run(&mut c, "LOCK.ACQUIRE other b").grant();
    assert_eq!(other.token, raised + 1);
}

#[test]
fn a_raise_beyond_the_lead_is_ahead_and_changes_nothing() {
    let (_server, mut c) = started();
    let token = acquire(&mut c).token;
    for lead in [5000, 0, 60_000, 86_400_000] {
        cmd!(c, "CONFIG", "SET", "lock.max-token-lead-ms", lead).okay();
        let beyond = now_us() + lead * 1000 + 1_000_000;
        let error = unchanged(&mut c, "k", |c| run(c, &raise(token, beyond))).refused("AHEAD");
        assert!(error.contains("lock.max-token-lead-ms"), "{error}");
    }
}
