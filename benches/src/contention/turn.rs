//! What the contenders of this process share during a turn, and what comes out of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::contestant::Outcome;

pub(super) struct Turn {
    began: Instant,
    over: AtomicBool,
    /// When the last release of each lock was sent, in nanoseconds since the start. Only the holder of the
    /// lock reads or sets it.
    releases: Vec<AtomicU64>,
}

/// The figures of one contender.
#[derive(Default)]
pub(super) struct Tally {
    grants: u64,
    late: u64,
    pub(super) errors: u64,
    latencies_us: Vec<f64>,
}

impl Turn {
    pub(super) fn of(locks: usize) -> Self {
        Self {
            began: Instant::now(),
            over: AtomicBool::new(false),
            releases: (0..locks).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts a grant of the lock, which is given back at once.
    pub(super) fn granted(&self, lock: usize, tally: &mut Tally) {
        let now = self.now();
        if self.is_over() {
            tally.late += 1;
        } else {
            tally.grants += 1;
            let released = self.releases[lock].load(Ordering::SeqCst);
            if released > 0 {
                tally.latencies_us.push((now - released) as f64 / 1000.0);
            }
        }
        self.releases[lock].store(self.now(), Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

pub(super) fn outcome(tallies: &[Tally], seconds: f64) -> Outcome {
    let hand_offs = tallies.iter().flat_map(|tally| &tally.latencies_us);
    Outcome {
        grants: tallies.iter().map(|tally| tally.grants).collect(),
        late: tallies.iter().map(|tally| tally.late).sum(),
        seconds,
        hand_offs_us: hand_offs.copied().collect(),
        errors: tallies.iter().map(|tally| tally.errors).sum(),
        ..Outcome::default()
    }
}
