//! Many shares, found by token, by owner and by the end of their leases.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::mem::size_of;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::share::Share;
use crate::{Grant, Holds, Lease, Limit, Owner, Token};

const LOWEST: Token = Token::new(1).expect("a token");

/// Shares by token, which is the order in which they are told.
#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    shares: BTreeMap<Token, Entry>,
    /// The tokens, by the hash of their owner.
    owners: HashTable<Token>,
    ends: BTreeSet<(u64, Token)>,
    /// How many have each limit; who has none is not counted.
    limits: BTreeMap<Limit, usize>,
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct Entry {
    owner: Box<[u8]>,
    end: u64,
    lease: Lease,
    holds: Holds,
    limit: Limit,
}

impl Entry {
    fn share(&self, token: Token) -> Share<'_> {
        Share {
            owner: Owner::new(&self.owner).expect("it came from an owner"),
            grant: Grant {
                token,
                holds: self.holds,
                lease: self.lease,
            },
            limit: self.limit,
            end: self.end,
        }
    }
}

impl Many {
    pub(super) fn new<'a>(shares: impl Iterator<Item = Share<'a>>) -> Self {
        let mut many = Self::default();
        for share in shares {
            many.put(&share);
        }
        many
    }

    pub(super) fn len(&self) -> usize {
        self.shares.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Share<'_>> + Clone {
        self.shares.iter().map(|(token, entry)| entry.share(*token))
    }

    pub(super) fn of(&self, owner: Owner<'_>) -> Option<Share<'_>> {
        let hash = self.hasher.hash_one(owner.bytes());
        let is_owner = |token: &Token| *self.shares[token].owner == *owner.bytes();
        self.with(*self.owners.find(hash, is_owner)?)
    }

    pub(super) fn with(&self, token: Token) -> Option<Share<'_>> {
        self.shares.get(&token).map(|entry| entry.share(token))
    }

    pub(super) fn highest(&self) -> Option<Token> {
        self.shares.last_key_value().map(|(token, _)| *token)
    }

    pub(super) fn least_limit(&self) -> Option<Limit> {
        self.limits.keys().next().copied()
    }

    pub(super) fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The latest end of the shares but this one.
    pub(super) fn latest_end_without(&self, token: Option<Token>) -> Option<u64> {
        let mut ends = self.ends.iter().rev();
        let latest = ends.find(|(_, other)| Some(*other) != token);
        latest.map(|(end, _)| *end)
    }

    /// The shares that end before this time, the first to end first.
    pub(super) fn ended(&self, before: u64) -> impl Iterator<Item = Share<'_>> {
        let ended = self.ends.range(..(before, LOWEST));
        ended.filter_map(|(_, token)| self.with(*token))
    }

    /// Adds a share, or puts it in the place of the one with its token, which has its owner.
    pub(super) fn put(&mut self, share: &Share<'_>) {
        let token = share.grant.token;
        if let Some(present) = self.shares.get_mut(&token) {
            let (end, limit) = (present.end, present.limit);
            present.end = share.end;
            present.lease = share.grant.lease;
            present.holds = share.grant.holds;
            present.limit = share.limit;
            if end != share.end {
                self.ends.remove(&(end, token));
                self.ends.insert((share.end, token));
            }
            if limit != share.limit {
                self.forget_limit(limit);
                self.note_limit(share.limit);
            }
            return;
        }
        let entry = Entry {
            owner: Box::from(share.owner.bytes()),
            end: share.end,
            lease: share.grant.lease,
            holds: share.grant.holds,
            limit: share.limit,
        };
        self.shares.insert(token, entry);
        self.ends.insert((share.end, token));
        self.note_limit(share.limit);
        let hash = self.hasher.hash_one(share.owner.bytes());
        let (shares, hasher) = (&self.shares, &self.hasher);
        self.owners
            .insert_unique(hash, token, |token| hasher.hash_one(&*shares[token].owner));
    }

    pub(super) fn remove(&mut self, token: Token) -> bool {
        let Some(entry) = self.shares.remove(&token) else {
            return false;
        };
        self.ends.remove(&(entry.end, token));
        self.forget_limit(entry.limit);
        let hash = self.hasher.hash_one(&*entry.owner);
        if let Ok(found) = self.owners.find_entry(hash, |other| *other == token) {
            found.remove();
        }
        if self.owners.len() < self.owners.capacity() / 8 {
            let (shares, hasher) = (&self.shares, &self.hasher);
            self.owners.shrink_to(2 * shares.len(), |token| {
                hasher.hash_one(&*shares[token].owner)
            });
        }
        true
    }

    /// Removes the shares that end before this time.
    pub(super) fn remove_ended(&mut self, before: u64) {
        while let Some((end, token)) = self.ends.first().copied()
            && end < before
        {
            self.remove(token);
        }
    }

    /// Lets no share end later than this.
    pub(super) fn cut(&mut self, at: u64) {
        let Some(later) = at.checked_add(1) else {
            return;
        };
        for (_, token) in self.ends.split_off(&(later, LOWEST)) {
            if let Some(entry) = self.shares.get_mut(&token) {
                entry.end = at;
                self.ends.insert((at, token));
            }
        }
    }

    /// The memory that is not the value itself, roughly: nodes of trees are three quarters full.
    pub(super) fn bytes(&self) -> usize {
        let share = size_of::<(Token, Entry)>() + size_of::<(u64, Token)>();
        let owners: usize = match self.shares.len() {
            0 => 0,
            // All of them would be too many to ask.
            count => {
                let sample = self.shares.values().take(16);
                let bytes: usize = sample.clone().map(|entry| entry.owner.len()).sum();
                bytes * count / sample.count()
            }
        };
        self.shares.len() * share * 4 / 3
            + self.limits.len() * size_of::<(Limit, usize)>() * 4 / 3
            + self.owners.allocation_size()
            + owners
    }

    fn note_limit(&mut self, limit: Limit) {
        if limit != Limit::NONE {
            *self.limits.entry(limit).or_default() += 1;
        }
    }

    fn forget_limit(&mut self, limit: Limit) {
        if let Some(count) = self.limits.get_mut(&limit) {
            *count -= 1;
            if *count == 0 {
                self.limits.remove(&limit);
            }
        }
    }
}
