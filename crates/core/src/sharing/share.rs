use crate::record::{MAX_RECORD, Record};
use crate::{Grant, Lease, Limit, Owner, UnixTime};

const END_BYTES: usize = 8;
const LIMIT_BYTES: usize = 4;
const HEAD: usize = END_BYTES + LIMIT_BYTES;
/// The longest share in bytes.
pub(super) const MAX_SHARE: usize = HEAD + MAX_RECORD;

/// One holder of a shared lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    /// The holder.
    pub owner: Owner<'a>,
    /// Its grant.
    pub grant: Grant,
    /// How many holders it bears.
    pub limit: Limit,
    /// The end of its lease, in milliseconds since 1970. A share that ends at a time is held at it.
    pub end: u64,
}

impl<'a> Share<'a> {
    /// Writes `end (8) limit (4) record` to the start of `bytes`, and tells the length.
    pub(super) fn write(&self, bytes: &mut [u8]) -> usize {
        let (head, rest) = bytes.split_at_mut(HEAD);
        head[..END_BYTES].copy_from_slice(&self.end.to_le_bytes());
        head[END_BYTES..].copy_from_slice(&self.limit.number().to_le_bytes());
        let record = Record {
            owner: self.owner,
            grant: self.grant,
        };
        HEAD + record.write(rest)
    }

    /// Reads what [`Share::write`] wrote; `None` when a field is missing or out of its range.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (end, rest) = bytes.split_first_chunk::<END_BYTES>()?;
        let (limit, record) = rest.split_first_chunk::<LIMIT_BYTES>()?;
        let Record { owner, grant } = Record::decode(record).ok()?;
        let end = u64::from_le_bytes(*end);
        Some(Self {
            owner,
            grant,
            limit: Limit::new(u32::from_le_bytes(*limit))?,
            end: (end <= LAST_END).then_some(end)?,
        })
    }
}

/// The latest end: the server keeps expiry times as signed numbers.
pub(super) const LAST_END: u64 = i64::MAX.unsigned_abs();

/// The end of a lease that starts now.
pub(super) fn end_of(lease: Lease, now: UnixTime) -> u64 {
    now.millis().saturating_add(lease.millis()).min(LAST_END)
}
