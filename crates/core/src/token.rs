//! Fencing tokens and the clock that issues them.

use std::num::NonZeroU64;

use super::UnixTime;

/// A fencing token: 1 to 2^53 - 1, so that a double holds it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

impl Token {
    /// The highest token, 2^53 - 1.
    pub const MAX: Self = Self(NonZeroU64::new((1 << 53) - 1).unwrap());

    /// The token with this number; `None` for zero and above [`Token::MAX`].
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() <= Self::MAX.number() => Some(Self(number)),
            _ => None,
        }
    }

    /// The token as a number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0.get()
    }
}

/// Issues tokens that are higher than every token seen.
///
/// A new token is the highest token seen plus one, or the wall clock in microseconds if that is higher. So tokens
/// increase after a restart without data, and also when the wall clock is set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenClock {
    last: Option<Token>,
}

impl TokenClock {
    /// A clock that has seen no token yet.
    #[must_use]
    pub const fn new() -> Self {
        Self::after(None)
    }

    /// A clock that has seen `last`.
    #[must_use]
    pub const fn after(last: Option<Token>) -> Self {
        Self { last }
    }

    /// The highest token seen.
    #[must_use]
    pub const fn last(self) -> Option<Token> {
        self.last
    }

    /// Records a token that was granted elsewhere, loaded or raised.
    pub fn observe(&mut self, token: Token) {
        self.last = self.last.max(Some(token));
    }

    /// Issues the token of a new grant; `None` if the token space is used up.
    pub fn issue(&mut self, now: UnixTime) -> Option<Token> {
        let next = self.last.map_or(1, |last| last.number() + 1);
        let token = Token::new(next.max(now.micros()))?;
        self.last = Some(token);
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_a_double() {
        assert_eq!(Token::new(0), None);
        assert_eq!(Token::new(1).map(Token::number), Some(1));
        assert_eq!(Token::new(9_007_199_254_740_991), Some(Token::MAX));
        assert_eq!(Token::new(9_007_199_254_740_992), None);
    }

    #[test]
    fn a_used_up_token_space_issues_no_token_and_changes_nothing() {
        let mut clock = TokenClock::new();
        clock.observe(Token::MAX);
        let before = clock;
        assert_eq!(clock.issue(UnixTime::from_micros(1)), None);
        assert_eq!(clock, before);
        let mut late = TokenClock::new();
        assert_eq!(late.issue(UnixTime::from_micros(u64::MAX)), None);
        assert_eq!((late, late.last()), (TokenClock::new(), None));
    }
}
