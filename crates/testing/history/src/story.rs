//! The story of one lock.

use std::collections::BTreeMap;

use crate::clock::ServerClock;
use crate::{Call, History, Mode, Moment, Poll, Renewed, Sighting, Span, Trust, Write};

/// All that was recorded of one key, and what was done to the servers.
pub(crate) struct Story<'a> {
    pub(crate) key: &'a str,
    /// By the moment they were sent.
    pub(crate) calls: Vec<&'a Call>,
    pub(crate) sightings: Vec<&'a Sighting>,
    pub(crate) writes: Vec<&'a Write>,
    pub(crate) trusts: Vec<&'a Trust>,
    pub(crate) renewed: Vec<&'a Renewed>,
    /// Of all keys.
    pub(crate) polls: &'a [Poll],
    pub(crate) clock: &'a ServerClock,
    pub(crate) evictions: &'a [Span],
    /// In order. None where nothing may be lost.
    pub(crate) losses: &'a [Span],
}

impl<'a> Story<'a> {
    /// A history, key by key.
    pub(crate) fn all(
        history: &'a History,
        mode: Mode,
        clock: &'a ServerClock,
        losses: &'a [Span],
    ) -> Vec<Self> {
        let mut stories: BTreeMap<&str, Self> = BTreeMap::new();
        let losses = if mode == Mode::Strict { &[] } else { losses };
        let mut story = |key: &'a str, add: &dyn Fn(&mut Self)| {
            add(stories.entry(key).or_insert_with(|| Self {
                key,
                calls: Vec::new(),
                sightings: Vec::new(),
                writes: Vec::new(),
                trusts: Vec::new(),
                renewed: Vec::new(),
                polls: &history.polls,
                clock,
                evictions: &history.facts.evictions,
                losses,
            }));
        };
        for call in &history.calls {
            story(&call.key, &|story| story.calls.push(call));
        }
        for sighting in &history.sightings {
            story(&sighting.key, &|story| story.sightings.push(sighting));
        }
        for write in &history.writes {
            story(&write.key, &|story| story.writes.push(write));
        }
        for trust in &history.trusts {
            story(&trust.key, &|story| story.trusts.push(trust));
        }
        for renewed in &history.renewed {
            story(&renewed.key, &|story| story.renewed.push(renewed));
        }
        let mut stories: Vec<_> = stories.into_values().collect();
        for story in &mut stories {
            story.calls.sort_by_key(|call| (call.sent, call.ended));
            story.trusts.sort_by_key(|trust| trust.span.from);
        }
        stories
    }

    /// Whether something may have been lost between two moments.
    pub(crate) fn loss_between(&self, from: Moment, to: Moment) -> bool {
        self.losses.iter().any(|loss| loss.overlaps(from, to))
    }

    /// The times in which nothing was lost.
    pub(crate) fn quiet_times(&self) -> Vec<Span> {
        let mut quiet = Vec::new();
        let mut from = 0;
        for loss in self.losses {
            if loss.from > from {
                quiet.push(Span::new(from, loss.from));
            }
            from = from.max(loss.to);
        }
        quiet.push(Span::new(from, Moment::MAX));
        quiet
    }
}

impl Span {
    /// The moments of a call.
    pub(crate) fn of(call: &Call) -> Self {
        Self::new(call.sent, call.ended)
    }

    /// Whether some moment between `from` and `to` is in it.
    pub(crate) fn overlaps(&self, from: Moment, to: Moment) -> bool {
        self.from <= to && self.to >= from
    }

    /// Whether every moment between `from` and `to` is in it.
    pub(crate) fn covers(&self, from: Moment, to: Moment) -> bool {
        self.from <= from && self.to >= to
    }
}

/// The token of a grant that a call was answered with.
pub(crate) fn granted(call: &Call) -> Option<u64> {
    call.granted().map(|granted| granted.token)
}
