//! Detects stalls of the event loop. After a stall the server has not yet read what its clients did meanwhile, so a
//! client may have disconnected or reconnected without the server knowing.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use redis_lock_core::Monotonic;

/// The longest time between two ticks while calls wait. Ticks have to poll, because a module gets no event when an
/// administrator shortens a lease or when writes are possible again.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(8);

/// An iteration of the event loop that takes longer than this is a stall.
const STALL: Duration = Duration::from_millis(5);
/// The longest time between the starts of two iterations while calls wait and the loop does not stall.
const MAX_GAP: Duration = MAX_PAUSE.saturating_add(Duration::from_millis(7));
/// A stall that is long enough for programs to have reconnected.
const LONG_STALL: Duration = Duration::from_millis(100);
/// How many iterations the server's I/O threads may need to report what they read.
const ITERATIONS_TO_CATCH_UP: u8 = 8;
/// How long the handshake of a reconnecting client may take before its first POLL.
const HANDSHAKE: Duration = Duration::from_millis(20);
/// New connections delay waiting calls for at most this long, even if they keep arriving.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(1);

/// Follows the iterations of the event loop. The fields are written only under the server's lock. They are kept apart
/// from the rest of the state because each hand-off reads them.
#[derive(Debug)]
pub(super) struct StallDetector {
    /// When the current iteration began.
    began: AtomicU64,
    /// How many more iterations count as stalled.
    to_catch_up: AtomicU8,
    /// How many more iterations the server needs to catch up after a long stall or a pause.
    to_read: AtomicU8,
    /// When the last long stall or pause ended.
    read_since: AtomicU64,
    /// When a connection was last waiting to be accepted after it.
    connected: AtomicU64,
    /// True once no connection was waiting to be accepted after it.
    accepted_all: AtomicBool,
    /// True if writes were paused at the last check.
    paused: AtomicBool,
}

impl StallDetector {
    pub(super) const fn new() -> Self {
        Self {
            began: AtomicU64::new(0),
            to_catch_up: AtomicU8::new(0),
            to_read: AtomicU8::new(0),
            read_since: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            accepted_all: AtomicBool::new(false),
            paused: AtomicBool::new(false),
        }
    }

    /// When the current iteration began, if iterations are followed.
    pub(super) fn iteration_began(&self) -> Monotonic {
        Monotonic(self.began.load(Ordering::Relaxed))
    }

    /// Starts to follow iterations. The current one counts as stalled, because its start was not seen.
    pub(super) fn restart(&self, now: Monotonic) {
        self.set(now, 1);
        self.to_read.store(0, Ordering::Relaxed);
    }

    /// Records the start of an iteration. `connects` returns true if a connection is waiting to be accepted; it is
    /// called only if the answer matters, because it makes a system call.
    pub(super) fn next_iteration(&self, now: Monotonic, connects: impl FnOnce() -> bool) {
        let gap = now.since(self.iteration_began());
        let left = if gap > MAX_GAP {
            ITERATIONS_TO_CATCH_UP
        } else {
            self.to_catch_up.load(Ordering::Relaxed).saturating_sub(1)
        };
        self.set(now, left);
        if gap > LONG_STALL || self.paused.load(Ordering::Relaxed) {
            self.restart_catch_up(now);
            return;
        }
        let to_read = self.to_read.load(Ordering::Relaxed);
        if to_read > 0 {
            let since = |time: &AtomicU64| now.since(Monotonic(time.load(Ordering::Relaxed)));
            let connects = !self.accepted_all.load(Ordering::Relaxed)
                && since(&self.read_since) < LONGEST_CATCH_UP
                && connects();
            self.accepted_all.store(!connects, Ordering::Relaxed);
            let left = if connects {
                self.connected.store(now.0, Ordering::Relaxed);
                ITERATIONS_TO_CATCH_UP
            } else if since(&self.connected) < HANDSHAKE {
                to_read
            } else {
                to_read - 1
            };
            self.to_read.store(left, Ordering::Relaxed);
        }
    }

    /// Records whether writes are paused now.
    pub(super) fn set_paused(&self, now: Monotonic, paused: bool) {
        if self.paused.swap(paused, Ordering::Relaxed) || paused {
            self.restart_catch_up(now);
        }
    }

