//! A key of a server that may hold a lock, and what Redis does to it.

use super::model::{Event, Holder};
use crate::sharing::{Holders, Share, Shared, Shares, Transition};
use crate::{Deadline, Grant, Held, Holds, Lease, Limit, Owner, Token, UnixTime};

pub(super) const OWNERS: usize = 40;

/// A key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Free,
    Alone(Held<'static>),
    Shared(Shares, Deadline),
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
            Self::Alone(held) => Some(Holders::Alone(*held)),
            Self::Shared(shares, expiry) => Some(Holders::Shared(Shared {
                shares,
                expiry: *expiry,
            })),
        }
    }

    pub(super) fn expiry(&self) -> Option<Deadline> {
        match self {
            Self::Free => None,
            Self::Alone(held) => Some(held.deadline),
            Self::Shared(_, expiry) => Some(*expiry),
        }
    }

    fn set_expiry(&mut self, at: Deadline) {
        match self {
            Self::Free => {}
            Self::Alone(held) => held.deadline = at,
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

    pub(super) fn change(&mut self, transition: Transition<'_>) {
        let fixed = |held: Held<'_>| Held {
            owner: owner(index(held.owner)),
            grant: held.grant,
            deadline: held.deadline,
        };
        match transition {
            Transition::Keep => {}
            Transition::Free => *self = Self::Free,
            Transition::Alone(held) => *self = Self::Alone(fixed(held)),
            Transition::Share(change) => {
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
        let to_model = |owner, grant: Grant, limit: Limit, end| Holder {
            owner: index(owner),
            token: grant.token.number(),
            holds: grant.holds.number().into(),
            lease: grant.lease.millis(),
            limit: limit.number().into(),
            end,
        };
        match self {
            Self::Free => Vec::new(),
            Self::Alone(Held {
                owner,
                grant,
                deadline,
            }) => {
                let end = match deadline {
                    Deadline::At(at) => Some(*at),
                    Deadline::Never => None,
                };
                vec![to_model(*owner, *grant, Limit::ONE, end)]
            }
            Self::Shared(shares, expiry) => {
                let lock = Shared {
                    shares,
                    expiry: *expiry,
                };
                let live: Vec<_> = lock
                    .live(now)
                    .map(|share| to_model(share.owner, share.grant, share.limit, Some(share.end)))
                    .collect();
                assert_eq!(live.len(), lock.live_count(now));
                let least = lock.live(now).map(|share| share.limit).min();
                assert_eq!(lock.live_least_limit(now), least.unwrap_or(Limit::NONE));
                live
            }
        }
    }
}

pub(super) fn share(holder: &Holder) -> Share<'static> {
    Share {
        owner: owner(holder.owner),
        grant: Grant {
            token: Token::new(holder.token).unwrap(),
            holds: count(holder.holds),
            lease: Lease::from_millis(holder.lease).unwrap(),
        },
        limit: limit(holder.limit),
        end: holder.end.unwrap(),
    }
}

pub(super) fn count(number: u64) -> Holds {
    Holds::new(u32::try_from(number).unwrap()).unwrap()
}

pub(super) fn limit(number: u64) -> Limit {
    Limit::new(u32::try_from(number).unwrap()).unwrap()
}
