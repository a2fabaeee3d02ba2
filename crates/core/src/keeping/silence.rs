//! How long a connection may be silent.

use std::time::Duration;

use crate::Lease;

/// How long the connection that keeps a grant may be silent: one second to ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Silence {
    millis: u64,
}

impl Silence {
    /// The shortest, one second.
    pub const MIN: Self = Self { millis: 1000 };
    /// The longest, ten years.
    pub const MAX: Self = Self {
        millis: Lease::MAX.millis(),
    };

    /// A silence of `millis` milliseconds; `None` below [`Silence::MIN`] and above [`Silence::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Option<Self> {
        if millis < Self::MIN.millis || millis > Self::MAX.millis {
            None
        } else {
            Some(Self { millis })
        }
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.millis
    }

    pub(super) const fn length(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

/// `KEEP ms`, as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// `KEEP 0`: a renewal ends the keeping.
    End,
    /// The grant is kept while the connection is silent for no longer.
    For(Silence),
}

#[cfg(test)]
mod tests {
    use super::Silence;

    #[test]
    fn a_silence_is_one_second_to_ten_years() {
        for (millis, is_one) in [
            (0, false),
            (999, false),
            (1000, true),
            (315_360_000_000, true),
            (315_360_000_001, false),
        ] {
            let silence = Silence::from_millis(millis);
            assert_eq!(silence.map(Silence::millis), is_one.then_some(millis));
        }
    }
}
