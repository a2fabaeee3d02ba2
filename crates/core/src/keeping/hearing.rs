//! Two clocks, and what one says of the other: when a client was heard.
//!
//! The server notes when it last heard from a client in whole seconds of the wall clock. [`Hearing`]
//! remembers how far the wall clock was from the monotonic one, and so finds the latest moment that such a
//! note can stand for. Where the wall clock was set meanwhile, a note may stand for several moments, and
//! the latest counts.
//!
//! It also has a clock that stands still while the server stalls or is paused ([`Alive`]): what a client
//! sends then lies unread, and is no silence.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Monotonic, UnixTime};

/// One moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For intervals.
    pub monotonic: Monotonic,
    /// For the ends of leases.
    pub unix: UnixTime,
}

/// The server is stalled when nobody told the time for longer than this.
pub(super) const LONGEST_GAP: Duration = Duration::from_millis(250);
/// How far the server's own clock, which it reads now and then, may be behind.
pub(super) const LAG: i64 = 100_000;
/// So long after the wall clock was set the server's own clock shows it.
const SETTLING: Duration = Duration::from_millis(200);
/// The wall clock was set, or has drifted, by more than this.
const STEP: i64 = 50_000;
/// How many stalls and settings of the wall clock are remembered.
const REMEMBERED: usize = 64;

const SECOND: i64 = 1_000_000;

/// A time of the clock that stands still while the server stalls, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alive(u64);

impl Alive {
    pub(super) fn plus(self, length: Duration) -> Self {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    pub(super) const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

#[derive(Clone, Copy, Debug)]
struct Stall {
    from: Monotonic,
    to: Monotonic,
}

/// For this time the wall clock was so far ahead of the monotonic one.
#[derive(Clone, Copy, Debug)]
struct Setting {
    from: Monotonic,
    to: Monotonic,
    ahead: i64,
}

#[derive(Debug, Default)]
pub(super) struct Hearing {
    last: Option<Monotonic>,
    stalls: VecDeque<Stall>,
    /// The length of all stalls so far.
    stalled: Duration,
    settings: VecDeque<Setting>,
}

impl Hearing {
    /// Notes the time. `paused` says that no client could do anything since the last note.
    pub(super) fn note(&mut self, now: Now, paused: bool) {
        let Now { monotonic, unix } = now;
        let last = self.last.replace(monotonic).unwrap_or(monotonic);
        if paused || monotonic.since(last) > LONGEST_GAP {
            self.stalled += monotonic.since(last);
            match self.stalls.back_mut() {
                Some(stall) if stall.to == last => stall.to = monotonic,
                _ => remember(
                    &mut self.stalls,
                    Stall {
                        from: last,
                        to: monotonic,
                    },
                ),
            }
        }
        let ahead = micros(unix.micros()) - micros(monotonic.0);
        if let Some(setting) = self.settings.back_mut() {
            // It was set at any time since the last note.
            setting.to = monotonic;
            if (setting.ahead - ahead).abs() <= STEP {
                return;
            }
        }
        remember(
            &mut self.settings,
            Setting {
                from: last,
                to: monotonic,
                ahead,
            },
        );
    }

    /// True when the wall clock was set so short a while ago that the server's own clock may not show it yet.
    pub(super) fn was_just_set(&self) -> bool {
        let (Some(last), Some(setting)) = (self.last, self.settings.back()) else {
            return false;
        };
        self.settings.len() > 1 && last.since(setting.from) <= SETTLING
    }

    /// The time, by the clock that stands still in stalls. `at` is not before the last stall.
    pub(super) fn alive(&self, at: Monotonic) -> Alive {
        let stalled = u64::try_from(self.stalled.as_micros()).unwrap_or(u64::MAX);
        Alive(at.0.saturating_sub(stalled))
    }

    /// When the clock that stands still in stalls will show this, if nothing stalls.
    pub(super) fn monotonic(&self, at: Alive) -> Monotonic {
        Monotonic(at.0).plus(self.stalled)
    }

    /// The latest time for which the server can have noted this second.
    pub(super) fn latest(&self, noted: u64) -> Alive {
        let now = self.last.unwrap_or_default();
        let mut at = self.latest_moment(noted, now);
        // What is read in a stall is noted with a time from before it.
        for stall in &self.stalls {
            let from = Monotonic(stall.from.0.saturating_sub(LAG.unsigned_abs()));
            if from <= at && at < stall.to {
                at = stall.to;
            }
        }
        // Stalls that are forgotten lie before this.
        if let Some(first) = self.stalls.front()
            && self.stalls.len() == REMEMBERED
        {
            at = at.max(first.to);
        }
        let later = self.stalls.iter().filter(|stall| stall.from >= at);
        let later: Duration = later.map(|stall| stall.to.since(stall.from)).sum();
        self.alive(at.plus(later))
    }

    fn latest_moment(&self, noted: u64, now: Monotonic) -> Monotonic {
        let second = i64::try_from(noted)
            .unwrap_or(i64::MAX)
            .saturating_mul(SECOND);
        let settings = self.settings.iter().rev();
        for (age, setting) in settings.enumerate() {
            let first = second.saturating_sub(setting.ahead).saturating_sub(STEP);
            let last = first.saturating_add(SECOND + LAG + 2 * STEP);
            // The caller may read the clock a second later than the server did.
            if micros(setting.from.0) <= last && first <= micros(setting.to.0) + SECOND {
                let last = Monotonic(u64::try_from(last).unwrap_or_default());
                // What comes later in this second is noted with it too.
                return if age == 0 { last } else { last.min(setting.to) };
            }
        }
        match self.settings.front() {
            // It was noted before anything was kept here, or so long ago that it is forgotten.
            Some(oldest) if second.saturating_sub(oldest.ahead) < micros(oldest.from.0) => {
                oldest.from
            }
            _ => now,
        }
    }
}

fn remember<T>(list: &mut VecDeque<T>, entry: T) {
    if list.len() == REMEMBERED {
        list.pop_front();
    }
    list.push_back(entry);
}

fn micros(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
