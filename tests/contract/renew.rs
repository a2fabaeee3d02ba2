//! `LOCK.RENEW` without its `RAISE`.

use crate::support::{run, starts_lease};
use testbed::{Expect, cmd, started};

#[test]
fn the_deadline_becomes_now_and_the_lease() {
    let (_server, mut c) = started();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    cmd!(c, "PEXPIRE", "k", 5_000).int();
    let renewed = starts_lease(&mut c, "k", 60_000, |c| run(c, "LOCK.RENEW k a"));
    assert_eq!(renewed.grant(), grant);
}
