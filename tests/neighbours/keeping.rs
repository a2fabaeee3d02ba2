//! Another module's call has no connection that could keep a grant.

use crate::support::{is_well, run, start};
use testbed::{Expect, Talk};

#[test]
fn a_call_of_another_module_keeps_nothing() {
    let (server, mut c) = start();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    for format in ["", "E", "!E", "CE", "SE", "3E"] {
        for words in [
            "LOCK.ACQUIRE free a KEEP 1000",
            "LOCK.ACQUIRE free a KEEP 0",
            "LOCK.RENEW k a KEEP 1000",
            "LOCK.RENEW k a KEEP 0",
        ] {
            let mut call = redis::cmd("NEIGHBOUR.CALL");
            call.arg(format).arg(testbed::words(words));
            let refused = c.send(&call).reply();
            assert!(refused.is_err(), "{format} {words}: {refused:?}");
        }
    }
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
    assert_eq!(server.info_field("lock", "lock_kept"), "0");
    is_well(&server);
}
