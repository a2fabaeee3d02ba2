//! What is told of a shared lock to who only looks: without the shares that have ended.

use super::holders::Shared;
use super::share::Share;
use crate::{Limit, UnixTime};

impl<'a> Shared<'a> {
    /// The shares whose lease has not ended, lowest token first, with the end of each lease.
    pub fn live(&self, now: UnixTime) -> impl Iterator<Item = Share<'a>> {
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
