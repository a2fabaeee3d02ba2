//! The stored form of a lock's holders, in RDB files and in the payload of `DUMP` and `RESTORE`.
//!
//! An exclusive lock is stored as token, hold count, lease and owner. Its end is the expiry of the key, which
//! the server stores. Every other lock is stored as:
//!
//! ```text
//! 0      in the place of an exclusive lock's token, so that versions without sharing refuse the file
//! 1      the version of the form that follows
//! count  of the holders
//! each, lowest token first: limit (0: none), end in ms since 1970, token, hold count, lease in ms, owner
//! ```
//! Both forms have the same encoding version. The ends are the holders' own ends. A cap by `PEXPIRE` that no change has
//! applied to the holders yet is stored only as the expiry of the key.

use std::fmt;

use super::{Deadline, Grant, Holder, HolderSet, Holds, Lease, Limit, Owner, Token};

/// The marker in the place where an exclusive lock has its token.
pub const STORED_MARK: u64 = 0;
/// The form of the holders of a shared lock.
pub const STORED_FORM: u64 = 1;

/// The unchecked fields of a stored holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredHolder<'a> {
    /// The limit, 0 for none; 1 for the holder of an exclusive lock.
    pub limit: u64,
    /// The end of the lease in milliseconds since 1970; `None` for an exclusive lock, where the key's expiry is the
    /// end.
    pub end_ms: Option<u64>,
    /// The fencing token.
    pub token: u64,
    /// The hold count.
    pub holds: u64,
    /// The remembered lease in milliseconds.
    pub lease_ms: u64,
    /// The name.
    pub owner: &'a [u8],
}

impl<'a> From<Holder<'a>> for StoredHolder<'a> {
    fn from(holder: Holder<'a>) -> Self {
        Self {
            limit: holder.limit.number().into(),
            end_ms: match holder.end {
                Deadline::At(end) => Some(end),
                Deadline::Never => None,
            },
            token: holder.grant.token.number(),
            holds: holder.grant.holds.number().into(),
            lease_ms: holder.grant.lease.millis(),
            owner: holder.owner.bytes(),
        }
    }
}

impl<'a> TryFrom<StoredHolder<'a>> for Holder<'a> {
    type Error = StoredError;

    fn try_from(stored: StoredHolder<'a>) -> Result<Self, StoredError> {
        let from_one = |name, number, max| StoredError::Number {
            name,
            number,
            min: 1,
            max,
        };
        let from_zero = |name, number, max| StoredError::Number {
            name,
            number,
            min: 0,
            max,
        };
        let StoredHolder {
            limit,
            end_ms,
            token,
            holds,
            lease_ms,
            owner,
        } = stored;
        let short = |number| u32::try_from(number).ok();
        Ok(Self {
            grant: Grant {
                token: Token::new(token).ok_or(from_one("token", token, Token::MAX.number()))?,
                holds: short(holds).and_then(Holds::new).ok_or(from_one(
                    "hold count",
                    holds,
                    Holds::MAX.number().into(),
                ))?,
                lease: Lease::from_millis(lease_ms).ok_or(from_one(
                    "lease",
                    lease_ms,
                    Lease::MAX.millis(),
                ))?,
            },
            owner: Owner::new(owner).ok_or(StoredError::Owner(owner.len()))?,
            limit: short(limit).and_then(Limit::new).ok_or(from_zero(
                "limit",
                limit,
                Limit::MAX.number().into(),
            ))?,
            end: match end_ms {
                None => Deadline::Never,
                Some(end) => {
                    Deadline::at(end).ok_or(from_zero("end of a lease", end, Deadline::LAST))?
                }
            },
        })
    }
}

