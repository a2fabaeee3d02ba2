//! What the tests of queued calls ask of a server.

use redis::{Connection, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, cmd, eventually, holders, run};

/// Longer than a program may go without a POLL before its calls are passed over.
pub(crate) const SILENCE: Duration = Duration::from_millis(1200);

/// No POLL comes for so long that calls are passed over.
pub(crate) fn fall_silent() {
    sleep(SILENCE);
}

/// The event that tells that `owner` has this lock alone, by its first hold.
#[track_caller]
pub(crate) fn granted(c: &mut Connection, number: usize, key: &str, owner: &str) -> String {
    let token = cmd!(*c, "LOCK.FENCE", key).int();
    format!("{number} granted {key} {owner} {token} 1 600000 1")
}

/// Waits until these owners hold a lock. After a stall, as a busy machine makes them, a hand-off behind calls that
/// are passed over comes a little later.
#[track_caller]
pub(crate) fn has(c: &mut Connection, key: &str, owners: &[&str]) {
    eventually(
        || holders(c, key) == owners,
        &format!("{owners:?} to hold {key}"),
    );
}

/// Takes locks (`key owner` and options). As in [`has`], a newcomer may have to try again.
#[track_caller]
pub(crate) fn hold(c: &mut Connection, calls: &[&str]) {
    for call in calls {
        let words = format!("LOCK.ACQUIRE {call} PX 600000");
        eventually(|| run(c, &words).value() != Value::Nil, call);
    }
}
