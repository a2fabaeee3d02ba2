//! The holders of a lock as they are in its key.
//!
//! **Two forms.** An exclusive lock has one holder with limit 1, and the expiry of its key is the end of its lease.
//! Every other lock is a [`HolderSet`], even with a single holder of a wider limit, and each holder has its own end.
//!
//! **The end of a lease** in a set. A change sets the expiry of the key to the latest end. If the expiry is earlier, an
//! administrator has set it (`PEXPIRE`), and every lease ends with the key. The next change first applies this cap to
//! the holders ([`SharedChange::cap`]). A later expiry, or none (`PERSIST`), extends no lease.

use super::change::{LockChange, SharedChange, SharedStep};
use super::{Deadline, Holder, HolderSet, Limit, Owner, Token, UnixTime};

/// The holders of a lock. A lock without holders is free and has no key.
#[derive(Clone, Copy, Debug)]
pub enum Holders<'a> {
    /// One holder with limit 1. Its end is the expiry of the key.
    Exclusive(Holder<'a>),
    /// Any other holders, each with its own end.
    Shared(SharedLock<'a>),
}

/// A shared lock as it is in its key.
#[derive(Clone, Copy, Debug)]
pub struct SharedLock<'a> {
    /// The holders.
    pub set: &'a HolderSet,
    /// The expiry of the key.
    pub expiry: Deadline,
}

impl<'a> Holders<'a> {
    /// The holder with this owner, even if its lease has ended and it is not removed yet.
    #[must_use]
    #[inline]
    pub fn find(&self, owner: Owner<'_>) -> Option<Holder<'a>> {
        match self {
            Self::Exclusive(holder) => Some(*holder).filter(|holder| holder.owner == owner),
            Self::Shared(lock) => lock.set.find(owner).map(|holder| lock.capped(holder)),
        }
    }

    /// The holder with this token, even if its lease has ended and it is not removed yet.
    #[must_use]
    pub fn find_token(&self, token: Token) -> Option<Holder<'a>> {
        match self {
            Self::Exclusive(holder) => Some(*holder).filter(|holder| holder.grant.token == token),
            Self::Shared(lock) => lock.set.find_token(token).map(|holder| lock.capped(holder)),
        }
    }

