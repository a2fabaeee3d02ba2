//! Times of the wall clock and of the monotonic clock, leases and deadlines.

use std::num::NonZeroU64;
use std::time::Duration;

/// A time of the wall clock, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime {
    micros: u64,
}

impl UnixTime {
    /// `micros` microseconds after the start of 1970.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Microseconds since 1970.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Milliseconds since 1970, rounded down. Redis's expiry times have this unit.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.micros / 1000
    }
}

/// A time of a monotonic clock, in microseconds since some start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The time `length` later.
    #[must_use]
    pub fn plus(self, length: Duration) -> Self {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The time passed since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// How long a grant lasts without a renewal: 1 ms to ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(NonZeroU64);

impl Lease {
    /// Ten years of 365 days: the longest lease that can be configured.
    pub const MAX: Self = Self(NonZeroU64::new(10 * 365 * 24 * 60 * 60 * 1000).unwrap());

    /// A lease of `millis` milliseconds; `None` for zero and above [`Lease::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Option<Self> {
        match NonZeroU64::new(millis) {
            Some(millis) if millis.get() <= Self::MAX.millis() => Some(Self(millis)),
            _ => None,
        }
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0.get()
    }

    /// The deadline of a lease that starts at `now`.
    #[must_use]
    pub const fn deadline_from(self, now: UnixTime) -> Deadline {
        Deadline::At(now.millis().saturating_add(self.millis()))
    }
}

/// When a lock's lease ends. [`Deadline::Never`] is greater than every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// At this time, in milliseconds since 1970.
    At(u64),
    /// Never, because an administrator's `PERSIST` has removed the expiry.
    Never,
}

impl Deadline {
    /// The latest deadline, because the server stores expiry times as signed numbers.
    pub const LAST: u64 = i64::MAX.unsigned_abs();

    /// The deadline at this time; `None` above [`Deadline::LAST`].
    #[must_use]
    pub const fn at(millis: u64) -> Option<Self> {
        if millis <= Self::LAST {
            Some(Self::At(millis))
        } else {
            None
        }
    }

    /// The time in milliseconds since 1970; [`Deadline::LAST`] for [`Deadline::Never`].
    #[must_use]
    pub const fn millis(self) -> u64 {
        match self {
            Self::At(millis) if millis < Self::LAST => millis,
            Self::At(_) | Self::Never => Self::LAST,
        }
    }

    /// Returns true if a lease with this deadline has ended at `now`.
    #[must_use]
    pub fn has_passed(self, now: UnixTime) -> bool {
        self < Self::At(now.millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_one_millisecond_to_ten_years() {
        assert_eq!(Lease::from_millis(0), None);
        assert_eq!(Lease::from_millis(1).map(Lease::millis), Some(1));
        let longest = Lease::MAX.millis();
        assert_eq!(longest, 315_360_000_000);
        assert_eq!(Lease::from_millis(longest), Some(Lease::MAX));
        assert_eq!(Lease::from_millis(longest + 1), None);
        assert_eq!(Lease::from_millis(u64::MAX), None);
    }

    #[test]
    fn a_deadline_is_later_than_its_start_and_never_overflows() {
        let lease = Lease::from_millis(30_000).unwrap();
        let now = UnixTime::from_micros(5_000_999);
        assert_eq!(lease.deadline_from(now), Deadline::At(35_000));
        let end_of_time = UnixTime::from_micros(u64::MAX);
        assert!(lease.deadline_from(end_of_time) > Deadline::At(end_of_time.millis()));
    }

    #[test]
    fn the_time_between_two_moments_is_their_difference() {
        let (early, late) = (Monotonic(5), Monotonic(3_000_005));
        assert_eq!(early.plus(Duration::from_secs(3)), late);
        assert_eq!(late.plus(Duration::MAX), Monotonic(u64::MAX));
        assert_eq!(late.since(early), Duration::from_secs(3));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn never_is_later_than_any_time() {
        assert!(Deadline::Never > Deadline::At(u64::MAX));
        assert_eq!(Deadline::Never.max(Deadline::At(1)), Deadline::Never);
        assert_eq!(Deadline::At(2).max(Deadline::At(1)), Deadline::At(2));
    }
}
