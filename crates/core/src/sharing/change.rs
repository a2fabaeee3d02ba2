//! What changes in a shared lock: made by the rules, applied here and on replicas.

use super::share::Share;
use super::shares::Shares;
use crate::{Change, Deadline, Grant, Held, Limit, Owner, Token};

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
    /// Where the lock is written whole, the key has no expiry: the server writes it after the shares.
    pub whole: bool,
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

impl<'a> Transition<'a> {
    /// The change of a lock that `owner` has alone.
    #[must_use]
    pub const fn of(owner: Owner<'a>, change: Change) -> Self {
        match change {
            Change::Keep => Self::Keep,
            Change::Free => Self::Free,
            Change::Hold(grant, deadline) => Self::Alone(Held {
                owner,
                grant,
                deadline,
            }),
        }
    }

    /// The grant that comes or changes, and the end of its lease.
    #[must_use]
    pub const fn granted(&self) -> Option<(Grant, Deadline)> {
        match self {
            Self::Alone(held) => Some((held.grant, held.deadline)),
            Self::Share(ShareChange {
                step: Step::Only(share) | Step::Put(share),
                ..
            }) => Some((share.grant, Deadline::At(share.end))),
            Self::Keep | Self::Free | Self::Share(_) => None,
        }
    }

    /// True when the share with this token goes and others stay.
    #[must_use]
    pub fn removes(&self, token: Token) -> bool {
        matches!(self, Self::Share(ShareChange { step: Step::Remove(removed), .. }) if *removed == token)
    }

    /// The end of the lease of the grant that comes or changes.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        self.granted().map(|(_, deadline)| deadline)
    }
}

impl ShareChange<'_> {
    /// The change that makes a lock with this share alone.
    #[must_use]
    pub const fn only(share: Share<'_>) -> ShareChange<'_> {
        ShareChange {
            cut: None,
            step: Step::Only(share),
            count: 1,
            latest_end: share.end,
            whole: false,
        }
    }

    /// The expiry of the key afterwards.
    #[must_use]
    pub const fn expiry(&self) -> Deadline {
        if self.whole {
            Deadline::Never
        } else {
            Deadline::At(self.latest_end)
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
                // Who is there keeps its token; who comes has a higher one than all.
                let fits = match of_owner {
                    Some(present) => present == token,
                    None => shares.highest().is_none_or(|highest| highest < token),
                };
                if !fits {
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
            && shares.least_limit() > Limit::ONE
    }
}
