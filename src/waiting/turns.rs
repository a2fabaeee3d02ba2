//! Whether the event loop was held up of late: then the server has not read yet what its clients have
//! done meanwhile, and one that counts as connected may be gone.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use redis_lock_core::Monotonic;

use super::alarm::LONGEST_PAUSE;

/// A turn of the loop that has lasted longer than this.
const LONG_TURN: Duration = Duration::from_millis(5);
/// From one turn to the next it is no more than this while somebody waits, where nothing holds the
/// loop up.
const LONGEST_GAP: Duration = LONGEST_PAUSE.saturating_add(Duration::from_millis(7));
/// How many turns it may take until threads that read for the server have told all that they found.
const TURNS_TO_CATCH_UP: u8 = 8;

/// The turns of the event loop. Written by one thread at a time, whoever holds the server; asked at each
/// hand-off, and so not behind the rest of the state.
#[derive(Debug)]
pub(super) struct Turns {
    began: AtomicU64,
    to_catch_up: AtomicU8,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self {
            began: AtomicU64::new(0),
            to_catch_up: AtomicU8::new(0),
        }
    }

    /// When this turn began, as far as is known.
    pub(super) fn began(&self) -> Monotonic {
        Monotonic(self.began.load(Ordering::Relaxed))
    }

    /// Nothing is known of this turn before now, nor of the turns before.
    pub(super) fn begin(&self, now: Monotonic) {
        self.set(now, 1);
    }

    /// A turn begins.
    pub(super) fn next(&self, now: Monotonic) {
        let left = if now.since(self.began()) > LONGEST_GAP {
            TURNS_TO_CATCH_UP
        } else {
            self.to_catch_up.load(Ordering::Relaxed).saturating_sub(1)
        };
        self.set(now, left);
    }

    /// What clients have done may be unread.
    pub(super) fn held_up(&self, now: Monotonic) -> bool {
        self.to_catch_up.load(Ordering::Relaxed) > 0 || now.since(self.began()) > LONG_TURN
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

    fn begun() -> Turns {
        let turns = Turns::new();
        turns.begin(at(0));
        turns
    }

    #[test]
    fn a_long_turn_holds_the_loop_up_while_it_lasts_and_for_some_turns_more() {
        let turns = begun();
        turns.next(at(0));
        assert!(!turns.held_up(at(5)));
        assert!(turns.held_up(at(50)));
        turns.next(at(50));
        for turn in 0..u64::from(TURNS_TO_CATCH_UP) {
            assert!(turns.held_up(at(50 + turn)));
            turns.next(at(51 + turn));
        }
        assert!(!turns.held_up(at(60)));
    }

    #[test]
    fn a_turn_whose_beginning_was_not_seen_counts_as_long() {
        let turns = begun();
        assert!(turns.held_up(at(0)));
        turns.next(at(1));
        assert!(!turns.held_up(at(1)));
    }

    #[test]
    fn waiting_for_the_next_timer_is_no_delay() {
        let turns = begun();
        for turn in 1..100 {
            turns.next(at(turn * 9));
            assert!(!turns.held_up(at(turn * 9)));
        }
    }
}
