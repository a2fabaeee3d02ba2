//! Who holds a lock, and the changes that its key's expiry asks for.

use super::change::{ShareChange, Step, Transition};
use super::share::Share;
use super::shares::Shares;
use crate::{Deadline, Grant, Held, Limit, Owner, Token, UnixTime};

/// Who holds a lock, as its key has it.
#[derive(Clone, Copy, Debug)]
pub enum Holders<'a> {
    /// One holder with limit 1: the key's expiry is the end of its lease.
    Alone(Held<'a>),
    /// Any others, a lone one with a wider limit too: each lease has its own end.
    Shared(Shared<'a>),
}

/// A shared lock as its key has it.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    /// The shares.
    pub shares: &'a Shares,
    /// The key's expiry.
    pub expiry: Deadline,
}

impl<'a> Shared<'a> {
    /// The cut by hand that no change has made lasting yet.
    fn cut(&self) -> Option<u64> {
        match self.expiry {
            Deadline::At(at) if at < self.shares.latest_end() => Some(at),
            _ => None,
        }
    }

    /// When the lease of a share of this lock ends: at its own end, or with the key.
    #[must_use]
    pub fn end_of(&self, share: &Share<'_>) -> u64 {
        match self.expiry {
            Deadline::At(at) => share.end.min(at),
            Deadline::Never => share.end,
        }
    }

    /// The owner's share; where the key was cut by hand it ends there.
    pub(super) fn of(&self, owner: Owner<'_>) -> Option<Share<'a>> {
        self.shares.of(owner).map(|share| Share {
            end: self.end_of(&share),
            ..share
        })
    }

    /// True when the key's expiry is the latest end, as each change leaves it.
    pub(super) fn is_settled(&self) -> bool {
        self.expiry == Deadline::At(self.shares.latest_end())
    }

    /// This share comes, or takes the place of the one with its token.
    pub(super) fn put<'o>(&self, share: Share<'o>) -> Transition<'o> {
        let token = share.grant.token;
        let others = self.latest_end_without(token).unwrap_or_default();
        let is_new = self.shares.with(token).is_none();
        self.change(
            Step::Put(share),
            self.shares.count() + usize::from(is_new),
            others.max(share.end),
        )
    }

    /// The share with this token goes.
    pub(super) fn remove<'o>(&self, token: Token) -> Transition<'o> {
        match self.latest_end_without(token) {
            None => Transition::Free,
            Some(latest) => self.change(Step::Remove(token), self.shares.count() - 1, latest),
        }
    }

    /// The shares whose lease has ended go.
    fn remove_ended<'o>(&self, now: UnixTime) -> Transition<'o> {
        let now = now.millis();
        if self.shares.next_end() >= now {
            return Transition::Keep;
        }
        let left = self.shares.count() - self.shares.ended(now).count();
        if left == 0 {
            return Transition::Free;
        }
        let latest = self.cut().unwrap_or(self.shares.latest_end());
        self.change(Step::RemoveEnded(now), left, latest)
    }

    fn latest_end_without(&self, token: Token) -> Option<u64> {
        let latest = self.shares.latest_end_without(Some(token))?;
        Some(self.cut().map_or(latest, |cut| latest.min(cut)))
    }

    fn change<'o>(&self, step: Step<'o>, count: usize, latest_end: u64) -> Transition<'o> {
        Transition::Share(ShareChange {
            cut: self.cut(),
            step,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            latest_end,
            whole: false,
        })
    }
}

impl<'a> Holders<'a> {
    /// The grant of this owner and the end of its lease, if it is a holder. A lease that has ended counts
    /// until it is taken out.
    #[must_use]
    pub fn grant_of(&self, owner: Owner<'_>) -> Option<(Grant, Deadline)> {
        match self {
            Self::Alone(held) => (held.owner == owner).then_some((held.grant, held.deadline)),
            Self::Shared(shared) => {
                let share = shared.of(owner)?;
                Some((share.grant, Deadline::At(share.end)))
            }
        }
    }

    /// When the first lease ends.
    #[must_use]
    pub fn next_end(&self) -> Deadline {
        match self {
            Self::Alone(held) => held.deadline,
            Self::Shared(shared) => Deadline::At(shared.shares.next_end()).min(shared.expiry),
        }
    }

    /// The shares whose lease has ended and that are still to be taken out.
    pub fn ended(&self, now: UnixTime) -> impl Iterator<Item = Share<'a>> + use<'a> {
        let shares = match self {
            Self::Alone(_) => None,
            Self::Shared(shared) => Some(shared.shares.ended(now.millis())),
        };
        shares.into_iter().flatten()
    }

    /// The one rule: with h holders, h + 1 exceeds neither the call's limit nor any holder's.
    #[must_use]
    pub fn has_room(lock: Option<&Self>, limit: Limit, max_holders: usize) -> bool {
        match lock {
            None => true,
            Some(Self::Alone(_)) => false,
            Some(Self::Shared(shared)) => {
                let holders = shared.shares.count() + 1;
                holders <= max_holders
                    && limit.bears(holders)
                    && shared.shares.least_limit().bears(holders)
            }
        }
    }

    /// What becomes of the lock by the leases that have ended: their shares are taken out. To be done
    /// before any call is judged that may change the lock.
    #[must_use]
    pub fn expire<'o>(&self, now: UnixTime) -> Transition<'o> {
        match self {
            Self::Alone(_) => Transition::Keep,
            Self::Shared(shared) => shared.remove_ended(now),
        }
    }
}
