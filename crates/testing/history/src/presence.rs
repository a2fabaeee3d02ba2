//! When the calls of a session were certainly not passed over.

use crate::{Moment, Poll, Span};

/// A program that has not polled for so long after a reply may be dead or frozen.
const REPLY_AGE: Moment = 1_000_000;

/// Whether the session's program was there all the while, as far as its polls show. A reply was made after its POLL
/// was sent, and its connection was open until the last POLL that was answered there.
pub(crate) fn is_present(polls: &[Poll], session: u64, span: Span) -> bool {
    let answered = polls
        .iter()
        .filter(|poll| poll.session == session && poll.sure.is_some());
    let is_open_until = |connection| {
        let same = answered
            .clone()
            .filter(|poll| poll.connection == connection);
        same.map(|poll| poll.sent).max().unwrap_or(0)
    };
    let mut spans: Vec<_> = answered
        .clone()
        .map(|poll| {
            let is_young_until = poll.sent.saturating_add(REPLY_AGE);
            Span::new(
                poll.ended,
                is_open_until(poll.connection).min(is_young_until),
            )
        })
        .collect();
    spans.sort_by_key(|present| present.from);
    let mut until = span.from;
    for present in spans {
        if present.from <= until {
            until = until.max(present.to);
        }
    }
    // A moment that is covered needs a span that begins before it.
    until >= span.to && until > span.from
}
