//! Calls that cannot be queued.

use crate::support::hold;
use testbed::{Expect, Session};

/// Nobody could repeat the call.
#[test]
fn an_owner_that_the_server_names_cannot_queue() {
    let (server, mut c, session) = Session::held();
    session.ask(&mut c, "k *").refused("ERR");
    session.ask(&mut c, "free *").refused("ERR");
    assert_eq!(server.count("queued"), 0);
}

#[test]
fn a_very_long_name_cannot_be_queued_for() {
    let (_server, mut c, session) = Session::opened();
    let (longest, longer) = ("k".repeat(8192), "k".repeat(8193));
    for key in [&longest, &longer] {
        hold(&mut c, &[&format!("{key} a")]);
    }
    assert_eq!(session.queue(&mut c, &format!("{longest} b")), 0);
    let text = session.ask(&mut c, &format!("{longer} b")).refused("ERR");
    assert!(text.contains("8192 bytes"), "{text}");
}
