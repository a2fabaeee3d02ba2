//! A held lock as bytes: its form in the server's memory.
//!
//! Nearly every lock takes ten bytes and the owner, little more than a plain string of that owner. A
//! lock that is held more than once, or with a lease of more than four hours, takes sixteen.
//!
//! ```text
//! token 7 bytes, its top bit: wide?
//!   no:  lease-ms 3 bytes                  (one hold)
//!   yes: lease-ms 5 bytes, holds 4 bytes
//! owner, the rest
//! ```
//! Numbers are little-endian. An effect carries a record behind its version (`effect.rs`); RDB has each
//! field on its own ([`Fields`]).

use std::fmt;

use super::{Grant, Held, Holds, Lease, Owner, Token};

pub(crate) const TOKEN_BYTES: usize = 7;
const WIDE: u64 = 1 << 55;
const NARROW_LEASE_BYTES: usize = 3;
const WIDE_LEASE_BYTES: usize = 5;
const HOLDS_BYTES: usize = 4;
const MAX_HEAD: usize = TOKEN_BYTES + WIDE_LEASE_BYTES + HOLDS_BYTES;
/// The longest record.
pub(crate) const MAX_RECORD: usize = MAX_HEAD + Owner::MAX;

/// A buffer that any record fits in.
#[derive(Debug)]
pub struct RecordBuffer([u8; MAX_RECORD]);

impl<'a> Held<'a> {
    /// The lock without its deadline.
    #[must_use]
    pub const fn record(&self) -> Record<'a> {
        Record {
            owner: self.owner,
            grant: self.grant,
        }
    }
}

impl RecordBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; MAX_RECORD])
    }
}

impl Default for RecordBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// The bytes are not those of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError;

/// A field is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// A number that is not in 1 to `max`.
    Number {
        /// The name of the field.
        name: &'static str,
        /// Its value.
        number: u64,
        /// The highest value allowed.
        max: u64,
    },
    /// The owner's length in bytes.
    Owner(usize),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { name, number, max } => write!(f, "{name} {number} (1 to {max})"),
            Self::Owner(length) => write!(f, "owner of {length} bytes (1 to {})", Owner::MAX),
        }
    }
}

/// An owner and its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The holder.
    pub owner: Owner<'a>,
    /// Its grant.
    pub grant: Grant,
}

/// The fields of a record as they are stored; not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The fencing token.
    pub token: u64,
    /// The hold count.
    pub holds: u64,
    /// The remembered lease, in milliseconds.
    pub lease_ms: u64,
    /// The holder.
    pub owner: &'a [u8],
}

impl<'a> TryFrom<Fields<'a>> for Record<'a> {
    type Error = FieldError;

    fn try_from(fields: Fields<'a>) -> Result<Self, FieldError> {
        let out_of_range = |name, number, max| FieldError::Number { name, number, max };
        let Fields {
            token,
            holds,
            lease_ms,
            owner,
        } = fields;
        let to_holds = |number| u32::try_from(number).ok().and_then(Holds::new);
        let max_holds = u64::from(Holds::MAX.number());
        let max_lease = Lease::MAX.millis();
        Ok(Self {
            grant: Grant {
                token: Token::new(token).ok_or(out_of_range(
                    "token",
                    token,
                    Token::MAX.number(),
                ))?,
                holds: to_holds(holds).ok_or(out_of_range("hold count", holds, max_holds))?,
                lease: Lease::from_millis(lease_ms)
                    .ok_or(out_of_range("lease", lease_ms, max_lease))?,
            },
            owner: Owner::new(owner).ok_or(FieldError::Owner(owner.len()))?,
        })
    }
}

impl<'a> From<Record<'a>> for Fields<'a> {
    fn from(Record { owner, grant }: Record<'a>) -> Self {
        Self {
            token: grant.token.number(),
            holds: u64::from(grant.holds.number()),
            lease_ms: grant.lease.millis(),
            owner: owner.bytes(),
        }
    }
}

