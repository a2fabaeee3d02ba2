//! The reasons why the rules refuse a call.

use std::ffi::CStr;

/// Why a command changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The lock is free.
    NotHeld,
    /// The owner has fewer holds than the call expects.
    HoldsLost,
    /// Other owners hold the lock.
    NotOwner,
    /// The given token is not that of the current grant.
    Fenced,
    /// The token to raise to is too far ahead of this server's time.
    Ahead,
    /// One more hold would pass [`Holds::MAX`](crate::Holds::MAX).
    TooManyHolds,
    /// No token is left for a new grant.
    TokensUsedUp,
    /// The lock has more holders than the call allows.
    NotAlone,
    /// The grant has several holds, so its limit cannot be widened: one of the holds may rely on exclusivity.
    SeveralHolds,
    /// The lock is shared, and only the token of an exclusive lock can be raised.
    NotRaisable,
    /// The session has so many events that it accepts no new grant and no new wait.
    SessionFull,
    /// The lease of a grant in a session would be shorter than a second.
    SessionLeaseTooShort,
}

impl Refusal {
    /// Returns true for an `ERR`. Every other refusal that applies takes precedence over it.
    #[must_use]
    pub fn is_last(self) -> bool {
        self.text().to_bytes().starts_with(b"ERR ")
    }

    /// The error for the caller. Its first word is for programs.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::NotHeld => c"NOTHELD the lock is free",
            Self::HoldsLost => {
                c"NOTHELD the owner has fewer holds than HOLDS expects: some were lost"
            }
            Self::NotOwner => c"NOTOWNER another owner holds the lock",
            Self::Fenced => c"FENCED the token is not that of the current grant",
            Self::Ahead => {
                c"AHEAD the token to raise to is further ahead of this server's time than \
                  lock.max-token-lead-ms allows"
            }
            Self::TooManyHolds => c"ERR the hold count is at its limit of 2147483647",
            Self::TokensUsedUp => {
                c"ERR no fencing token is left: this server has seen one near 2^53"
            }
            Self::NotAlone => {
                c"NOTALONE the lock has more holders than this call allows: release it first"
            }
            Self::SeveralHolds => {
                c"ERR a grant with several holds cannot get a higher limit: release the other holds first"
            }
            Self::NotRaisable => c"ERR only an exclusive grant (limit 1) can be raised",
            Self::SessionFull => {
                c"MAXWAITERS the session has 10000 events that are not acknowledged: poll it first"
            }
            Self::SessionLeaseTooShort => {
                c"ERR a grant in a session needs a lease of at least 1000 ms: give one with PX or EX, or \
                  keep the grant out of the session"
            }
        }
    }
}
