//! What changes at the moment of the search: each command stands right before the call, in one write.

use crate::support::Stage;
use testbed::Expect;

/// `w` holds `j`, `b` holds `k` and waits for `m`, `c` holds `m` and waits for `j`.
fn three() -> Stage {
    let mut stage = Stage::new();
    stage.hold(["j w", "k b", "m c"]);
    stage.wait(["m b", "j c"]);
    stage
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
            stage.asked_after(&change).nil();
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
        stage.asked_after(change).refused("DEADLOCK");
    }
}

#[test]
fn a_flush_opens_everything() {
    let mut stage = three();
    let granted = stage.asked_after(&["FLUSHALL"]).grant();
    assert_eq!(granted.owner, b"w");
    stage.granted("m b");
    stage.granted("j c");
}

#[test]
fn a_swap_of_databases_is_seen_at_once() {
    let mut stage = three();
    // Now the locks of this database are free.
    stage.asked_after(&["SWAPDB 0 9"]).grant();
}
