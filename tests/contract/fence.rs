//! `LOCK.FENCE`.

use crate::support::{HIGHEST_TOKEN, run, unchanged};
use testbed::{Expect, Server, cmd, eventually};

#[test]
fn without_a_token_it_tells_the_current_one_or_nil() {
    let server = Server::start();
    let mut c = server.connection();
    unchanged(&mut c, "k", |c| run(c, "LOCK.FENCE k")).nil();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    assert_eq!(
        unchanged(&mut c, "k", |c| run(c, "LOCK.FENCE k")).int(),
        token
    );
    run(&mut c, "LOCK.RELEASE k a").int();
    run(&mut c, "LOCK.FENCE k").nil();
}

#[test]
fn the_token_of_the_current_grant_passes_and_every_other_is_fenced() {
    let server = Server::start();
    let mut c = server.connection();
    let old = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    run(&mut c, "LOCK.RELEASE k a").int();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    let mut fence = |token: i64| unchanged(&mut c, "k", |c| cmd!(*c, "LOCK.FENCE", "k", token));
    fence(token).okay();
    for stale in [old, token - 1, token + 1, 1, HIGHEST_TOKEN] {
        fence(stale).refused("FENCED");
    }
}

#[test]
fn a_grant_passes_through_reentry_renewal_and_partial_release() {
    let server = Server::start();
    let mut c = server.connection();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.RENEW k a PX 70000",
        "LOCK.RELEASE k a",
    ] {
        run(&mut c, line).value();
        cmd!(c, "LOCK.FENCE", "k", token).okay();
    }
}

#[test]
fn every_token_of_a_free_lock_is_fenced() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.FENCE k 1").refused("FENCED");
    let expired = run(&mut c, "LOCK.ACQUIRE k a PX 1").grant().token;
    eventually(|| cmd!(c, "EXISTS", "k").int() == 0, "the lease to end");
    unchanged(&mut c, "k", |c| cmd!(*c, "LOCK.FENCE", "k", expired)).refused("FENCED");
}
