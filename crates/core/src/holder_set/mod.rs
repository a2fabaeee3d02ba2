//! The holders of a shared lock, as they are kept in memory.
//!
//! Up to 16 holders are kept in one allocation, each with 14 bytes more than the value of an exclusive lock. More
//! holders are kept in trees by token and by end, with a hash table of their owners and a count of each limit, so that
//! each step takes O(log h).

mod few;
mod many;

use std::mem::size_of;

use few::Few;
use many::Many;

use crate::{Deadline, Holder, Limit, Owner, Token};

/// With more holders than this, they are moved to trees.
const FEW: usize = 16;
/// With this many holders left, they are moved back to one allocation.
const FEW_AGAIN: usize = 8;

/// The holders of one lock. There is at least one holder, no two have the same owner or token, and the limit of each
/// allows the number of holders.
#[derive(Clone, Debug)]
pub struct HolderSet(Form);

#[derive(Clone, Debug)]
enum Form {
    Few(Few),
    /// Boxed, because most locks have few holders.
    Many(Box<Many>),
}

impl HolderSet {
    /// A set with one holder.
    #[must_use]
    pub fn one(holder: &Holder<'_>) -> Self {
        Self(Form::Few(Few::new(std::iter::once(*holder))))
    }

    /// The number of holders, including those whose lease has ended and that are not removed yet.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.0 {
            Form::Few(few) => few.iter().count(),
            Form::Many(many) => many.len(),
        }
    }

    /// All holders, lowest token first.
    pub fn iter(&self) -> impl Iterator<Item = Holder<'_>> {
        let (few, many) = match &self.0 {
            Form::Few(few) => (Some(few.iter()), None),
            Form::Many(many) => (None, Some(many.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// The holder with this owner.
    #[must_use]
    pub fn find(&self, owner: Owner<'_>) -> Option<Holder<'_>> {
        match &self.0 {
            Form::Few(few) => few.find(owner),
            Form::Many(many) => many.find(owner),
        }
    }

    /// The holder with this token.
    #[must_use]
    pub fn find_token(&self, token: Token) -> Option<Holder<'_>> {
        match &self.0 {
            Form::Few(few) => few.find_token(token),
            Form::Many(many) => many.find_token(token),
        }
    }

    /// The smallest limit of all holders.
    #[must_use]
    pub fn least_limit(&self) -> Limit {
        let least = match &self.0 {
            Form::Few(few) => few.least_limit(),
            Form::Many(many) => many.least_limit(),
        };
        least.unwrap_or(Limit::NONE)
    }

    /// The earliest end of a lease.
    #[must_use]
    pub fn next_end(&self) -> Deadline {
        let next = match &self.0 {
            Form::Few(few) => few.iter().map(|holder| holder.end).min(),
            Form::Many(many) => many.next_end(),
        };
        next.unwrap_or(Deadline::Never)
    }

    /// The latest end of a lease, which is the expiry of the key.
    #[must_use]
    pub fn latest_end(&self) -> Deadline {
        self.latest_end_without(None).unwrap_or(Deadline::Never)
    }

    /// The latest end of all holders except the one with this token; `None` if there is no other holder.
    pub(crate) fn latest_end_without(&self, token: Option<Token>) -> Option<Deadline> {
        match &self.0 {
            Form::Few(few) => few
                .iter()
                .filter(|holder| Some(holder.grant.token) != token)
                .map(|holder| holder.end)
                .max(),
            Form::Many(many) => many.latest_end_without(token),
        }
    }

    /// The holders whose lease ends before this time.
    pub fn ended(&self, before: Deadline) -> impl Iterator<Item = Holder<'_>> {
        let (few, many) = match &self.0 {
            Form::Few(few) => (
                Some(few.iter().filter(move |holder| holder.end < before)),
                None,
            ),
            Form::Many(many) => (None, Some(many.ended(before))),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// The memory that the holders use outside this value.
    #[must_use]
    pub fn memory(&self) -> usize {
        match &self.0 {
            Form::Few(few) => few.bytes(),
            Form::Many(many) => size_of::<Many>() + many.bytes(),
        }
    }

    /// The highest token, which is that of the newest holder.
    pub(crate) fn highest(&self) -> Option<Token> {
        match &self.0 {
            Form::Few(few) => few.iter().last().map(|holder| holder.grant.token),
            Form::Many(many) => many.highest(),
        }
    }

    /// Adds a holder with the highest token, or replaces the holder with the same token.
    pub(crate) fn put(&mut self, holder: &Holder<'_>) {
        match &mut self.0 {
            Form::Few(few) => {
                few.put(holder);
                if few.iter().count() > FEW {
                    self.0 = Form::Many(Box::new(Many::new(few.iter())));
                }
            }
            Form::Many(many) => many.put(holder),
        }
    }

    pub(crate) fn remove(&mut self, token: Token) -> bool {
        let removed = match &mut self.0 {
            Form::Few(few) => few.remove(token),
            Form::Many(many) => many.remove(token),
        };
        self.use_few_if_sparse();
        removed
    }

    pub(crate) fn remove_ended(&mut self, before: Deadline) {
        match &mut self.0 {
            Form::Few(few) => few.retain(|holder| holder.end >= before),
            Form::Many(many) => many.remove_ended(before),
        }
        self.use_few_if_sparse();
    }

    /// Shortens every lease that ends later than this.
    pub(crate) fn cap_ends(&mut self, at: Deadline) {
        match &mut self.0 {
            Form::Few(few) => few.cap_ends(at),
            Form::Many(many) => many.cap_ends(at),
        }
    }

    fn use_few_if_sparse(&mut self) {
        if let Form::Many(many) = &self.0
            && many.len() <= FEW_AGAIN
        {
            self.0 = Form::Few(Few::new(many.iter()));
        }
    }
}

impl PartialEq for HolderSet {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for HolderSet {}

#[cfg(test)]
mod tests;
