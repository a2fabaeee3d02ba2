//! The amounts of the quick form and of the full one.

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Everything, with fewer and shorter rounds.
    Quick,
    /// The form of the published figures.
    Full,
}

impl Scale {
    /// An amount in this form: the first in the quick one, the second in the full one.
    pub(crate) fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    pub(crate) fn rounds(self) -> usize {
        self.of(7, 9)
    }

    /// Pairs a round, sent in batches.
    pub(crate) fn pipelined_pairs(self) -> usize {
        self.of(5_000, 20_000)
    }
}
