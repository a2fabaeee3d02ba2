//! Many holders, with indexes by token, by owner and by the end of their leases.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::mem::size_of;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::{Deadline, Grant, Holder, Holds, Lease, Limit, Owner, Token};

const LOWEST: Token = Token::new(1).expect("a token");

/// Holders by token, which is the order of listings.
#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    holders: BTreeMap<Token, Entry>,
    /// The tokens, by the hash of the owner.
    owners: HashTable<Token>,
    /// The ends in milliseconds, which take half the memory of a [`Deadline`].
    ends: BTreeSet<(u64, Token)>,
    /// How many holders have each limit. Holders without a limit are not counted.
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
    fn holder(&self, token: Token) -> Holder<'_> {
        Holder {
            owner: Owner::new(&self.owner).expect("bytes of an owner"),
            grant: Grant {
                token,
                holds: self.holds,
                lease: self.lease,
            },
            limit: self.limit,
            end: Deadline::At(self.end),
        }
    }
}

impl Many {
    pub(super) fn new<'a>(holders: impl Iterator<Item = Holder<'a>>) -> Self {
        let mut many = Self::default();
        for holder in holders {
            many.put(&holder);
        }
        many
    }

    pub(super) fn len(&self) -> usize {
        self.holders.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Holder<'_>> + Clone {
        self.holders
            .iter()
            .map(|(token, entry)| entry.holder(*token))
    }

    pub(super) fn find(&self, owner: Owner<'_>) -> Option<Holder<'_>> {
        let hash = self.hasher.hash_one(owner.bytes());
        let is_owner = |token: &Token| *self.holders[token].owner == *owner.bytes();
        self.find_token(*self.owners.find(hash, is_owner)?)
    }

    pub(super) fn find_token(&self, token: Token) -> Option<Holder<'_>> {
        self.holders.get(&token).map(|entry| entry.holder(token))
    }

    pub(super) fn highest(&self) -> Option<Token> {
        self.holders.last_key_value().map(|(token, _)| *token)
    }

    pub(super) fn least_limit(&self) -> Option<Limit> {
        self.limits.keys().next().copied()
    }

    pub(super) fn next_end(&self) -> Option<Deadline> {
        self.ends.first().map(|(end, _)| Deadline::At(*end))
    }

    /// The latest end of all holders except this one.
    pub(super) fn latest_end_without(&self, token: Option<Token>) -> Option<Deadline> {
        let mut ends = self.ends.iter().rev();
        let latest = ends.find(|(_, other)| Some(*other) != token);
        latest.map(|(end, _)| Deadline::At(*end))
    }

    /// The holders whose lease ends before this time, earliest end first.
    pub(super) fn ended(&self, before: Deadline) -> impl Iterator<Item = Holder<'_>> {
        let ended = self.ends.range(..(before.millis(), LOWEST));
        ended.filter_map(|(_, token)| self.find_token(*token))
    }

    /// Adds a holder, or replaces the holder with the same token and owner.
    pub(super) fn put(&mut self, holder: &Holder<'_>) {
        let (token, end) = (holder.grant.token, holder.end.millis());
        if let Some(present) = self.holders.get_mut(&token) {
            let before = (present.end, present.limit);
            present.end = end;
            present.lease = holder.grant.lease;
            present.holds = holder.grant.holds;
            present.limit = holder.limit;
            if end != before.0 {
                self.ends.remove(&(before.0, token));
                self.ends.insert((end, token));
            }
            if holder.limit != before.1 {
                self.uncount_limit(before.1);
                self.count_limit(holder.limit);
            }
            return;
        }
        let entry = Entry {
            owner: Box::from(holder.owner.bytes()),
            end,
            lease: holder.grant.lease,
            holds: holder.grant.holds,
            limit: holder.limit,
        };
        self.holders.insert(token, entry);
        self.ends.insert((end, token));
        self.count_limit(holder.limit);
        let hash = self.hasher.hash_one(holder.owner.bytes());
        let (holders, hasher) = (&self.holders, &self.hasher);
        self.owners
            .insert_unique(hash, token, |token| hasher.hash_one(&*holders[token].owner));
    }

    pub(super) fn remove(&mut self, token: Token) -> bool {
        let Some(entry) = self.holders.remove(&token) else {
            return false;
        };
        self.ends.remove(&(entry.end, token));
        self.uncount_limit(entry.limit);
        let hash = self.hasher.hash_one(&*entry.owner);
        if let Ok(found) = self.owners.find_entry(hash, |other| *other == token) {
            found.remove();
        }
        if self.owners.len() < self.owners.capacity() / 8 {
            let (holders, hasher) = (&self.holders, &self.hasher);
            self.owners.shrink_to(2 * holders.len(), |token| {
                hasher.hash_one(&*holders[token].owner)
            });
        }
        true
    }

    /// Removes the holders whose lease ends before this time.
    pub(super) fn remove_ended(&mut self, before: Deadline) {
        while let Some((end, token)) = self.ends.first().copied()
            && end < before.millis()
        {
            self.remove(token);
        }
    }

    /// Shortens every lease that ends later than this.
    pub(super) fn cap_ends(&mut self, at: Deadline) {
        let at = at.millis();
        for (_, token) in self.ends.split_off(&(at, Token::MAX)) {
            if let Some(entry) = self.holders.get_mut(&token) {
                entry.end = at;
                self.ends.insert((at, token));
            }
        }
    }

    /// An estimate of the memory outside this value, which assumes that tree nodes are three quarters full.
    pub(super) fn bytes(&self) -> usize {
        let holder = size_of::<(Token, Entry)>() + size_of::<(u64, Token)>();
        let owners: usize = match self.holders.len() {
            0 => 0,
            // Estimate from a sample, because visiting each holder would take too long.
            count => {
                let sample = self.holders.values().take(16);
                let bytes: usize = sample.clone().map(|entry| entry.owner.len()).sum();
                bytes * count / sample.count()
            }
        };
        self.holders.len() * holder * 4 / 3
            + self.limits.len() * size_of::<(Limit, usize)>() * 4 / 3
            + self.owners.allocation_size()
            + owners
    }

    fn count_limit(&mut self, limit: Limit) {
        if limit != Limit::NONE {
            *self.limits.entry(limit).or_default() += 1;
        }
    }

    fn uncount_limit(&mut self, limit: Limit) {
        if let Some(count) = self.limits.get_mut(&limit) {
            *count -= 1;
            if *count == 0 {
                self.limits.remove(&limit);
            }
        }
    }
}
