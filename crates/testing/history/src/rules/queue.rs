//! First come, first served.

use std::collections::HashMap;

use super::{Evidence, blocks};
use crate::report::{Kind, Violation};
use crate::story::granted;
use crate::{Call, Sighting};

impl Evidence<'_, '_> {
    pub(super) fn queue(&self, found: &mut Vec<Violation>) {
        let mut by_client: HashMap<u32, Vec<&Call>> = HashMap::new();
        for call in &self.story.calls {
            by_client.entry(call.client).or_default().push(call);
        }
        let calls = self.story.calls.iter().copied();
        let new: Vec<&Call> = calls.filter(|call| self.grants.began_with(call)).collect();
        let mut texts = Vec::new();
        for sighting in &self.story.sightings {
            let clients = sighting.clients.iter();
            let waiting: Vec<_> = clients
                .map(|client| sighted(sighting, by_client.get(client)?))
                .collect();
            let came_later = new.partition_point(|call| call.sent <= sighting.ended);
            for (place, waits) in waiting.iter().enumerate() {
                let Some(waits) = waits else { continue };
                let behind = waiting[place + 1..].iter().flatten().copied();
                let behind = behind.filter(|call| self.grants.began_with(call));
                let came_later = new[came_later..].iter().copied();
                let came_later = came_later.take_while(|call| call.sent <= waits.ended);
                for later in behind.chain(came_later) {
                    if self.out_of_turn(waits, later) {
                        texts.push(format!("{waits} waited in front of {later}"));
                    }
                }
            }
        }
        texts.sort();
        texts.dedup();
        let violations = texts.into_iter();
        found.extend(violations.map(|text| self.violation(Kind::QueueOrder, text)));
    }

    /// `later` began a grant, though it stood behind `waits`, which got one after it.
    fn out_of_turn(&self, waits: &Call, later: &Call) -> bool {
        let lost = || {
            let end = waits.ended.max(later.ended);
            self.story.loss_between(waits.sent, end)
        };
        waits.owner != later.owner
            && granted(waits).is_some_and(|token| granted(later) < Some(token))
            && !lost()
    }
}

/// The one call of a client that waited through the whole of a sighting, out of all its calls.
fn sighted<'a>(sighting: &Sighting, calls: &[&'a Call]) -> Option<&'a Call> {
    let (sent, ended) = (sighting.sent, sighting.ended);
    let begun = calls.partition_point(|call| call.sent <= ended);
    let mut meanwhile = calls[..begun].iter().rev();
    let call = meanwhile.next()?;
    let only = meanwhile.next().is_none_or(|before| before.ended < sent);
    (only && blocks(call) && call.sent <= sent && call.ended >= ended).then_some(call)
}
