//! Whether the event loop was held up of late: then the server has not read yet what its clients have
//! done meanwhile, and one that counts as connected may be gone.

use std::time::Duration;

use super::alarm::LONGEST_PAUSE;
use crate::core::Monotonic;

/// A turn of the loop that has lasted longer than this.
const LONG_TURN: Duration = Duration::from_millis(5);
/// From one turn to the next it is no more than this while somebody waits, where nothing holds the
/// loop up.
const LONGEST_GAP: Duration = LONGEST_PAUSE.saturating_add(Duration::from_millis(7));
/// How many turns it may take until threads that read for the server have told all that they found.
const TURNS_TO_CATCH_UP: u8 = 8;

/// The turns of the event loop.
#[derive(Debug)]
pub(super) struct Turns {
    began: Monotonic,
    to_catch_up: u8,
}

impl Default for Turns {
    fn default() -> Self {
        Self::begin(Monotonic(0))
    }
}

impl Turns {
    /// Nothing is known of this turn before now, nor of the turns before.
    pub(super) const fn begin(now: Monotonic) -> Self {
        Self {
            began: now,
            to_catch_up: 1,
        }
    }

    /// A turn begins.
    pub(super) fn next(&mut self, now: Monotonic) {
        self.to_catch_up = if now.since(self.began) > LONGEST_GAP {
            TURNS_TO_CATCH_UP
        } else {
            self.to_catch_up.saturating_sub(1)
        };
        self.began = now;
    }

    /// What clients have done may be unread.
    pub(super) fn held_up(&self, now: Monotonic) -> bool {
        self.to_catch_up > 0 || now.since(self.began) > LONG_TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Monotonic {
        Monotonic(millis * 1000)
    }

    #[test]
    fn a_long_turn_holds_the_loop_up_while_it_lasts_and_for_some_turns_more() {
        let mut turns = Turns::begin(at(0));
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
        let mut turns = Turns::begin(at(0));
        assert!(turns.held_up(at(0)));
        turns.next(at(1));
        assert!(!turns.held_up(at(1)));
    }

    #[test]
    fn waiting_for_the_next_timer_is_no_delay() {
        let mut turns = Turns::begin(at(0));
        for turn in 1..100 {
            turns.next(at(turn * 9));
            assert!(!turns.held_up(at(turn * 9)));
        }
    }
}
