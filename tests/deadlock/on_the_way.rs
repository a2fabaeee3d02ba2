//! What changes at the moment of the search: each command stands right before the call, in one write.

use crate::support::{Stage, at_once};
use testbed::{Expect, Reply};

/// `w` holds `j`, `b` holds `k` and waits for `m`, `c` holds `m` and waits for `j`.
fn three() -> Stage {
    let mut stage = Stage::new();
    stage.hold(["j w", "k b", "m c"]);
    stage.wait(["m b", "j c"]);
    stage
}

/// The reply of `w`, which asks for `k` right after these.
fn asked_after(stage: &mut Stage, changes: &[&str]) -> Reply {
    let lines: Vec<_> = changes
        .iter()
        .copied()
        .chain(["LOCK.ACQUIRE k w BLOCK 30"])
        .collect();
    let mut replies = at_once(&mut stage.c, &lines);
    let last = replies.pop().unwrap();
    for (reply, change) in replies.into_iter().zip(changes) {
        assert!(reply.is_ok(), "{change}: {reply:?}");
    }
    last
}

#[test]
fn what_opens_the_cycle_is_seen_at_once() {
    for key in ["j", "m"] {
        let owner = if key == "j" { "w" } else { "c" };
        let changes = [
            vec![format!("DEL {key}")],
            vec![format!("UNLINK {key}")],
            vec![format!("SET {key} other")],
            vec![format!("RENAME {key} elsewhere")],
            vec![format!("MOVE {key} 5")],
            vec![format!("PEXPIRE {key} 1"), "DEBUG SLEEP 0.02".to_owned()],
            vec![format!("LOCK.RELEASE {key} {owner}")],
            vec![format!("LOCK.RELEASE {key} {owner} ALL")],
            // Now another holds it, who waits for nothing.
            vec![
                format!("RENAME {key} elsewhere"),
                format!("LOCK.ACQUIRE {key} x"),
            ],
        ];
        for change in changes {
            let mut stage = three();
            stage.told("k w", 3);
            let change: Vec<_> = change.iter().map(String::as_str).collect();
            asked_after(&mut stage, &change).nil();
            assert_eq!(stage.count(), 1, "{change:?}");
        }
    }
}

#[test]
fn what_leaves_it_closed_does_not_open_it() {
    let changes: [&[&str]; 8] = [
        &["PERSIST m"],
        &["PEXPIRE m 100000"],
        &["LOCK.RENEW m c PX 5000"],
        &["LOCK.ACQUIRE m c"],
        &["LOCK.ACQUIRE m c", "LOCK.RELEASE m c"],
        &["LOCK.ACQUIRE m x"],
        &["DEL nothing"],
        // A lease is a lease, however short.
        &["PEXPIRE j 500"],
    ];
    for change in changes {
        let mut stage = three();
        asked_after(&mut stage, change).refused("DEADLOCK");
    }
}

#[test]
fn a_flush_opens_everything() {
    let mut stage = three();
    let granted = asked_after(&mut stage, &["FLUSHALL"]).grant();
    assert_eq!(granted.owner, b"w");
    stage.granted("m b");
    stage.granted("j c");
}

#[test]
fn a_swap_of_databases_is_seen_at_once() {
    let mut stage = three();
    // Now the locks of this database are free.
    asked_after(&mut stage, &["SWAPDB 0 9"]).grant();
}
