//! `LOCK.FENCE` of a lock that is shared.

use crate::holders::shared;
use testbed::{Expect, cmd, run};

#[test]
fn every_current_grant_is_fenced_as_right_and_the_lowest_token_is_told() {
    let (_server, mut c, [a, b, d]) = shared(["a", "b", "d"], "SHARED");
    for grant in [&a, &b, &d] {
        cmd!(c, "LOCK.FENCE", "k", grant.token).okay();
    }
    for token in [a.token - 1, d.token + 1, 1] {
        cmd!(c, "LOCK.FENCE", "k", token).refused("FENCED");
    }
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), a.token);
    run(&mut c, "LOCK.RELEASE k a").int();
    cmd!(c, "LOCK.FENCE", "k", a.token).refused("FENCED");
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), b.token);
    run(&mut c, "LOCK.RELEASE k b").int();
    run(&mut c, "LOCK.RELEASE k d").int();
    run(&mut c, "LOCK.FENCE k").nil();
    cmd!(c, "LOCK.FENCE", "k", d.token).refused("FENCED");
}
