//! Why a scenario was not passed.

use std::any::Any;
use std::fmt;

/// The result of a scenario, or of a step of it.
pub(crate) type Verdict<T = ()> = Result<T, Failure>;

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The client did what it must not do.
    Wrong(String),
    /// The language has no such thing.
    Unsupported(String),
}

/// As it is printed.
pub(crate) fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Ok(()) => "passed",
        Err(Failure::Wrong(_)) => "FAILED",
        Err(Failure::Unsupported(_)) => "unsupported",
    }
}

impl Failure {
    /// With what it is about in front.
    pub(crate) fn of(self, what: &str) -> Self {
        match self {
            Self::Wrong(why) => Self::Wrong(format!("{what}: {why}")),
            unsupported @ Self::Unsupported(_) => unsupported,
        }
    }

    /// The test bed's message in a panic.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        Self::Wrong(testbed::message_of(panic))
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(why) => f.write_str(why),
            Self::Unsupported(what) => write!(f, "unsupported: {what}"),
        }
    }
}

/// Fails the scenario with this text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::failure::Failure::Wrong(format!($($text)+)));
        }
    };
}
pub(crate) use ensure;
