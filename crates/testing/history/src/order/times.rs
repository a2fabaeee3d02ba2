//! When a candidate for the state of a lock began, and when its leases end.

use crate::clock::{ServerClock, ServerTime, earliest_end, latest_end};
use crate::story::Story;
use crate::{Moment, Renewed, Span};

/// How long a lock may seem to stand beyond the end of its lease, in microseconds. A server looks at
/// its clock before it serves a command, so that nothing needs as much: it is room for a machine
/// whose wall clock and monotonic clock do not run alike.
const LATE_END: ServerTime = 50_000;

/// Bounds of the times of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Times {
    /// The candidate began at this moment or later.
    pub(super) since: Moment,
    /// The end of each holder's lease, in the order of the holders.
    pub(super) ends: Vec<End>,
}

/// Bounds of the end of a lease, by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    earliest: ServerTime,
    latest: ServerTime,
}

/// The moment up to which operations are put in order, and what is known of the servers.
#[derive(Clone, Copy)]
pub(super) struct Scene<'s> {
    pub(super) now: Moment,
    pub(super) clock: &'s ServerClock,
    evictions: &'s [Span],
    renewed: &'s [&'s Renewed],
}

impl<'s> Scene<'s> {
    pub(super) fn at(now: Moment, story: &'s Story<'_>) -> Self {
        Self {
            now,
            clock: story.clock,
            evictions: story.evictions,
            renewed: &story.renewed,
        }
    }
}

impl Times {
    /// When the lease of the holder at this place may have ended, if it may. Where the clock was set back, a
    /// renewal by the server may have brought the end nearer.
    pub(super) fn lapse(
        &self,
        place: usize,
        owner: &str,
        lease: u64,
        scene: Scene<'_>,
    ) -> Option<Moment> {
        let renewals = scene.renewed.iter().filter(|renewed| {
            let Span { from, to } = renewed.span;
            renewed.owner == owner && from <= scene.now && scene.clock.set_between(from, to)
        });
        let earliest = renewals
            .map(|Renewed { span, .. }| scene.clock.earliest(span.from, span.to.min(scene.now)))
            .map(|renewal| earliest_end(renewal, lease))
            .fold(self.ends[place].earliest, Ord::min);
        let over = scene.clock.first(self.since, earliest);
        (over <= scene.now).then_some(over)
    }

    /// When the lock may have been evicted, if it may.
    pub(super) fn eviction(&self, scene: Scene<'_>) -> Option<Moment> {
        let evictions = scene.evictions.iter();
        let evicted = evictions
            .filter(|span| span.overlaps(self.since, scene.now))
            .map(|span| span.from.max(self.since));
        evicted.min().filter(|evicted| *evicted <= scene.now)
    }

    /// Whether the lease of the holder at this place was certainly over before this candidate began: the
    /// server may have renewed it while it was in a session.
    pub(super) fn over(&self, place: usize, owner: &str, lease: u64, scene: Scene<'_>) -> bool {
        let began = scene.clock.earliest(self.since, scene.now);
        let is_over = |end: ServerTime| began > end.saturating_add(LATE_END);
        is_over(self.ends[place].latest)
            && scene.renewed.iter().all(|renewed| {
                let Span { from, to } = renewed.span;
                let end = || latest_end(scene.clock.latest(from, to), lease);
                renewed.owner != owner || is_over(end())
            })
    }

    /// The end of a lease in milliseconds that begins now.
    pub(super) fn lease(&self, lease: u64, scene: Scene<'_>) -> End {
        End {
            earliest: earliest_end(scene.clock.earliest(self.since, scene.now), lease),
            latest: latest_end(scene.clock.latest(self.since, scene.now), lease),
        }
    }

    /// The holder's lease begins anew, unless it would end before the one there is.
    pub(super) fn lengthen(&mut self, place: usize, lease: u64, scene: Scene<'_>) {
        let anew = self.lease(lease, scene);
        let end = &mut self.ends[place];
        end.earliest = end.earliest.max(anew.earliest);
        end.latest = end.latest.max(anew.latest);
    }

    /// Leaves room for all that these times or the others leave room for.
    pub(super) fn or(&self, other: &Self) -> Self {
        let ends = self.ends.iter().zip(&other.ends);
        Self {
            since: self.since.min(other.since),
            ends: ends
                .map(|(end, other)| End {
                    earliest: end.earliest.min(other.earliest),
                    latest: end.latest.max(other.latest),
                })
                .collect(),
        }
    }
}

impl End {
    /// Nothing is known of it.
    pub(super) const ANY: Self = Self {
        earliest: ServerTime::MIN,
        latest: ServerTime::MAX,
    };

    /// It is this one or later.
    pub(super) fn or_later(self) -> Self {
        Self {
            latest: ServerTime::MAX,
            ..self
        }
    }
}
