//! First come, first served.

use super::{Evidence, blocks};
use crate::report::{Kind, Violation};
use crate::story::granted;
use crate::{Call, Outcome, Sighting};

impl Evidence<'_, '_> {
    pub(super) fn queue(&self, found: &mut Vec<Violation>) {
        let new: Vec<(&Call, u64)> = self
            .story
            .calls
            .iter()
            .filter(|call| self.grants.began_with(call))
            .filter_map(|call| Some((*call, granted(call)?)))
            .collect();
        for sighting in &self.story.sightings {
            let waiting: Vec<_> = sighting
                .clients
                .iter()
                .map(|client| self.sighted(sighting, *client))
                .collect();
            for (place, waits) in waiting.iter().enumerate() {
                let Some(waits) = waits else { continue };
                let behind = waiting[place + 1..].iter().flatten().copied();
                let behind = behind.filter(|call| self.grants.began_with(call));
                let came_later = new
                    .iter()
                    .map(|(call, _)| *call)
                    .filter(|call| call.sent > sighting.ended);
                for later in behind.chain(came_later) {
                    self.in_turn(waits, later, found);
                }
            }
        }
        found.dedup();
    }

    /// The one call of a client that waited through the whole of a sighting.
    fn sighted(&self, sighting: &Sighting, client: u32) -> Option<&Call> {
        let (sent, ended) = (sighting.sent, sighting.ended);
        let mut calls = self
            .story
            .calls
            .iter()
            .filter(|call| call.client == client && call.sent <= ended && call.ended >= sent);
        let call = calls.next()?;
        let only = calls.next().is_none() && blocks(call);
        (only && call.sent <= sent && call.ended >= ended).then_some(call)
    }

    /// `later` began a grant, and stood behind `waits`, which got one too.
    fn in_turn(&self, waits: &Call, later: &Call, found: &mut Vec<Violation>) {
        let (
            Outcome::Grant { token, .. },
            Outcome::Grant {
                token: later_token, ..
            },
        ) = (&waits.outcome, &later.outcome)
        else {
            return;
        };
        let lost = self
            .story
            .loss_between(waits.sent, waits.ended.max(later.ended));
        if waits.owner != later.owner && later_token < token && !lost {
            let text = format!("{waits} waited in front of {later}");
            let violation = self.violation(Kind::QueueOrder, text);
            if !found.contains(&violation) {
                found.push(violation);
            }
        }
    }
}
