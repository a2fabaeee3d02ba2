//! First come, first served.

use std::collections::HashMap;

use super::{Evidence, blocks};
use crate::presence::is_present;
use crate::report::{Kind, Violation};
use crate::story::granted;
use crate::{Call, Moment, Outcome, Sighting, Span};

/// A call that was seen to wait.
struct Seen<'a> {
    call: &'a Call,
    /// The sending of the last look that saw it.
    last: Moment,
}

impl Evidence<'_, '_> {
    pub(super) fn queue(&self, found: &mut Vec<Violation>) {
        let mut by_client: HashMap<u32, Vec<&Call>> = HashMap::new();
        for call in &self.story.calls {
            by_client.entry(call.client).or_default().push(call);
        }
        let sightings: Vec<(&Sighting, Vec<Option<&Call>>)> = self
            .story
            .sightings
            .iter()
            .map(|sighting| {
                let clients = sighting.clients.iter();
                let waiting = clients.map(|client| sighted(sighting, by_client.get(client)?));
                (*sighting, waiting.collect())
            })
            .collect();
        let mut last_seen: HashMap<*const Call, Moment> = HashMap::new();
        for (sighting, waiting) in &sightings {
            for waits in waiting.iter().flatten() {
                let last = last_seen.entry(std::ptr::from_ref(*waits)).or_default();
                *last = sighting.sent.max(*last);
            }
        }
        let calls = self.story.calls.iter().copied();
        let new: Vec<&Call> = calls.filter(|call| self.grants.began_with(call)).collect();
        let mut texts = Vec::new();
        for (sighting, waiting) in &sightings {
            let came_later = new.partition_point(|call| call.sent <= sighting.ended);
            for (place, waits) in waiting.iter().enumerate() {
                let Some(waits) = waits else { continue };
                let waits = Seen {
                    call: waits,
                    last: last_seen[&std::ptr::from_ref(*waits)],
                };
                let behind = waiting[place + 1..].iter().flatten().copied();
                let behind = behind.filter(|call| self.grants.began_with(call));
                let came_later = new[came_later..].iter().copied();
                let came_later = came_later.take_while(|call| call.sent <= waits.call.ended);
                for later in behind.chain(came_later) {
                    if self.out_of_turn(&waits, later, sighting.sent) {
                        texts.push(format!("{} waited in front of {later}", waits.call));
                    }
                }
            }
        }
        texts.sort();
        texts.dedup();
        let violations = texts.into_iter();
        found.extend(violations.map(|text| self.violation(Kind::QueueOrder, text)));
    }

    /// `later` began a grant, though it stood behind `waits`, which got one after it, or was seen to wait
    /// still. A call of a session is passed over where its program may not have polled, at any moment since both
    /// were seen at which `later` can have been granted.
    fn out_of_turn(&self, waits: &Seen<'_>, later: &Call, seen: Moment) -> bool {
        let lost = || {
            let end = waits.call.ended.max(later.ended);
            self.story.loss_between(waits.call.sent, end)
        };
        let granted_before = match granted(waits.call) {
            Some(token) => granted(later) < Some(token),
            None => later.ended < waits.last,
        };
        let is_passed_over = || {
            let span = Span {
                from: later.sent.max(seen),
                to: later.ended,
            };
            let session = waits.call.session;
            session.is_some_and(|session| !is_present(self.story.polls, session.id, span))
        };
        waits.call.owner != later.owner && granted_before && !lost() && !is_passed_over()
    }
}

/// The one call of a client that waited through the whole of a sighting, out of all its calls.
fn sighted<'a>(sighting: &Sighting, calls: &[&'a Call]) -> Option<&'a Call> {
    let (sent, ended) = (sighting.sent, sighting.ended);
    let begun = calls.partition_point(|call| call.sent <= ended);
    let mut meanwhile = calls[..begun].iter().rev();
    let call = meanwhile.next()?;
    let only = meanwhile.next().is_none_or(|before| before.ended < sent);
    let waits = blocks(call) && call.outcome != Outcome::Untouched;
    (only && waits && call.sent <= sent && call.ended >= ended).then_some(call)
}
