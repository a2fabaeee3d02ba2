//! How long each call may take, and how late this machine itself is.

use crate::failure::{Verdict, ensure};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// A reply of the server, connecting included: what the workers are told.
pub(crate) const REPLY: Duration = Duration::from_secs(1);
/// An acquire that does not wait, in all.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(1);
/// A release, and a close.
pub(crate) const RELEASE: Duration = Duration::from_secs(2);
/// The time that a call may take beyond its limit: the runtime's own, on a busy machine.
pub(crate) const MARGIN: Duration = Duration::from_millis(750);
/// How soon a loss is told that the server tells of by closing the connection.
pub(crate) const TOLD: Duration = Duration::from_millis(500);

/// Milliseconds.
pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const TICK: Duration = ms(10);
static LATE: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

/// Begins to note when this machine lets a thread wait that has something to do.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        thread::spawn(|| {
            loop {
                let begun = Instant::now();
                thread::sleep(TICK);
                let late = begun.elapsed().saturating_sub(2 * TICK);
                if !late.is_zero() {
                    let mut all = LATE.lock().expect("what was late");
                    all.push((begun, late));
                }
            }
        });
    });
}

/// How long the machine has kept a thread waiting since then: time that no client can be blamed for.
pub(crate) fn lateness(since: Instant) -> Duration {
    let all = LATE.lock().expect("what was late");
    let recent = all.iter().rev().take_while(|(begun, _)| *begun >= since);
    recent.map(|(_, late)| *late).sum()
}

/// Asks until there is an answer, for no longer than the limit, to which lateness is added.
pub(crate) fn wait_for<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if begun.elapsed() > limit + lateness(begun) {
            return None;
        }
        thread::sleep(ms(5));
    }
}

/// The same for what must hold by then.
pub(crate) fn until(limit: Duration, holds: impl Fn() -> bool, otherwise: &str) -> Verdict {
    let held = wait_for(limit, || holds().then_some(()));
    ensure!(held.is_some(), "{otherwise}");
    Ok(())
}
