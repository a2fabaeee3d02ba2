//! When a candidate for the state of a lock began, and when its lease ends.

use crate::clock::{ServerClock, ServerTime, earliest_end, latest_end};
use crate::story::Story;
use crate::{Moment, Span};

/// How long a lock may seem to stand beyond the end of its lease, in microseconds. A server looks at
/// its clock before it serves a command, so that nothing needs as much: it is room for a machine
/// whose wall clock and monotonic clock do not run alike.
const LATE_END: ServerTime = 50_000;

/// Bounds of the times of a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Times {
    /// The candidate began at this moment or later.
    pub(super) since: Moment,
    /// By the server's clock, the lease ends then at the earliest.
    pub(super) earliest_end: ServerTime,
    /// And then at the latest.
    pub(super) latest_end: ServerTime,
}

/// The moment up to which operations are put in order, and what is known of the servers.
#[derive(Clone, Copy)]
pub(super) struct Scene<'s> {
    pub(super) now: Moment,
    pub(super) clock: &'s ServerClock,
    evictions: &'s [Span],
}

impl<'s> Scene<'s> {
    pub(super) fn at(now: Moment, story: &'s Story<'_>) -> Self {
        Self {
            now,
            clock: story.clock,
            evictions: story.evictions,
        }
    }
}

impl Times {
    /// When a lock may have become free by itself, if it may.
    pub(super) fn lapse(&self, scene: Scene<'_>) -> Option<Moment> {
        let over = scene.clock.first(self.since, self.earliest_end);
        let evictions = scene.evictions.iter();
        let evicted = evictions
            .filter(|span| span.overlaps(self.since, scene.now))
            .map(|span| span.from.max(self.since));
        let lapse = evicted.fold(over, Moment::min);
        (lapse <= scene.now).then_some(lapse)
    }

    /// Whether the lease was certainly over before this candidate began.
    pub(super) fn over(&self, scene: Scene<'_>) -> bool {
        scene.clock.earliest(self.since, scene.now) > self.latest_end.saturating_add(LATE_END)
    }

    /// A lease in milliseconds begins.
    pub(super) fn lease(self, lease: u64, scene: Scene<'_>) -> Self {
        Self {
            since: self.since,
            earliest_end: earliest_end(scene.clock.earliest(self.since, scene.now), lease),
            latest_end: latest_end(scene.clock.latest(self.since, scene.now), lease),
        }
    }

    /// A lease begins, unless it would end before the one there is.
    pub(super) fn lengthened(self, lease: u64, scene: Scene<'_>) -> Self {
        let anew = self.lease(lease, scene);
        Self {
            earliest_end: self.earliest_end.max(anew.earliest_end),
            latest_end: self.latest_end.max(anew.latest_end),
            ..self
        }
    }

    /// Nothing is known of the lease's end.
    pub(super) fn any_lease(self) -> Self {
        Self {
            earliest_end: ServerTime::MIN,
            latest_end: ServerTime::MAX,
            ..self
        }
    }

    /// The lock is free.
    pub(super) fn without_lease(self) -> Self {
        Self {
            since: self.since,
            ..Self::default()
        }
    }

    /// Leaves room for all that these times or the others leave room for.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            since: self.since.min(other.since),
            earliest_end: self.earliest_end.min(other.earliest_end),
            latest_end: self.latest_end.max(other.latest_end),
        }
    }
}
