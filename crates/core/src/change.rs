//! The change that a call makes to a lock. The rules create it, and the same code applies it on primaries and replicas.

use super::{Deadline, Holder, HolderSet, Limit, Token};

/// The change that a call makes to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockChange<'a> {
    /// Nothing changes, so the key is not written.
    Keep,
    /// The lock becomes exclusive with this holder, whatever its state was.
    Exclusive(Holder<'a>),
    /// The holders of a shared lock change, or a lock becomes shared.
    Shared(SharedChange<'a>),
    /// The lock becomes free.
    Free,
}

/// A change of the holders of a shared lock, and the state that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedChange<'a> {
    /// An expiry that an administrator has set, in milliseconds. Before the step, each lease is shortened to end no
    /// later than this.
    pub cap: Option<u64>,
    /// The change.
    pub step: SharedStep<'a>,
    /// The number of holders after the change.
    pub count: u32,
    /// The latest end of a lease after the change, in milliseconds, which is the expiry of the key.
    pub latest_end: u64,
    /// True while all holders of a lock are rewritten. The key then gets no expiry, because the server writes the
    /// expiry after the holders.
    pub whole: bool,
}

/// The change of one holder, or the end of some leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedStep<'a> {
    /// This holder becomes the only one, whatever the state of the lock was.
    Only(Holder<'a>),
    /// This holder joins, or replaces the holder with the same token.
    Put(Holder<'a>),
    /// The holder with this token leaves.
    Remove(Token),
    /// The holders whose lease ended before this time are removed.
    RemoveEnded(u64),
}

/// The change does not fit the lock, because it was made for another state of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

impl<'a> LockChange<'a> {
    /// The holder that joins or changes.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder<'a>> {
        match self {
            Self::Exclusive(holder)
            | Self::Shared(SharedChange {
                step: SharedStep::Only(holder) | SharedStep::Put(holder),
                ..
            }) => Some(holder),
            Self::Keep | Self::Free | Self::Shared(_) => None,
        }
    }

    /// The token in the change. A server that applies the change must record it in its token clock.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        match self {
            Self::Shared(SharedChange {
                step: SharedStep::Remove(token),
                ..
            }) => Some(*token),
            _ => self.holder().map(|holder| holder.grant.token),
        }
    }
}

impl SharedChange<'_> {
    /// The change that makes this holder the only one.
    #[must_use]
    pub const fn only(holder: Holder<'_>) -> SharedChange<'_> {
        SharedChange {
            cap: None,
            step: SharedStep::Only(holder),
            count: 1,
            latest_end: holder.end.millis(),
            whole: false,
        }
    }

    /// The expiry of the key after the change.
    #[must_use]
    pub const fn expiry(&self) -> Deadline {
        if self.whole {
            Deadline::Never
        } else {
            Deadline::At(self.latest_end)
        }
    }

    /// Applies the change to the holders of a lock; `None` if the lock is not shared. Returns the holders if they are a
    /// new set. Applying a change twice has the same effect as applying it once.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] if the outcome is not the expected one. The holders are then in an undefined state and must not be
    /// used.
    pub fn apply(&self, set: Option<&mut HolderSet>) -> Result<Option<HolderSet>, Mismatch> {
        if let SharedStep::Only(holder) = &self.step {
            let new = HolderSet::one(holder);
            return self.check(&new).map(|()| Some(new));
        }
        let set = set.ok_or(Mismatch)?;
        if let Some(cap) = self.cap {
            set.cap_ends(Deadline::At(cap));
        }
        match &self.step {
            SharedStep::Only(_) => {}
            SharedStep::Put(holder) => {
                let token = holder.grant.token;
                // An existing holder keeps its token; a new holder's token is the highest.
                let fits = match set.find(holder.owner) {
                    Some(present) => present.grant.token == token,
                    None => set.highest().is_none_or(|highest| highest < token),
                };
                if !fits {
                    return Err(Mismatch);
                }
                set.put(holder);
            }
            SharedStep::Remove(token) => {
                set.remove(*token);
            }
            SharedStep::RemoveEnded(before) => set.remove_ended(Deadline::At(*before)),
        }
        self.check(set).map(|()| None)
    }

    fn check(&self, set: &HolderSet) -> Result<(), Mismatch> {
        let count = set.count();
        let fits = u32::try_from(count) == Ok(self.count)
            && count > 0
            && set.latest_end() == Deadline::At(self.latest_end)
            && set.least_limit().allows(count)
            && set.least_limit() > Limit::ONE;
        if fits { Ok(()) } else { Err(Mismatch) }
    }
}
