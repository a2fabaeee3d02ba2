//! What the tests of queued calls ask of a server.

use redis::{Connection, Value};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Server, Session, Waiter, cmd, eventually, holders, run, wait};

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

/// A server on which `a` holds `k`. In line are `b` of a session whose POLL waits, and a blocked call of `c`.
#[track_caller]
pub(crate) fn two_in_line() -> (Server, Connection, Session, Waiter) {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    let behind = wait(&server, "k c PX 600000 BLOCK 0");
    session.stay(&server);
    (server, c, session, behind)
}

/// `a` releases `k` while a POLL of the session waits: the events that this one is answered.
#[track_caller]
pub(crate) fn released(server: &Server, c: &mut Connection, session: &mut Session) -> Vec<String> {
    session.stay(server);
    run(c, "LOCK.RELEASE k a").int();
    session.told()
}

/// Waits until these owners hold a lock. After a stall, as a busy machine makes them, a hand-off behind calls that
/// are passed over comes a little later.
#[track_caller]
pub(crate) fn has(c: &mut Connection, key: &str, owners: &[&str]) {
    let what = format!("{owners:?} to hold {key}");
    eventually(|| holders(c, key) == owners, &what);
}

/// Takes locks (`key owner` and options). As in [`has`], a newcomer may have to try again.
#[track_caller]
pub(crate) fn hold(c: &mut Connection, calls: &[&str]) {
    for call in calls {
        let words = format!("LOCK.ACQUIRE {call} PX 600000");
        eventually(|| run(c, &words).value() != Value::Nil, call);
    }
}