    /// Like [`Holders::find_token`], but with the holder's own end, even if a `PEXPIRE` of the key of a shared lock has
    /// capped the lease.
    #[must_use]
    pub fn uncapped(&self, token: Token) -> Option<Holder<'a>> {
        match self {
            Self::Exclusive(_) => self.find_token(token),
            Self::Shared(lock) => lock.set.find_token(token),
        }
    }

    /// The number of holders, including those whose lease has ended and that are not removed yet.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Exclusive(_) => 1,
            Self::Shared(lock) => lock.set.count(),
        }
    }

    /// Returns true if one more holder fits: its own limit and the limits of all holders allow that many.
    #[must_use]
    pub fn has_room(lock: Option<&Self>, limit: Limit, max_holders: usize) -> bool {
        match lock {
            None => true,
            Some(Self::Exclusive(_)) => false,
            Some(Self::Shared(lock)) => {
                let count = lock.set.count() + 1;
                count <= max_holders && limit.allows(count) && lock.set.least_limit().allows(count)
            }
        }
    }

    /// The earliest end of a lease.
    #[must_use]
    pub fn next_end(&self) -> Deadline {
        match self {
            Self::Exclusive(holder) => holder.end,
            Self::Shared(lock) => lock.set.next_end().min(lock.expiry),
        }
    }

    /// The holders of a shared lock whose lease has ended and that are not removed yet. An exclusive lock has none,
    /// because its key expires with the lease.
    pub fn ended(&self, now: UnixTime) -> impl Iterator<Item = Holder<'a>> + use<'a> {
        let set = match self {
            Self::Exclusive(_) => None,
            Self::Shared(lock) => Some(lock.set),
        };
        set.into_iter()
            .flat_map(move |set| set.ended(Deadline::At(now.millis())))
    }

    /// The holders whose lease has not ended, lowest token first.
    pub fn live(&self, now: UnixTime) -> impl Iterator<Item = Holder<'a>> + use<'a> {
        let (exclusive, shared) = match *self {
            Self::Exclusive(holder) => (Some(holder), None),
            Self::Shared(lock) => (None, Some(lock)),
        };
        let of_set = move |lock: SharedLock<'a>| {
            let live = lock
                .set
                .iter()
                .filter(move |holder| !holder.end.has_passed(now));
            live.map(move |holder| lock.capped(holder))
        };
        exclusive
            .into_iter()
            .chain(shared.into_iter().flat_map(of_set))
    }

    /// The number of holders whose lease has not ended. If it is 0, the lock counts as free.
    #[must_use]
    pub fn live_count(&self, now: UnixTime) -> usize {
        self.count() - self.ended(now).count()
    }

    /// The smallest limit of the holders whose lease has not ended.
    #[must_use]
    pub fn live_least_limit(&self, now: UnixTime) -> Limit {
        match self {
            // The usual case: the set knows its least limit.
            Self::Shared(lock) if !lock.set.next_end().has_passed(now) => lock.set.least_limit(),
            _ => self
                .live(now)
                .map(|holder| holder.limit)
                .min()
                .unwrap_or(Limit::NONE),
        }
    }

    /// The change that removes the holders whose lease has ended. Apply it before the rules judge a call that may
    /// change the lock, because the rules count every holder.
    #[must_use]
    pub fn expire<'o>(&self, now: UnixTime) -> LockChange<'o> {
        match self {
            Self::Shared(lock) if lock.set.next_end().has_passed(now) => {
                let latest = lock.cap().unwrap_or(lock.set.latest_end());
                match self.live_count(now) {
                    0 => LockChange::Free,
                    left => lock.change(SharedStep::RemoveEnded(now.millis()), left, latest),
                }
            }
            _ => LockChange::Keep,
        }
    }

    /// The change by which `after` replaces the holder with its token, or joins the holders.
    pub(crate) fn put<'o>(lock: Option<&Self>, after: Holder<'o>) -> LockChange<'o> {
        match lock {
            // With limit 1 there is no other holder.
            _ if after.limit == Limit::ONE => LockChange::Exclusive(after),
            Some(Self::Shared(lock)) => {
                let token = after.grant.token;
                let is_new = lock.set.find_token(token).is_none();
                let others = lock.latest_end_without(token);
                lock.change(
                    SharedStep::Put(after),
                    lock.set.count() + usize::from(is_new),
                    others.map_or(after.end, |others| others.max(after.end)),
                )
            }
            _ => LockChange::Shared(SharedChange::only(after)),
        }
    }

    /// The change by which `after` replaces `before`.
    pub(crate) fn replace<'o>(&self, before: &Holder<'_>, after: Holder<'o>) -> LockChange<'o> {
        let is_settled = match self {
            Self::Exclusive(_) => true,
            // Otherwise an administrator has changed the expiry, and the change restores it.
            Self::Shared(lock) => lock.expiry == lock.set.latest_end(),
        };
        if after == *before && is_settled {
            LockChange::Keep
        } else {
            Self::put(Some(self), after)
        }
    }

    /// The change by which the holder with this token leaves.
    #[inline]
    pub(crate) fn remove<'o>(&self, token: Token) -> LockChange<'o> {
        if let Self::Shared(lock) = self
            && let Some(latest) = lock.latest_end_without(token)
        {
            lock.change(SharedStep::Remove(token), lock.set.count() - 1, latest)
        } else {
            LockChange::Free
        }
    }
}

impl SharedLock<'_> {
    /// The expiry that an administrator has set, if no change has applied it to the holders yet.
    fn cap(&self) -> Option<Deadline> {
        Some(self.expiry).filter(|expiry| *expiry < self.set.latest_end())
    }

    /// The holder with the end of its lease, which is the expiry of the key if that is earlier than its own end.
    fn capped<'h>(&self, holder: Holder<'h>) -> Holder<'h> {
        Holder {
            end: holder.end.min(self.expiry),
            ..holder
        }
    }

    fn latest_end_without(&self, token: Token) -> Option<Deadline> {
        let latest = self.set.latest_end_without(Some(token))?;
        Some(latest.min(self.expiry))
    }

    fn change<'o>(
        &self,
        step: SharedStep<'o>,
        count: usize,
        latest_end: Deadline,
    ) -> LockChange<'o> {
        LockChange::Shared(SharedChange {
            cap: self.cap().map(Deadline::millis),
            step,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            latest_end: latest_end.millis(),
            whole: false,
        })
    }
}
