//! One holder of a lock, and its bytes in the server's memory.
//!
//! The value of an exclusive lock is a record: token, lease, holds and owner. Nearly every record takes ten
//! bytes and the owner. With several holds, or a lease of more than four hours, it takes sixteen.
//!
//! ```text
//! token 7 bytes, its top bit: wide?
//!   no:  lease-ms 3 bytes                  (one hold)
//!   yes: lease-ms 5 bytes, holds 4 bytes
//! owner, the rest
//! ```
//! For a holder of a shared lock, its end (8 bytes) and limit (4 bytes) come before the record.
//! Numbers are little-endian.

use super::{Deadline, Grant, Holds, Lease, Limit, Owner, Token};

pub(crate) const TOKEN_BYTES: usize = 7;
const WIDE: u64 = 1 << 55;
const NARROW_LEASE_BYTES: usize = 3;
const WIDE_LEASE_BYTES: usize = 5;
const HOLDS_BYTES: usize = 4;
/// The longest record.
pub(crate) const MAX_RECORD: usize = TOKEN_BYTES + WIDE_LEASE_BYTES + HOLDS_BYTES + Owner::MAX;
/// The longest holder of a shared lock in bytes.
pub(crate) const MAX_SHARED: usize = 8 + 4 + MAX_RECORD;

/// One holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The owner.
    pub owner: Owner<'a>,
    /// The grant.
    pub grant: Grant,
    /// How many holders the grant allows, this one included.
    pub limit: Limit,
    /// When the lease ends. At exactly this time the holder still holds the lock.
    pub end: Deadline,
}

impl<'a> Holder<'a> {
    /// Writes the record to the start of `bytes` and returns its length.
    pub(crate) fn write(&self, bytes: &mut [u8]) -> usize {
        let Grant {
            token,
            holds,
            lease,
        } = self.grant;
        let narrow = holds == Holds::ONE && lease.millis() < 1 << (8 * NARROW_LEASE_BYTES);
        let mut writer = Writer { bytes, length: 0 };
        if narrow {
            writer.put(&token.number().to_le_bytes()[..TOKEN_BYTES]);
            writer.put(&lease.millis().to_le_bytes()[..NARROW_LEASE_BYTES]);
        } else {
            writer.put(&(token.number() | WIDE).to_le_bytes()[..TOKEN_BYTES]);
            writer.put(&lease.millis().to_le_bytes()[..WIDE_LEASE_BYTES]);
            writer.put(&holds.number().to_le_bytes());
        }
        writer.put(self.owner.bytes());
        writer.length
    }

    /// Reads a record; `None` if a field is missing or out of range.
    #[must_use]
    pub fn read(record: &'a [u8], limit: Limit, end: Deadline) -> Option<Self> {
        let (head, rest) = number::<TOKEN_BYTES>(record)?;
        let (lease_ms, holds, owner) = if head & WIDE == 0 {
            let (lease_ms, owner) = number::<NARROW_LEASE_BYTES>(rest)?;
            (lease_ms, 1, owner)
        } else {
            let (lease_ms, rest) = number::<WIDE_LEASE_BYTES>(rest)?;
            let (holds, owner) = number::<HOLDS_BYTES>(rest)?;
            (lease_ms, u32::try_from(holds).ok()?, owner)
        };
        Some(Self {
            owner: Owner::new(owner)?,
            grant: Grant {
                token: Token::new(head & !WIDE)?,
                holds: Holds::new(holds)?,
                lease: Lease::from_millis(lease_ms)?,
            },
            limit,
            end,
        })
    }

    /// Like [`Holder::write`], but with the end and the limit before the record.
    pub(crate) fn write_shared(&self, bytes: &mut [u8]) -> usize {
        let mut writer = Writer { bytes, length: 0 };
        writer.put(&self.end.millis().to_le_bytes());
        writer.put(&self.limit.number().to_le_bytes());
        let head = writer.length;
        head + self.write(&mut bytes[head..])
    }

    /// Reads what [`Holder::write_shared`] wrote; `None` if a field is missing or out of range.
    pub(crate) fn read_shared(bytes: &'a [u8]) -> Option<Self> {
        let (end, rest) = number::<8>(bytes)?;
        let (limit, record) = rest.split_first_chunk::<4>()?;
        let limit = Limit::new(u32::from_le_bytes(*limit))?;
        Self::read(record, limit, Deadline::at(end)?)
    }
}

/// Reads only the token at the start of a record.
pub(crate) fn token_of(record: &[u8]) -> Option<Token> {
    let (head, _rest) = number::<TOKEN_BYTES>(record)?;
    Token::new(head & !WIDE)
}

pub(crate) struct Writer<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) length: usize,
}

impl Writer<'_> {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }
}

/// Reads a number of `BYTES` bytes. Returns the number and the rest.
pub(crate) fn number<const BYTES: usize>(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(BYTES)?;
    let mut wide = [0; 8];
    wide[..BYTES].copy_from_slice(head);
    Some((u64::from_le_bytes(wide), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(owner: &[u8], token: u64, holds: u32, lease: u64) -> Holder<'_> {
        Holder {
            owner: Owner::new(owner).unwrap(),
            grant: Grant {
                token: Token::new(token).unwrap(),
                holds: Holds::new(holds).unwrap(),
                lease: Lease::from_millis(lease).unwrap(),
            },
            limit: Limit::ONE,
            end: Deadline::Never,
        }
    }

    fn encoded(holder: Holder<'_>) -> Vec<u8> {
        let mut bytes = [0; MAX_RECORD];
        let length = holder.write(&mut bytes);
        bytes[..length].to_vec()
    }

    fn read(bytes: &[u8]) -> Option<Holder<'_>> {
        Holder::read(bytes, Limit::ONE, Deadline::Never)
    }

    #[test]
    fn a_usual_lock_takes_ten_bytes_and_its_owner() {
        let usual = holder(b"web:7", 1_795_000_000_000_000, 1, 30_000);
        assert_eq!(encoded(usual).len(), 10 + 5);
        let long = holder(b"web:7", 1_795_000_000_000_000, 1, 1 << 24);
        assert_eq!(encoded(long).len(), 16 + 5);
        let twice = holder(b"web:7", 1_795_000_000_000_000, 2, 30_000);
        assert_eq!(encoded(twice).len(), 16 + 5);
    }

    #[test]
    fn the_limits_of_every_field_are_encoded_and_decoded() {
        let longest = [0xff; Owner::MAX];
        for owner in [&b"\0"[..], &longest] {
            for token in [1, Token::MAX.number()] {
                for holds in [1, 2, Holds::MAX.number()] {
                    for lease in [1, (1 << 24) - 1, 1 << 24, Lease::MAX.millis()] {
                        let before = holder(owner, token, holds, lease);
                        assert_eq!(read(&encoded(before)), Some(before));
                    }
                }
            }
        }
    }

    #[test]
    fn truncated_and_out_of_range_records_are_refused() {
        let whole = encoded(holder(b"o", 77, 3, 30_000));
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None);
        }
        assert_eq!(read(&[0; 300]), None, "token 0");
        let mut no_holds = whole.clone();
        no_holds[12..16].fill(0);
        assert_eq!(read(&no_holds), None);
        let mut owner_too_long = whole;
        owner_too_long.extend([1; Owner::MAX]);
        assert_eq!(read(&owner_too_long), None);
    }
}