impl<'a> Record<'a> {
    /// Writes the record into `buffer`; returns its bytes.
    #[must_use]
    pub fn encode<'buffer>(&self, buffer: &'buffer mut RecordBuffer) -> &'buffer [u8] {
        let length = self.write(&mut buffer.0);
        &buffer.0[..length]
    }

    /// Writes the record to the start of `bytes`, and tells its length.
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

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`RecordError`] when a field is missing or out of its range.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let (head, rest) = number::<TOKEN_BYTES>(bytes)?;
        let (lease_ms, holds, owner) = if head & WIDE == 0 {
            let (lease_ms, owner) = number::<NARROW_LEASE_BYTES>(rest)?;
            (lease_ms, 1, owner)
        } else {
            let (lease_ms, rest) = number::<WIDE_LEASE_BYTES>(rest)?;
            let (holds, owner) = number::<HOLDS_BYTES>(rest)?;
            (lease_ms, holds, owner)
        };
        Self::try_from(Fields {
            token: head & !WIDE,
            holds,
            lease_ms,
            owner,
        })
        .map_err(|_| RecordError)
    }
}

/// The token that a record starts with, whatever follows it.
pub(crate) fn token_of(record: &[u8]) -> Option<Token> {
    let (head, _rest) = number::<TOKEN_BYTES>(record).ok()?;
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

pub(crate) fn number<const BYTES: usize>(bytes: &[u8]) -> Result<(u64, &[u8]), RecordError> {
    let (head, rest) = bytes.split_at_checked(BYTES).ok_or(RecordError)?;
    let mut wide = [0; 8];
    wide[..BYTES].copy_from_slice(head);
    Ok((u64::from_le_bytes(wide), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(owner: &[u8], token: u64, holds: u32, lease: u64) -> Record<'_> {
        Record {
            owner: Owner::new(owner).unwrap(),
            grant: Grant {
                token: Token::new(token).unwrap(),
                holds: Holds::new(holds).unwrap(),
                lease: Lease::from_millis(lease).unwrap(),
            },
        }
    }

    #[test]
    fn a_usual_lock_takes_ten_bytes_and_its_owner() {
        let mut buffer = RecordBuffer::new();
        let usual = record(b"web:7", 1_795_000_000_000_000, 1, 30_000);
        assert_eq!(usual.encode(&mut buffer).len(), 10 + 5);
        let long = record(b"web:7", 1_795_000_000_000_000, 1, 1 << 24);
        assert_eq!(long.encode(&mut buffer).len(), 16 + 5);
        let twice = record(b"web:7", 1_795_000_000_000_000, 2, 30_000);
        assert_eq!(twice.encode(&mut buffer).len(), 16 + 5);
    }

    #[test]
    fn the_limits_of_every_field_are_encoded_and_decoded() {
        let longest = [0xff; Owner::MAX];
        for owner in [&b"\0"[..], &longest] {
            for token in [1, Token::MAX.number()] {
                for holds in [1, 2, Holds::MAX.number()] {
                    for lease in [1, (1 << 24) - 1, 1 << 24, Lease::MAX.millis()] {
                        let before = record(owner, token, holds, lease);
                        let mut buffer = RecordBuffer::new();
                        assert_eq!(Record::decode(before.encode(&mut buffer)), Ok(before));
                    }
                }
            }
        }
    }

    #[test]
    fn truncated_and_out_of_range_records_are_refused() {
        let mut buffer = RecordBuffer::new();
        let whole = record(b"o", 77, 3, 30_000).encode(&mut buffer).to_vec();
        for length in 0..whole.len() {
            assert_eq!(Record::decode(&whole[..length]), Err(RecordError));
        }
        assert_eq!(Record::decode(&[0; 300]), Err(RecordError), "token 0");
        let mut no_holds = whole.clone();
        no_holds[12..16].fill(0);
        assert_eq!(Record::decode(&no_holds), Err(RecordError));
        let mut owner_too_long = whole;
        owner_too_long.extend([1; Owner::MAX]);
        assert_eq!(Record::decode(&owner_too_long), Err(RecordError));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 16 } else { 256 }))]

        #[test]
        fn any_bytes_are_refused_or_decode_to_what_encodes_again(
            bytes in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            if let Ok(record) = Record::decode(&bytes) {
                let mut buffer = RecordBuffer::new();
                prop_assert_eq!(Record::decode(record.encode(&mut buffer)), Ok(record));
            }
        }
    }
}
