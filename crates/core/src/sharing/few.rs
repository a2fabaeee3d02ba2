//! A few shares in one piece of memory, for little more than their bytes.

use super::share::{MAX_SHARE, Share};
use crate::{Limit, Owner, Token};

const LENGTH_BYTES: usize = 2;

/// Shares one after the other, lowest token first; each is its length (2 bytes) and itself.
#[derive(Clone, Debug)]
pub(super) struct Few(Box<[u8]>);

impl Few {
    pub(super) fn new<'a>(shares: impl Iterator<Item = Share<'a>>) -> Self {
        let mut bytes = Vec::new();
        let mut entry = [0; LENGTH_BYTES + MAX_SHARE];
        for share in shares {
            bytes.extend_from_slice(written(&share, &mut entry));
        }
        Self(bytes.into_boxed_slice())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Share<'_>> + Clone {
        self.entries().map(|(_, share)| share)
    }

    pub(super) fn of(&self, owner: Owner<'_>) -> Option<Share<'_>> {
        self.iter().find(|share| share.owner == owner)
    }

    pub(super) fn with(&self, token: Token) -> Option<Share<'_>> {
        self.iter().find(|share| share.grant.token == token)
    }

    pub(super) fn least_limit(&self) -> Option<Limit> {
        self.iter().map(|share| share.limit).min()
    }

    /// Adds a share with the highest token, or puts it in the place of the one with its token.
    pub(super) fn put(&mut self, share: &Share<'_>) {
        let token = share.grant.token;
        let present = self.entries().find(|(_, share)| share.grant.token == token);
        let place = present.map_or(self.0.len()..self.0.len(), |(range, _)| range);
        let mut entry = [0; LENGTH_BYTES + MAX_SHARE];
        self.replace(place, written(share, &mut entry));
    }

    pub(super) fn remove(&mut self, token: Token) -> bool {
        let found = self.entries().find(|(_, share)| share.grant.token == token);
        let Some((range, _)) = found else {
            return false;
        };
        self.replace(range, &[]);
        true
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Share<'_>) -> bool) {
        *self = Self::new(self.iter().filter(keep));
    }

    pub(super) fn cut(&mut self, at: u64) {
        *self = Self::new(self.iter().map(|share| Share {
            end: share.end.min(at),
            ..share
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

    /// Each share, and where it lies.
    fn entries(&self) -> impl Iterator<Item = (std::ops::Range<usize>, Share<'_>)> + Clone {
        let mut start = 0;
        std::iter::from_fn(move || {
            let (length, rest) = self.0[start..].split_first_chunk::<LENGTH_BYTES>()?;
            let length = usize::from(u16::from_le_bytes(*length));
            let share = Share::read(&rest[..length]).expect("a share that was written here");
            let range = start..start + LENGTH_BYTES + length;
            start = range.end;
            Some((range, share))
        })
    }
}

fn written<'a>(share: &Share<'_>, entry: &'a mut [u8; LENGTH_BYTES + MAX_SHARE]) -> &'a [u8] {
    let length = share.write(&mut entry[LENGTH_BYTES..]);
    let prefix = u16::try_from(length).expect("a share is shorter than 64 kB");
    entry[..LENGTH_BYTES].copy_from_slice(&prefix.to_le_bytes());
    &entry[..LENGTH_BYTES + length]
}
