//! A few holders in one allocation that is hardly larger than their bytes.

use crate::holder::MAX_SHARED;
use crate::{Deadline, Holder, Limit, Owner, Token};

const LENGTH_BYTES: usize = 2;

/// The holders, lowest token first. Each is stored as its length in 2 bytes, followed by its bytes.
#[derive(Clone, Debug)]
pub(super) struct Few(Box<[u8]>);

impl Few {
    pub(super) fn new<'a>(holders: impl Iterator<Item = Holder<'a>>) -> Self {
        let mut bytes = Vec::new();
        let mut entry = [0; LENGTH_BYTES + MAX_SHARED];
        for holder in holders {
            bytes.extend_from_slice(written(&holder, &mut entry));
        }
        Self(bytes.into_boxed_slice())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Holder<'_>> + Clone {
        self.entries().map(|(_, holder)| holder)
    }

    pub(super) fn find(&self, owner: Owner<'_>) -> Option<Holder<'_>> {
        self.iter().find(|holder| holder.owner == owner)
    }

    pub(super) fn find_token(&self, token: Token) -> Option<Holder<'_>> {
        self.iter().find(|holder| holder.grant.token == token)
    }

    pub(super) fn least_limit(&self) -> Option<Limit> {
        self.iter().map(|holder| holder.limit).min()
    }

    /// Adds a holder with the highest token, or replaces the holder with the same token.
    pub(super) fn put(&mut self, holder: &Holder<'_>) {
        let token = holder.grant.token;
        let present = self
            .entries()
            .find(|(_, holder)| holder.grant.token == token);
        let place = present.map_or(self.0.len()..self.0.len(), |(range, _)| range);
        let mut entry = [0; LENGTH_BYTES + MAX_SHARED];
        self.replace(place, written(holder, &mut entry));
    }

    pub(super) fn remove(&mut self, token: Token) -> bool {
        let found = self
            .entries()
            .find(|(_, holder)| holder.grant.token == token);
        let Some((range, _)) = found else {
            return false;
        };
        self.replace(range, &[]);
        true
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Holder<'_>) -> bool) {
        *self = Self::new(self.iter().filter(keep));
    }

    pub(super) fn cap_ends(&mut self, at: Deadline) {
        *self = Self::new(self.iter().map(|holder| Holder {
            end: holder.end.min(at),
            ..holder
        }));
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    fn replace(&mut self, range: std::ops::Range<usize>, entry: &[u8]) {
        if range.len() == entry.len() {
            self.0[range].copy_from_slice(entry);
        } else {
            let mut bytes = Vec::with_capacity(self.0.len() - range.len() + entry.len());
            bytes.extend_from_slice(&self.0[..range.start]);
            bytes.extend_from_slice(entry);
            bytes.extend_from_slice(&self.0[range.end..]);
            self.0 = bytes.into_boxed_slice();
        }
    }

    /// All holders with the ranges of their bytes.
    fn entries(&self) -> impl Iterator<Item = (std::ops::Range<usize>, Holder<'_>)> + Clone {
        let mut start = 0;
        std::iter::from_fn(move || {
            let (length, rest) = self.0[start..].split_first_chunk::<LENGTH_BYTES>()?;
            let length = usize::from(u16::from_le_bytes(*length));
            let holder =
                Holder::read_shared(&rest[..length]).expect("a holder written by this module");
            let range = start..start + LENGTH_BYTES + length;
            start = range.end;
            Some((range, holder))
        })
    }
}

fn written<'a>(holder: &Holder<'_>, entry: &'a mut [u8; LENGTH_BYTES + MAX_SHARED]) -> &'a [u8] {
    let length = holder.write_shared(&mut entry[LENGTH_BYTES..]);
    let prefix = u16::try_from(length).expect("a holder is shorter than 64 kB");
    entry[..LENGTH_BYTES].copy_from_slice(&prefix.to_le_bytes());
    &entry[..LENGTH_BYTES + length]
}
