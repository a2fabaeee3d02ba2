//! The check of a whole history.

use crate::clock::ServerClock;
use crate::cycles;
use crate::order;
use crate::report::{Mode, Report};
use crate::rules::Evidence;
use crate::story::Story;
use crate::{History, Span};

/// Decides whether a correct lock could have answered so.
///
/// It never blames a correct lock, and so it is lenient wherever the recorded moments leave room.
/// What it takes for granted beside what [`History`] says:
///
/// - a new grant without a lease takes 30000 ms, the default of the server's setting;
/// - nobody moves the end of a lease by other means than the recorded calls (`PEXPIRE`, `PERSIST`);
/// - of a waiting call that was ended by `CLIENT UNBLOCK` and answered with nil, the outcome is
///   recorded as [`Outcome::GivenBack`](crate::Outcome::GivenBack): it may have been granted just
///   before.
#[must_use]
pub fn check(history: &History, mode: Mode) -> Report {
    let clock = ServerClock::new(&history.facts.steps);
    let losses = in_order(&history.facts.losses);
    let mut report = Report::default();
    let stories = Story::all(history, mode, &clock, &losses);
    for story in &stories {
        let evidence = Evidence::of(story);
        evidence.check(&mut report);
        if mode != Mode::Split {
            order::check(story, &mut report);
        }
    }
    cycles::check(&stories, &mut report);
    report
}

fn in_order(spans: &[Span]) -> Vec<Span> {
    let mut spans = spans.to_vec();
    spans.sort_by_key(|span| (span.from, span.to));
    spans
}
