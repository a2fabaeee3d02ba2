//! The holders of a shared lock.

use std::mem::size_of;

use super::few::Few;
use super::many::Many;
use super::share::Share;
use crate::{Limit, Owner, Token};

/// So many shares are kept in one piece of memory; one more, and they are kept in trees.
const FEW: usize = 16;
/// With so many left, one piece of memory is enough again.
const FEW_AGAIN: usize = 8;

/// The shares of one lock: no two with the same owner or token, and no more of them than any bears.
///
/// There is always one. Who has the lock alone with limit 1 is kept as a [`Record`](crate::Record).
#[derive(Clone, Debug)]
pub struct Shares(Form);

#[derive(Clone, Debug)]
enum Form {
    Few(Few),
    /// In a box, since most locks have few.
    Many(Box<Many>),
}

impl Shares {
    /// The shares of a lock with one holder.
    #[must_use]
    pub fn one(share: &Share<'_>) -> Self {
        Self(Form::Few(Few::new(std::iter::once(*share))))
    }

    /// How many there are; those whose lease has ended count until they are taken out.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.0 {
            Form::Few(few) => few.iter().count(),
            Form::Many(many) => many.len(),
        }
    }

    /// All shares, lowest token first.
    pub fn iter(&self) -> impl Iterator<Item = Share<'_>> {
        let (few, many) = match &self.0 {
            Form::Few(few) => (Some(few.iter()), None),
            Form::Many(many) => (None, Some(many.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// The share of this owner.
    #[must_use]
    pub fn of(&self, owner: Owner<'_>) -> Option<Share<'_>> {
        match &self.0 {
            Form::Few(few) => few.of(owner),
            Form::Many(many) => many.of(owner),
        }
    }

    /// The share with this token.
    #[must_use]
    pub fn with(&self, token: Token) -> Option<Share<'_>> {
        match &self.0 {
            Form::Few(few) => few.with(token),
            Form::Many(many) => many.with(token),
        }
    }

    /// The smallest limit of all.
    #[must_use]
    pub fn least_limit(&self) -> Limit {
        let least = match &self.0 {
            Form::Few(few) => few.least_limit(),
            Form::Many(many) => many.least_limit(),
        };
        least.unwrap_or(Limit::NONE)
    }

    /// The end of the lease that ends first.
    #[must_use]
    pub fn next_end(&self) -> u64 {
        let next = match &self.0 {
            Form::Few(few) => few.iter().map(|share| share.end).min(),
            Form::Many(many) => many.next_end(),
        };
        next.unwrap_or_default()
    }

    /// The end of the lease that ends last: the expiry of the key.
    #[must_use]
    pub fn latest_end(&self) -> u64 {
        self.latest_end_without(None).unwrap_or_default()
    }

    /// The latest end of all shares but the one with this token; `None` when there is no other.
    pub(super) fn latest_end_without(&self, token: Option<Token>) -> Option<u64> {
        match &self.0 {
            Form::Few(few) => few
                .iter()
                .filter(|share| Some(share.grant.token) != token)
                .map(|share| share.end)
                .max(),
            Form::Many(many) => many.latest_end_without(token),
        }
    }

    /// The shares whose lease has ended before this time.
    pub fn ended(&self, before: u64) -> impl Iterator<Item = Share<'_>> {
        let (few, many) = match &self.0 {
            Form::Few(few) => (
                Some(few.iter().filter(move |share| share.end < before)),
                None,
            ),
            Form::Many(many) => (None, Some(many.ended(before))),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }

    /// The memory that they take, beside this value.
    #[must_use]
    pub fn memory(&self) -> usize {
        match &self.0 {
            Form::Few(few) => few.bytes(),
            Form::Many(many) => size_of::<Many>() + many.bytes(),
        }
    }

    /// The token of the last that came.
    pub(super) fn highest(&self) -> Option<Token> {
        match &self.0 {
            Form::Few(few) => few.iter().last().map(|share| share.grant.token),
            Form::Many(many) => many.highest(),
        }
    }

    /// Adds a share with the highest token, or puts it in the place of the one with its token.
    pub(super) fn put(&mut self, share: &Share<'_>) {
        match &mut self.0 {
            Form::Few(few) => {
                few.put(share);
                if few.iter().count() > FEW {
                    self.0 = Form::Many(Box::new(Many::new(few.iter())));
                }
            }
            Form::Many(many) => many.put(share),
        }
    }

    pub(super) fn remove(&mut self, token: Token) -> bool {
        let removed = match &mut self.0 {
            Form::Few(few) => few.remove(token),
            Form::Many(many) => many.remove(token),
        };
        self.be_few();
        removed
    }

    pub(super) fn remove_ended(&mut self, before: u64) {
        match &mut self.0 {
            Form::Few(few) => few.retain(|share| share.end >= before),
            Form::Many(many) => many.remove_ended(before),
        }
        self.be_few();
    }

    /// Lets no share end later than this.
    pub(super) fn cut(&mut self, at: u64) {
        match &mut self.0 {
            Form::Few(few) => few.cut(at),
            Form::Many(many) => many.cut(at),
        }
    }

    fn be_few(&mut self) {
        if let Form::Many(many) = &self.0
            && many.len() <= FEW_AGAIN
        {
            self.0 = Form::Few(Few::new(many.iter()));
        }
    }
}

impl PartialEq for Shares {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Shares {}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
