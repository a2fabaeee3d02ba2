//! Another module's call has no connection that could poll a session.

use crate::support::{is_well, run, start};
use testbed::{Expect, Talk};

#[test]
fn a_call_of_another_module_opens_and_polls_no_session() {
    let (server, mut c) = start();
    let session = run(&mut c, "LOCK.SESSION OPEN").int();
    for format in ["", "E", "!E", "CE", "SE", "3E"] {
        for words in [
            "LOCK.SESSION OPEN".to_owned(),
            format!("LOCK.SESSION POLL {session}"),
            format!("LOCK.SESSION POLL {session} BLOCK 100"),
        ] {
            let mut call = redis::cmd("NEIGHBOUR.CALL");
            call.arg(format).arg(testbed::words(&words));
            let refused = c.send(&call).reply();
            assert!(refused.is_err(), "{format} {words}: {refused:?}");
        }
    }
    assert_eq!(server.info_field("lock", "lock_sessions"), "1");
    is_well(&server);
}