    /// Returns true if writes were paused at the last check.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Returns true if clients may have disconnected without the server having read that.
    pub(super) fn is_stalled(&self, now: Monotonic) -> bool {
        self.to_catch_up.load(Ordering::Relaxed) > 0 || now.since(self.iteration_began()) > STALL
    }

    /// Returns true during a long stall or a pause, and afterwards until the server has read everything that had
    /// reached it by then, on new connections too.
    pub(super) fn is_catching_up(&self, now: Monotonic) -> bool {
        self.to_read.load(Ordering::Relaxed) > 0 || now.since(self.iteration_began()) > LONG_STALL
    }

    fn restart_catch_up(&self, now: Monotonic) {
        self.to_read
            .store(ITERATIONS_TO_CATCH_UP, Ordering::Relaxed);
        self.read_since.store(now.0, Ordering::Relaxed);
        self.connected.store(now.0, Ordering::Relaxed);
        self.accepted_all.store(false, Ordering::Relaxed);
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
    fn a_long_iteration_is_a_stall_while_it_lasts_and_for_some_iterations_after() {
        let detector = started();
        detector.next_iteration(at(0), || false);
        assert!(!detector.is_stalled(at(5)));
        assert!(detector.is_stalled(at(50)));
        detector.next_iteration(at(50), || false);
        for number in 0..u64::from(ITERATIONS_TO_CATCH_UP) {
            assert!(detector.is_stalled(at(50 + number)));
            assert!(!detector.is_catching_up(at(50 + number)));
            detector.next_iteration(at(51 + number), || false);
        }
        assert!(!detector.is_stalled(at(60)));
    }

    #[test]
    fn an_iteration_whose_start_was_not_seen_is_a_stall() {
        let detector = started();
        assert!(detector.is_stalled(at(0)));
        detector.next_iteration(at(1), || false);
        assert!(!detector.is_stalled(at(1)));
    }

    #[test]
    fn waiting_for_the_next_timer_is_not_a_stall() {
        let detector = started();
        for number in 1..100 {
            detector.next_iteration(at(number * 9), || false);
            assert!(!detector.is_stalled(at(number * 9)));
        }
    }

    #[test]
    fn after_a_long_stall_the_server_catches_up_until_no_connection_is_left() {
        let detector = started();
        assert!(!detector.is_catching_up(at(100)));
        assert!(detector.is_catching_up(at(101)));
        detector.next_iteration(at(200), || unreachable!("a stall is over"));
        for number in 0..20 {
            assert!(detector.is_catching_up(at(200 + number)));
            detector.next_iteration(at(200 + number), || true);
        }
        for number in 0..20 + u64::from(ITERATIONS_TO_CATCH_UP) - 1 {
            assert!(detector.is_catching_up(at(220 + number)));
            // Connections that arrive later had not reached the server when the stall ended.
            detector.next_iteration(at(220 + number), || number > 0);
        }
        assert!(!detector.is_catching_up(at(250)));
        detector.next_iteration(at(250), || unreachable!("nothing to read"));
    }

    #[test]
    fn a_stream_of_new_connections_delays_waiters_only_for_a_while() {
        let detector = started();
        detector.next_iteration(at(200), || true);
        for now in (210..1250).step_by(10) {
            detector.next_iteration(at(now), || true);
        }
        for number in 0..u64::from(ITERATIONS_TO_CATCH_UP) {
            detector.next_iteration(at(1260 + number), || true);
        }
        assert!(!detector.is_catching_up(at(1268)));
    }

    #[test]
    fn the_server_catches_up_after_a_pause() {
        let detector = started();
        detector.set_paused(at(1), false);
        assert!(!detector.is_catching_up(at(1)));
        detector.set_paused(at(2), true);
        for number in 0..20 {
            detector.next_iteration(at(3 + number), || false);
            assert!(detector.is_catching_up(at(3 + number)));
        }
        detector.set_paused(at(30), false);
        for number in 0..20 + u64::from(ITERATIONS_TO_CATCH_UP) {
            assert!(detector.is_catching_up(at(30 + number)));
            detector.next_iteration(at(30 + number), || false);
        }
        assert!(!detector.is_catching_up(at(60)));
    }
}
