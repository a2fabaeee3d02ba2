//! What is told of a shared lock to who only looks: without the shares that have ended.

use super::holders::{Holders, Shared};
use super::share::{LAST_END, Share};
use crate::{Deadline, Held, Limit, Token, UnixTime};

impl<'a> Shared<'a> {
    /// The shares whose lease has not ended, lowest token first, with the end of each lease.
    pub fn live(&self, now: UnixTime) -> impl Iterator<Item = Share<'a>> + use<'a> {
        let (shared, now) = (*self, now.millis());
        let live = self.shares.iter().filter(move |share| share.end >= now);
        live.map(move |share| Share {
            end: shared.end_of(&share),
            ..share
        })
    }

    /// How many of them there are; 0 when the lock counts as free.
    #[must_use]
    pub fn live_count(&self, now: UnixTime) -> usize {
        self.shares.count() - self.shares.ended(now.millis()).count()
    }

    /// The smallest limit of them.
    #[must_use]
    pub fn live_least_limit(&self, now: UnixTime) -> Limit {
        let least = self.shares.least_limit();
        if self.shares.next_end() >= now.millis() || least == Limit::NONE {
            return least;
        }
        self.live(now)
            .map(|share| share.limit)
            .min()
            .unwrap_or(Limit::NONE)
    }
}

impl<'a> Holders<'a> {
    /// The holders whose lease has not ended, lowest token first. Who has the lock alone ends with the key
    /// ([`Holders::end_of`]).
    pub fn live(&self, now: UnixTime) -> impl Iterator<Item = Share<'a>> + use<'a> {
        let (alone, shared) = match *self {
            Self::Alone(held) => (Some(held), None),
            Self::Shared(shared) => (None, Some(shared)),
        };
        let alone = alone.map(|held| self::alone(&held));
        let shared = shared.map(|shared| shared.live(now));
        alone.into_iter().chain(shared.into_iter().flatten())
    }

    /// The holder with this token. A lease that has ended counts until it is taken out.
    #[must_use]
    pub fn with(&self, token: Token) -> Option<Share<'a>> {
        match self {
            Self::Alone(held) => (held.grant.token == token).then_some(alone(held)),
            Self::Shared(shared) => shared.shares.with(token),
        }
    }

    /// When the lease of a holder ends.
    #[must_use]
    pub fn end_of(&self, share: &Share<'_>) -> Deadline {
        match self {
            Self::Alone(held) => held.deadline,
            Self::Shared(shared) => Deadline::At(shared.end_of(share)),
        }
    }

    /// How many there are; 0 when the lock counts as free.
    #[must_use]
    pub fn live_count(&self, now: UnixTime) -> usize {
        match self {
            Self::Alone(_) => 1,
            Self::Shared(shared) => shared.live_count(now),
        }
    }

    /// The smallest limit of them.
    #[must_use]
    pub fn live_least_limit(&self, now: UnixTime) -> Limit {
        match self {
            Self::Alone(_) => Limit::ONE,
            Self::Shared(shared) => shared.live_least_limit(now),
        }
    }
}

/// Who has the lock alone, as one of its holders.
const fn alone<'a>(held: &Held<'a>) -> Share<'a> {
    Share {
        owner: held.owner,
        grant: held.grant,
        limit: Limit::ONE,
        end: match held.deadline {
            Deadline::At(at) => at,
            Deadline::Never => LAST_END,
        },
    }
}
