//! The shares of a lock as fields of a file: RDB, `DUMP`, `RESTORE`.
//!
//! ```text
//! 0      where a lock of limit 1 has its token: a version that knows no shares refuses the file
//! 1      the form of what follows
//! count  of the shares
//! each, lowest token first: limit (0: none), end in ms since 1970, token, hold count, lease in ms, owner
//! ```
//! So the encoding version of the data type stays, and with it each byte of a lock of limit 1. The ends
//! are the shares' own: a cut that no change has made lasting is in the key's expiry alone.

use std::fmt;

use super::share::{LAST_END, Share};
use super::shares::Shares;
use crate::{FieldError, Fields, Limit, Record, Token};

/// What stands where a lock of limit 1 has its token.
pub const STORED_MARK: u64 = 0;
/// The form of stored shares.
pub const STORED_FORM: u64 = 1;

/// The fields of a share as they are stored; not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFields<'a> {
    /// Those that a lock of limit 1 has too.
    pub record: Fields<'a>,
    /// The limit, 0 for none.
    pub limit: u64,
    /// The end of the lease, in milliseconds since 1970.
    pub end_ms: u64,
}

impl<'a> From<Share<'a>> for ShareFields<'a> {
    fn from(share: Share<'a>) -> Self {
        let record = Record {
            owner: share.owner,
            grant: share.grant,
        };
        Self {
            record: Fields::from(record),
            limit: share.limit.number().into(),
            end_ms: share.end,
        }
    }
}

impl<'a> TryFrom<ShareFields<'a>> for Share<'a> {
    type Error = StoredError;

    fn try_from(fields: ShareFields<'a>) -> Result<Self, StoredError> {
        let Record { owner, grant } =
            Record::try_from(fields.record).map_err(StoredError::Field)?;
        let limit = u32::try_from(fields.limit).ok().and_then(Limit::new);
        Ok(Self {
            owner,
            grant,
            limit: limit.ok_or(StoredError::Limit(fields.limit))?,
            end: Some(fields.end_ms)
                .filter(|end| *end <= LAST_END)
                .ok_or(StoredError::End(fields.end_ms))?,
        })
    }
}

/// Why stored shares are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredError {
    /// A field that a lock of limit 1 has too.
    Field(FieldError),
    /// A limit above the highest.
    Limit(u64),
    /// An end that no expiry can be.
    End(u64),
    /// One owner twice.
    OwnerTwice,
    /// A token that is not above the one before it.
    TokenOrder(Token),
    /// More shares than a limit among them bears.
    TooMany(Limit),
    /// No share, or a lone one of limit 1.
    NotShared,
}

impl fmt::Display for StoredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(error) => error.fmt(f),
            Self::Limit(limit) => write!(f, "limit {limit} (0 to {})", Limit::MAX.number()),
            Self::End(end) => write!(f, "end of a lease {end} (0 to {LAST_END})"),
            Self::OwnerTwice => f.write_str("an owner that holds the lock already"),
            Self::TokenOrder(token) => write!(
                f,
                "token {}, which is not above the one before it",
                token.number()
            ),
            Self::TooMany(limit) => {
                write!(f, "more holders than a limit of {} bears", limit.number())
            }
            Self::NotShared => f.write_str("a shared lock that nobody shares"),
        }
    }
}

/// Shares that are being read.
#[derive(Debug, Default)]
pub struct StoredShares {
    shares: Option<Shares>,
    last: Option<Token>,
}

impl StoredShares {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next share. The last token of all is the highest.
    ///
    /// # Errors
    ///
    /// [`StoredError`] when a field is out of its range, or the share cannot be beside the others.
    pub fn add(&mut self, fields: ShareFields<'_>) -> Result<Token, StoredError> {
        let share = Share::try_from(fields)?;
        let token = share.grant.token;
        if self.last.is_some_and(|last| last >= token) {
            return Err(StoredError::TokenOrder(token));
        }
        self.last = Some(token);
        match &mut self.shares {
            Some(shares) if shares.of(share.owner).is_some() => {
                return Err(StoredError::OwnerTwice);
            }
            Some(shares) => shares.put(&share),
            None => self.shares = Some(Shares::one(&share)),
        }
        Ok(token)
    }

    /// The shares, when all are added.
    ///
    /// # Errors
    ///
    /// [`StoredError`] when there are none, or more than a limit among them bears.
    pub fn finish(self) -> Result<Shares, StoredError> {
        let shares = self.shares.ok_or(StoredError::NotShared)?;
        let (least, count) = (shares.least_limit(), shares.count());
        match (least, count) {
            (Limit::ONE, 1) => Err(StoredError::NotShared),
            _ if least.bears(count) => Ok(shares),
            _ => Err(StoredError::TooMany(least)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Holds;

    fn fields(owner: &[u8], token: u64, limit: u64) -> ShareFields<'_> {
        ShareFields {
            record: Fields {
                token,
                holds: 1,
                lease_ms: 30_000,
                owner,
            },
            limit,
            end_ms: 1_795_000_000_000,
        }
    }

    fn read(all: &[ShareFields<'_>]) -> Result<Shares, StoredError> {
        let mut shares = StoredShares::new();
        for fields in all {
            shares.add(*fields)?;
        }
        shares.finish()
    }

    #[test]
    fn shares_are_read_as_they_were_stored() {
        let names: Vec<_> = (0..40_u8).map(|n| [b'o', n]).collect();
        for count in [1, 2, 16, 17, 40] {
            let stored: Vec<_> = (1..)
                .zip(&names[..count])
                .map(|(token, name)| fields(name, token, [0, 40][usize::from(token % 2 == 0)]))
                .collect();
            let shares = read(&stored).unwrap();
            assert_eq!(shares.count(), count);
            let again: Vec<_> = shares.iter().map(ShareFields::from).collect();
            assert_eq!(again, stored);
        }
    }

    #[test]
    fn what_cannot_stand_together_is_refused() {
        let over = u64::from(Limit::MAX.number()) + 1;
        let number = FieldError::Number {
            name: "hold count",
            number: 0,
            max: Holds::MAX.number().into(),
        };
        let mut no_holds = fields(b"a", 1, 0);
        no_holds.record.holds = 0;
        let mut never = fields(b"a", 1, 0);
        never.end_ms = LAST_END + 1;
        let two = Token::new(2).unwrap();
        for (stored, error) in [
            (&[][..], StoredError::NotShared),
            (&[fields(b"a", 1, 1)], StoredError::NotShared),
            (&[fields(b"a", 1, over)], StoredError::Limit(over)),
            (&[no_holds], StoredError::Field(number)),
            (&[never], StoredError::End(LAST_END + 1)),
            (
                &[fields(b"a", 2, 0), fields(b"b", 2, 0)],
                StoredError::TokenOrder(two),
            ),
            (
                &[fields(b"a", 3, 0), fields(b"b", 2, 0)],
                StoredError::TokenOrder(two),
            ),
            (
                &[fields(b"a", 1, 0), fields(b"a", 2, 0)],
                StoredError::OwnerTwice,
            ),
            (
                &[fields(b"a", 1, 0), fields(b"b", 2, 1)],
                StoredError::TooMany(Limit::ONE),
            ),
            (
                &[fields(b"a", 1, 2), fields(b"b", 2, 0), fields(b"c", 3, 0)],
                StoredError::TooMany(Limit::new(2).unwrap()),
            ),
        ] {
            assert_eq!(read(stored), Err(error), "{stored:?}");
        }
        assert!(read(&[fields(b"a", 1, 2), fields(b"b", 2, 0)]).is_ok());
    }
}
