//! Grants that were handed to a waiting call and are not known to have reached it.
//!
//! Between the hand-over and the reply the caller's connection may be gone. What it took is then
//! given back; the whole grant, when nobody else has been told of it or is about to be.

use super::map::give_room_back;
use super::queue::{Place, WaiterId};
use super::{Change, Deadline, Held, Holds, Map, Token, UnixTime};

/// What one waiting call was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The lock.
    pub place: Place,
    /// The connection that waited.
    pub client_id: u64,
    /// The grant.
    pub token: Token,
    /// The call added a hold; one with `HOLDS` may find as many as it wants.
    pub took_hold: bool,
    /// The hold count that it was granted.
    pub holds: Holds,
    /// When the lease ends that it was granted.
    pub deadline: Deadline,
}

/// A grant of which one call alone was told, by a reply that may lie unsent for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told(Handed);

/// The grants on their way, and who else knows of each.
#[derive(Debug, Default)]
pub struct Flights {
    calls: Map<WaiterId, Handed>,
    grants: Map<Place, Known>,
}

#[derive(Debug)]
struct Known {
    token: Token,
    on_the_way: usize,
    answered: bool,
}

/// What a call that died gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    handed: Handed,
    /// Another call of the grant was answered, or is about to be.
    shared: bool,
    /// Only a grant that still stands as it was handed is given back: a change says that its owner
    /// knows of it.
    untouched: bool,
}

impl Flights {
    /// Nothing on its way.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True when no grant is on its way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The connection of a call whose grant is on its way.
    #[must_use]
    pub fn client(&self, id: WaiterId) -> Option<u64> {
        self.calls.get(&id).map(|handed| handed.client_id)
    }

    /// A grant was handed to a waiting call; `begins` where the grant itself began with it.
    pub fn depart(&mut self, id: WaiterId, handed: Handed, begins: bool) {
        let known = self
            .grants
            .entry(handed.place.clone())
            .or_insert_with(|| Known::new(handed.token, begins));
        if known.token != handed.token {
            *known = Known::new(handed.token, begins);
        }
        known.on_the_way += 1;
        self.calls.insert(id, handed);
    }

    /// The call was answered. Where nobody else knows of its grant, what it was told.
    pub fn arrive(&mut self, id: WaiterId) -> Option<Told> {
        let handed = self.calls.remove(&id)?;
        let shared = self.land(&handed, true);
        (!shared).then_some(Told(handed))
    }

    /// A call of the owner was answered directly: the grant is known whatever happens to others.
    pub fn answer(&mut self, place: &Place) {
        if let Some(known) = self.grants.get_mut(place) {
            known.answered = true;
        }
    }

    /// The token of a grant was lifted: it is the same grant, and its calls are still calls of it.
    pub fn raise(&mut self, place: &Place, from: Token, to: Token) {
        let Some(known) = self.grants.get_mut(place) else {
            return;
        };
        if known.token != from {
            return;
        }
        known.token = to;
        for handed in self.calls.values_mut() {
            if handed.token == from && handed.place == *place {
                handed.token = to;
            }
        }
    }

    /// The call died on the way: what it gives back.
    pub fn lose(&mut self, id: WaiterId) -> Option<GiveBack> {
        let handed = self.calls.remove(&id)?;
        let shared = self.land(&handed, false);
        Some(GiveBack {
            handed,
            shared,
            untouched: false,
        })
    }

    /// One call less on the way; true where another call knows of its grant, or is about to.
    fn land(&mut self, handed: &Handed, answered: bool) -> bool {
        give_room_back(&mut self.calls);
        let Some(known) = self.grants.get_mut(&handed.place) else {
            return true;
        };
        if known.token != handed.token {
            return true;
        }
        known.on_the_way -= 1;
        let shared = known.answered || known.on_the_way > 0;
        known.answered |= answered;
        if known.on_the_way == 0 {
            self.grants.remove(&handed.place);
            give_room_back(&mut self.grants);
        }
        shared
    }
}

impl Known {
    fn new(token: Token, begins: bool) -> Self {
        Self {
            token,
            on_the_way: 0,
            answered: !begins,
        }
    }
}

impl Told {
    /// True once the lease has ended that was granted.
    #[must_use]
    pub fn is_over(&self, now: UnixTime) -> bool {
        self.0.deadline < Deadline::At(now.millis())
    }

    /// The reply was never sent: what is given back, the whole grant.
    #[must_use]
    pub fn unsent(self) -> GiveBack {
        GiveBack {
            handed: self.0,
            shared: false,
            untouched: true,
        }
    }
}

impl GiveBack {
    /// The lock that it is about.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.handed.place
    }

    /// What happens to the lock: nothing, where its grant is another by now.
    #[must_use]
    pub fn change(&self, lock: Option<&Held<'_>>, now: UnixTime) -> Change {
        let Some(held) = lock.filter(|held| held.grant.token == self.handed.token) else {
            return Change::Keep;
        };
        let as_handed = (self.handed.holds, self.handed.deadline);
        if self.untouched && (held.grant.holds, held.deadline) != as_handed {
            return Change::Keep;
        }
        if !self.shared {
            return Change::Free;
        }
        let fewer = Holds::new(held.grant.holds.number() - 1);
        match fewer {
            Some(holds) if self.handed.took_hold => {
                let grant = super::Grant {
                    holds,
                    ..held.grant
                };
                let deadline: Deadline = held.deadline.max(grant.lease.deadline_from(now));
                Change::Hold(grant, deadline)
            }
            _ => Change::Keep,
        }
    }
}

#[cfg(any(test, fuzzing))]
#[path = "flight_checks.rs"]
mod checks;
#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
