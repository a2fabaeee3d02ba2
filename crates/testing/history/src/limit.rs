use serde::{Deserialize, Serialize};
use std::fmt;

/// How many holders a call or a grant allows at once, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Limit(u32);

impl Limit {
    /// It allows nobody else: what a plain acquire asks for.
    pub const ONE: Self = Self(1);
    /// It allows any number: `SHARED`.
    pub const NONE: Self = Self(u32::MAX);

    /// As commands write it: 0 is none.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        match number {
            0 => Self::NONE,
            number => Self(number),
        }
    }

    /// Whether it allows so many.
    #[must_use]
    pub fn allows(self, holders: usize) -> bool {
        self == Self::NONE || usize::try_from(self.0).is_ok_and(|limit| holders <= limit)
    }

    /// As commands write it.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::NONE => 0,
            Self(number) => number,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => write!(f, "none"),
            Self(number) => write!(f, "{number}"),
        }
    }
}
