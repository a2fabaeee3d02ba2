//! Recent stalls of the event loop. After a stall the server has not read yet what clients did meanwhile,
//! so a client may have disconnected without the server knowing.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use redis_lock_core::Monotonic;

/// The longest time between two ticks while somebody waits. A module gets no event when a lease is
/// shortened by hand or writes are possible again, so ticks poll.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(8);

/// An iteration that lasts longer than this is a stall.
const STALL: Duration = Duration::from_millis(5);
/// The longest time between two iterations while somebody waits and nothing stalls the loop.
const MAX_GAP: Duration = MAX_PAUSE.saturating_add(Duration::from_millis(7));
/// How many iterations the server's I/O threads may need to report what they read.
const ITERATIONS_TO_CATCH_UP: u8 = 8;

/// Follows the iterations of the event loop. Written only under the server's lock. It is apart from the
/// rest of the state because each hand-off reads it.
#[derive(Debug)]
pub(super) struct StallDetector {
    began: AtomicU64,
    to_catch_up: AtomicU8,
}

impl StallDetector {
    pub(super) const fn new() -> Self {
        Self {
            began: AtomicU64::new(0),
            to_catch_up: AtomicU8::new(0),
        }
    }

    /// When this iteration began, as far as known.
    pub(super) fn iteration_began(&self) -> Monotonic {
        Monotonic(self.began.load(Ordering::Relaxed))
    }

    /// Starts to follow in the middle of an iteration, which counts as stalled.
    pub(super) fn restart(&self, now: Monotonic) {
        self.set(now, 1);
    }

    /// An iteration begins.
    pub(super) fn next_iteration(&self, now: Monotonic) {
        let left = if now.since(self.iteration_began()) > MAX_GAP {
            ITERATIONS_TO_CATCH_UP
        } else {
            self.to_catch_up.load(Ordering::Relaxed).saturating_sub(1)
        };
        self.set(now, left);
    }

    /// True when the server may not have read all that clients did.
    pub(super) fn is_stalled(&self, now: Monotonic) -> bool {
        self.to_catch_up.load(Ordering::Relaxed) > 0 || now.since(self.iteration_began()) > STALL
    }

    fn set(&self, began: Monotonic, to_catch_up: u8) {
        self.began.store(began.0, Ordering::Relaxed);
        self.to_catch_up.store(to_catch_up, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Monotonic {
        Monotonic(millis * 1000)
    }

    fn started() -> StallDetector {
        let detector = StallDetector::new();
        detector.restart(at(0));
        detector
    }

    #[test]
    fn a_long_iteration_is_a_stall_while_it_lasts_and_for_some_iterations_more() {
        let detector = started();
        detector.next_iteration(at(0));
        assert!(!detector.is_stalled(at(5)));
        assert!(detector.is_stalled(at(50)));
        detector.next_iteration(at(50));
        for number in 0..u64::from(ITERATIONS_TO_CATCH_UP) {
            assert!(detector.is_stalled(at(50 + number)));
            detector.next_iteration(at(51 + number));
        }
        assert!(!detector.is_stalled(at(60)));
    }

    #[test]
    fn an_iteration_whose_start_was_not_seen_is_a_stall() {
        let detector = started();
        assert!(detector.is_stalled(at(0)));
        detector.next_iteration(at(1));
        assert!(!detector.is_stalled(at(1)));
    }

    #[test]
    fn waiting_for_the_next_timer_is_no_stall() {
        let detector = started();
        for number in 1..100 {
            detector.next_iteration(at(number * 9));
            assert!(!detector.is_stalled(at(number * 9)));
        }
    }
}
