//! `LOCK.FENCE`.

use crate::support::{HIGHEST_TOKEN, run, unchanged};
use testbed::{Expect, cmd, started};

#[test]
fn without_a_token_it_tells_the_current_one_or_nil() {
    let (_server, mut c) = started();
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
    let (_server, mut c) = started();
    let old = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    run(&mut c, "LOCK.RELEASE k a").int();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    let mut fence = |token: i64| unchanged(&mut c, "k", |c| cmd!(*c, "LOCK.FENCE", "k", token));
    fence(token).okay();
    for stale in [old, token - 1, token + 1, 1, HIGHEST_TOKEN] {
        fence(stale).refused("FENCED");
    }
}
