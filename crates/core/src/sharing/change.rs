//! What changes in a shared lock: made by the rules, applied here and on replicas.

use super::Holders;
use super::share::Share;
use super::shares::Shares;
use crate::{Deadline, Held, Token, UnixTime};

/// What a command changes in a lock that may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition<'a> {
    /// Nothing: the key is not written.
    Keep,
    /// One holder has the lock alone, whatever it was.
    Alone(Held<'a>),
    /// One share comes, changes or goes, or those that have ended go.
    Share(ShareChange<'a>),
    /// The lock becomes free.
    Free,
}

/// A change of the shares of a lock, and the state that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareChange<'a> {
    /// A cut by hand that is made lasting first: no share ends later than this.
    pub cut: Option<u64>,
    /// What changes.
    pub step: Step<'a>,
    /// How many shares there are afterwards.
    pub count: u32,
    /// The latest end of a share afterwards: the expiry of the key.
    pub latest_end: u64,
}

/// The change of one share, or the end of some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// This share alone is there, whatever the lock was.
    Only(Share<'a>),
    /// This share comes, or takes the place of the one with its token.
    Put(Share<'a>),
    /// The share with this token goes.
    Remove(Token),
    /// The shares that ended before this time go.
    RemoveEnded(u64),
}

/// The lock is not the one that the change was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

impl ShareChange<'_> {
    /// The change that makes a lock with this share alone.
    #[must_use]
    pub const fn only(share: Share<'_>) -> ShareChange<'_> {
        ShareChange {
            cut: None,
            step: Step::Only(share),
            count: 1,
            latest_end: share.end,
        }
    }

    /// Applies the change to the shares of a lock, if it has any; returns them where they are new. It may
    /// be applied to its own outcome again.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when the outcome is not the one that the change was made for. The shares are then
    /// not to be used any more.
    pub fn apply(&self, shares: Option<&mut Shares>) -> Result<Option<Shares>, Mismatch> {
        if let Step::Only(share) = &self.step {
            let new = Shares::one(share);
            return if self.fits(&new) {
                Ok(Some(new))
            } else {
                Err(Mismatch)
            };
        }
        let shares = shares.ok_or(Mismatch)?;
        if let Some(cut) = self.cut {
            shares.cut(cut);
        }
        match &self.step {
            Step::Only(_) => {}
            Step::Put(share) => {
                let token = share.grant.token;
                let of_owner = shares.of(share.owner).map(|present| present.grant.token);
                let of_token = shares.with(token).map(|present| present.owner);
                if of_owner.is_some_and(|other| other != token)
                    || of_token.is_some_and(|other| other != share.owner)
                {
                    return Err(Mismatch);
                }
                shares.put(share);
            }
            Step::Remove(token) => {
                shares.remove(*token);
            }
            Step::RemoveEnded(before) => shares.remove_ended(*before),
        }
        if self.fits(shares) {
            Ok(None)
        } else {
            Err(Mismatch)
        }
    }

    fn fits(&self, shares: &Shares) -> bool {
        let count = shares.count();
        u32::try_from(count) == Ok(self.count)
            && count > 0
            && shares.latest_end() == self.latest_end
            && shares.least_limit().bears(count)
            && shares.least_limit() > crate::Limit::ONE
    }
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
    pub(super) fn of(&self, owner: crate::Owner<'_>) -> Option<Share<'a>> {
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
        })
    }
}

impl Holders<'_> {
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
