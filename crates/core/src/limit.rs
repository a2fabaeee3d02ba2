//! The limit of holders that a grant allows.

/// How many holders a lock may have at once while this grant exists, including its own holder: 1 to 2^31 - 1, or no
/// limit.
///
/// [`Limit::NONE`] is greater than every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit(u32);

impl Limit {
    /// The limit of a plain acquire, which holds the lock exclusively.
    pub const ONE: Self = Self(1);
    /// The highest number, 2^31 - 1.
    pub const MAX: Self = Self((1 << 31) - 1);
    /// No limit: `SHARED`.
    pub const NONE: Self = Self(u32::MAX);

    /// The limit with this number, where 0 is no limit; `None` above [`Limit::MAX`].
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::NONE),
            _ if number <= Self::MAX.0 => Some(Self(number)),
            _ => None,
        }
    }

    /// The limit as a number, where 0 is no limit.
    #[must_use]
    pub const fn number(self) -> u32 {
        if self.0 == Self::NONE.0 { 0 } else { self.0 }
    }

    /// Returns true if the lock may have this many holders.
    #[must_use]
    pub fn allows(self, holders: usize) -> bool {
        self == Self::NONE || u32::try_from(holders).is_ok_and(|holders| holders <= self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Limit;

    #[test]
    fn a_limit_is_a_number_or_none_and_none_is_the_widest() {
        assert_eq!(Limit::new(0), Some(Limit::NONE));
        assert_eq!(Limit::new(1), Some(Limit::ONE));
        assert_eq!(Limit::new((1 << 31) - 1), Some(Limit::MAX));
        assert_eq!(Limit::new(1 << 31), None);
        assert_eq!(Limit::new(u32::MAX), None);
        assert!(Limit::ONE < Limit::MAX && Limit::MAX < Limit::NONE);
        for number in [0, 1, 2, (1 << 31) - 1] {
            assert_eq!(Limit::new(number).map(Limit::number), Some(number));
        }
    }

    #[test]
    fn a_limit_allows_no_more_than_its_number() {
        let five = Limit::new(5).unwrap();
        assert!(five.allows(5) && !five.allows(6));
        assert!(Limit::ONE.allows(1) && !Limit::ONE.allows(2));
        assert!(!Limit::MAX.allows(1 << 31) && Limit::NONE.allows(usize::MAX));
    }
}
