//! A possible state of a lock: who holds it, and what is still to be given back.

use std::fmt;

use crate::{Holder, Limit, Moment};

/// A possible state of a lock, without the times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct State<'a> {
    /// By owner; none of a free lock.
    pub(super) holders: Vec<Held<'a>>,
    /// Something was lost, and others may hold it besides, of whom anything may be true.
    pub(super) others: bool,
    /// A new grant has a higher token. Tokens that nobody was told of do not count: a grant that came
    /// and went so leaves no trace, and makes no other state.
    pub(super) highest: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Held<'a> {
    pub(super) owner: &'a str,
    pub(super) token: Token,
    pub(super) holds: u32,
    /// The remembered one.
    pub(super) lease: u64,
    pub(super) limit: Limit,
    /// The server has answered some call of the grant, whether or not the answer was read.
    pub(super) answered: bool,
    /// The holds that will be given back.
    pub(super) debts: Vec<Debt>,
}

/// A waiting call was granted, and will give back what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Debt {
    /// The call, by its place among the operations.
    pub(super) call: usize,
    pub(super) took_hold: bool,
    /// A command that is sent later finds it given back.
    pub(super) due: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Token {
    Is(u64),
    /// Nobody has been told of it yet. It is above this one.
    Above(u64),
}

impl Token {
    pub(super) fn may_be(self, token: u64) -> bool {
        match self {
            Self::Is(known) => known == token,
            Self::Above(floor) => token > floor,
        }
    }
}

impl Held<'_> {
    /// A call that is bound to a token, or to none, meets this grant.
    pub(super) fn matches(&self, token: Option<u64>) -> bool {
        token.is_none_or(|token| self.token == Token::Is(token))
    }

    /// Whether this may be what was told of a holder; `None` tells nothing of its limit.
    pub(super) fn fits(&self, token: u64, holds: u32, lease: u64, limit: Option<Limit>) -> bool {
        self.token.may_be(token)
            && (self.holds, self.lease) == (holds, lease)
            && limit.is_none_or(|limit| self.limit == limit)
    }
}

impl State<'_> {
    /// Whether a call with this limit would have room, as far as the holders are known.
    pub(super) fn has_room(&self, limit: Limit) -> bool {
        let count = self.holders.len() + 1;
        let mut limits = self.holders.iter().map(|held| held.limit);
        limit.allows(count) && limits.all(|limit| limit.allows(count))
    }

    /// Whether this call's debt is still to be given back.
    pub(super) fn owes(&self, call: usize) -> bool {
        let mut debts = self.holders.iter().flat_map(|held| &held.debts);
        debts.any(|debt| debt.call == call)
    }

    /// Whether the server would first give back before it ran a command that was sent then.
    pub(super) fn settles_first(&self, sent: Moment) -> bool {
        let mut debts = self.holders.iter().flat_map(|held| &held.debts);
        debts.any(|debt| debt.due < sent)
    }
}

impl<'a> Held<'a> {
    /// As it was listed.
    pub(super) fn known(holder: &'a Holder) -> Self {
        Self {
            owner: &holder.owner,
            token: Token::Is(holder.token),
            holds: holder.holds,
            lease: holder.lease,
            limit: holder.limit,
            answered: true,
            debts: Vec::new(),
        }
    }
}

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.holders.is_empty() {
            let what = if self.others { "anything" } else { "free" };
            return write!(f, "{what}");
        }
        write!(f, "held")?;
        for (place, held) in self.holders.iter().enumerate() {
            let separator = if place == 0 { "" } else { " and" };
            write!(f, "{separator} by {} with holds {}", held.owner, held.holds)?;
            match held.token {
                Token::Is(token) => write!(f, ", token {token}")?,
                Token::Above(floor) => write!(f, ", token above {floor}")?,
            }
            if held.limit != Limit::ONE {
                write!(f, ", limit {}", held.limit)?;
            }
        }
        if self.others {
            write!(f, " and others perhaps")?;
        }
        Ok(())
    }
}