/// Why a stored lock is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredError {
    /// A number is out of range.
    Number {
        /// The name of the field.
        name: &'static str,
        /// Its value.
        number: u64,
        /// The lowest value allowed.
        min: u64,
        /// The highest value allowed.
        max: u64,
    },
    /// An owner has an invalid length in bytes.
    Owner(usize),
    /// Two holders have the same owner.
    OwnerTwice,
    /// A token is not higher than the one before it.
    TokenOrder(Token),
    /// There are more holders than the limit of one of them allows.
    TooMany(Limit),
    /// A shared lock has no holders, or only one holder with limit 1.
    NotShared,
}

impl fmt::Display for StoredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number {
                name,
                number,
                min,
                max,
            } => write!(f, "{name} {number} ({min} to {max})"),
            Self::Owner(length) => write!(f, "owner of {length} bytes (1 to {})", Owner::MAX),
            Self::OwnerTwice => f.write_str("an owner that holds the lock already"),
            Self::TokenOrder(token) => write!(
                f,
                "token {}, which is not higher than the one before it",
                token.number()
            ),
            Self::TooMany(limit) => {
                write!(f, "more holders than a limit of {} allows", limit.number())
            }
            Self::NotShared => {
                f.write_str("a shared lock with no holder, or with one exclusive holder")
            }
        }
    }
}

impl HolderSet {
    /// Adds the next holder of a stored lock to those read so far, in the order of their tokens.
    ///
    /// # Errors
    ///
    /// [`StoredError`] if the holder conflicts with the others.
    pub fn add_stored(set: &mut Option<Self>, holder: &Holder<'_>) -> Result<(), StoredError> {
        let token = holder.grant.token;
        match set {
            Some(set) if set.highest() >= Some(token) => Err(StoredError::TokenOrder(token)),
            Some(set) if set.find(holder.owner).is_some() => Err(StoredError::OwnerTwice),
            Some(set) => {
                set.put(holder);
                Ok(())
            }
            None => {
                *set = Some(Self::one(holder));
                Ok(())
            }
        }
    }

    /// Returns the holders of a stored lock after all were added.
    ///
    /// # Errors
    ///
    /// [`StoredError`] if there are none, or more than the limit of one of them allows.
    pub fn finish_stored(set: Option<Self>) -> Result<Self, StoredError> {
        let set = set.ok_or(StoredError::NotShared)?;
        let (least, count) = (set.least_limit(), set.count());
        match (least, count) {
            (Limit::ONE, 1) => Err(StoredError::NotShared),
            _ if least.allows(count) => Ok(set),
            _ => Err(StoredError::TooMany(least)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(owner: &[u8], token: u64, limit: u64) -> StoredHolder<'_> {
        StoredHolder {
            limit,
            end_ms: Some(1_795_000_000_000),
            token,
            holds: 1,
            lease_ms: 30_000,
            owner,
        }
    }

    fn read(all: &[StoredHolder<'_>]) -> Result<HolderSet, StoredError> {
        let mut set = None;
        for fields in all {
            HolderSet::add_stored(&mut set, &Holder::try_from(*fields)?)?;
        }
        HolderSet::finish_stored(set)
    }

    #[test]
    fn conflicting_holders_are_refused() {
        let over = u64::from(Limit::MAX.number()) + 1;
        let number = |name, number, min, max| StoredError::Number {
            name,
            number,
            min,
            max,
        };
        let holds = number("hold count", 0, 1, Holds::MAX.number().into());
        let limit = number("limit", over, 0, Limit::MAX.number().into());
        let end = number("end of a lease", Deadline::LAST + 1, 0, Deadline::LAST);
        let mut no_holds = fields(b"a", 1, 0);
        no_holds.holds = 0;
        let mut never = fields(b"a", 1, 0);
        never.end_ms = Some(Deadline::LAST + 1);
        let two = Token::new(2).unwrap();
        for (stored, error) in [
            (&[][..], StoredError::NotShared),
            (&[fields(b"a", 1, 1)], StoredError::NotShared),
            (&[fields(b"a", 1, over)], limit),
            (&[no_holds], holds),
            (&[never], end),
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
