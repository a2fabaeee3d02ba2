//! A key of a server that may hold a lock, and what Redis does to it.

use super::model::{Event, Holder};
use crate::{
    Deadline, Grant, Holder as CoreHolder, HolderSet, Holders, Holds, Lease, Limit, LockChange,
    Owner, SharedLock, Token, UnixTime,
};

pub(super) const OWNERS: usize = 40;

/// A key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Free,
    Exclusive(CoreHolder<'static>),
    Shared(HolderSet, Deadline),
}

pub(super) fn owner(index: usize) -> Owner<'static> {
    // Names that are easily confused, of several lengths.
    static NAMES: [&[u8]; OWNERS] = {
        static BYTES: [[u8; OWNERS]; 2] = [[b'o'; OWNERS], [b'O'; OWNERS]];
        let mut names: [&[u8]; OWNERS] = [&[]; OWNERS];
        let mut index = 0;
        while index < OWNERS {
            names[index] = BYTES[index % 2].split_at(1 + index / 2).0;
            index += 1;
        }
        names
    };
    Owner::new(NAMES[index]).unwrap()
}

pub(super) fn index(owner: Owner<'_>) -> usize {
    2 * (owner.bytes().len() - 1) + usize::from(owner.bytes()[0] == b'O')
}

impl Stored {
    pub(super) fn holders(&self) -> Option<Holders<'_>> {
        match self {
            Self::Free => None,
            Self::Exclusive(holder) => Some(Holders::Exclusive(*holder)),
            Self::Shared(shares, expiry) => Some(Holders::Shared(SharedLock {
                set: shares,
                expiry: *expiry,
            })),
        }
    }

    pub(super) fn expiry(&self) -> Option<Deadline> {
        match self {
            Self::Free => None,
            Self::Exclusive(holder) => Some(holder.end),
            Self::Shared(_, expiry) => Some(*expiry),
        }
    }

    fn set_expiry(&mut self, at: Deadline) {
        match self {
            Self::Free => {}
            Self::Exclusive(holder) => holder.end = at,
            Self::Shared(_, expiry) => *expiry = at,
        }
    }

    /// What Redis does to a key.
    pub(super) fn apply(&mut self, event: Event, now: UnixTime) {
        match event {
            Event::Pexpire(ms) => {
                self.set_expiry(Lease::from_millis(ms).unwrap().deadline_from(now));
            }
            Event::Persist => self.set_expiry(Deadline::Never),
            Event::Del => *self = Self::Free,
            _ => {}
        }
        if self
            .expiry()
            .is_some_and(|at| at < Deadline::At(now.millis()))
        {
            *self = Self::Free;
        }
    }

    pub(super) fn change(&mut self, change: LockChange<'_>) {
        match change {
            LockChange::Keep => {}
            LockChange::Free => *self = Self::Free,
            LockChange::Exclusive(holder) => {
                *self = Self::Exclusive(CoreHolder {
                    owner: owner(index(holder.owner)),
                    ..holder
                });
            }
            LockChange::Shared(change) => {
                let shares = match self {
                    Self::Shared(shares, _) => Some(shares),
                    _ => None,
                };
                if let Some(new) = change.apply(shares).expect("the lock it was made for") {
                    *self = Self::Shared(new, Deadline::Never);
                }
                self.set_expiry(change.expiry());
            }
        }
    }

    /// The holders whose lease has not ended, as the model tells them.
    pub(super) fn live(&self, now: UnixTime) -> Vec<Holder> {
        let Some(holders) = self.holders() else {
            return Vec::new();
        };
        let live: Vec<_> = holders.live(now).collect();
        assert_eq!(live.len(), holders.live_count(now));
        let least = live.iter().map(|holder| holder.limit).min();
        assert_eq!(holders.live_least_limit(now), least.unwrap_or(Limit::NONE));
        let to_model = |holder: CoreHolder<'_>| Holder {
            owner: index(holder.owner),
            token: holder.grant.token.number(),
            holds: holder.grant.holds.number().into(),
            lease: holder.grant.lease.millis(),
            limit: holder.limit.number().into(),
            end: match holder.end {
                Deadline::At(at) => Some(at),
                Deadline::Never => None,
            },
        };
        live.into_iter().map(to_model).collect()
    }
}

pub(super) fn core_holder(holder: &Holder) -> CoreHolder<'static> {
    CoreHolder {
        owner: owner(holder.owner),
        grant: Grant {
            token: Token::new(holder.token).unwrap(),
            holds: count(holder.holds),
            lease: Lease::from_millis(holder.lease).unwrap(),
        },
        limit: limit(holder.limit),
        end: Deadline::At(holder.end.unwrap()),
    }
}

pub(super) fn count(number: u64) -> Holds {
    Holds::new(u32::try_from(number).unwrap()).unwrap()
}

pub(super) fn limit(number: u64) -> Limit {
    Limit::new(u32::try_from(number).unwrap()).unwrap()
}
