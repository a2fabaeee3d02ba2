//! Queues, flights and the watch under test, driven as the server drives them: what frees a lock
//! only marks it or is seen by its lease's end, and a round looks at those alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::model::{Deed, End, LEASE, LIFT, OWNERS, SPOTS, Spot};
use crate::{
    Acquire, Acquired, Change, Flights, GiveBack, Handed, Held, Holds, Lease, Monotonic, Owner,
    OwnerBuf, Place, Queues, Release, ReleaseAmount, Renew, Rules, Times, Token, TokenClock,
    UnixTime, Waiter, WaiterId, Watch, acquire, release, renew,
};

const RULES: Rules = Rules {
    default_lease: Lease::from_millis(LEASE).unwrap(),
    max_token_lead_ms: 1_000_000,
};

#[derive(Default)]
pub(super) struct World {
    pub(super) queues: Queues,
    pub(super) flights: Flights,
    pub(super) watch: Watch,
    pub(super) locks: BTreeMap<Spot, Held<'static>>,
    /// The calls by the order of joining.
    pub(super) ids: Vec<WaiterId>,
    pub(super) numbers: HashMap<WaiterId, usize>,
    pub(super) ended: Vec<(usize, End)>,
    give_backs: Vec<GiveBack>,
    marked: BTreeSet<Place>,
    tokens: TokenClock,
    now: u64,
}

pub(super) fn place((database, key): Spot) -> Place {
    Place {
        database,
        key: Arc::from([key]),
    }
}

pub(super) fn spot(place: &Place) -> Spot {
    (place.database, place.key[0])
}

fn owner(index: usize) -> Owner<'static> {
    Owner::new(OWNERS[index]).unwrap()
}

impl World {
    pub(super) fn happens(&mut self, deed: Deed) {
        match deed {
            Deed::Acquire {
                spot,
                owner: index,
                holds,
                block,
            } => self.acquire(spot, index, holds.and_then(Holds::new), block),
            Deed::Release { spot, owner, all } => self.release(spot, owner, all),
            Deed::Raise(spot) => self.raise(spot),
            Deed::Gone(number) => self.leave(self.ids[number], End::Gone),
            Deed::Arrive(number) => {
                self.flights.arrive(self.ids[number]);
                self.ended.push((number, End::Granted));
            }
            Deed::Lose(number) => {
                let given = self.flights.lose(self.ids[number]);
                self.give_backs.push(given.expect("on its way"));
                self.ended.push((number, End::Lost));
            }
            Deed::Pass(millis) => {
                self.now += millis;
                let expired = |held: &Held<'_>| held.deadline < crate::Deadline::At(self.now);
                self.locks.retain(|_, held| !expired(held));
            }
            Deed::Del(spot) => {
                self.locks.remove(&spot);
                if self.queues.waiting(spot.0, &[spot.1]) > 0 {
                    self.marked.insert(place(spot));
                }
            }
            Deed::Flush(database) => {
                self.locks.retain(|spot, _| spot.0 != database);
                self.marked.extend(self.queues.places(Some(database)));
            }
            Deed::Swap => {
                for spot in SPOTS {
                    self.give_back(spot);
                }
                let swapped = |((database, key), held)| ((1 - database, key), held);
                let locks = std::mem::take(&mut self.locks);
                self.locks = locks.into_iter().map(swapped).collect();
                self.marked.extend(self.queues.places(None));
            }
            Deed::Round => self.round(),
        }
    }

    fn acquire(&mut self, spot: Spot, index: usize, holds: Option<Holds>, block: Option<u64>) {
        self.settle(spot);
        if !self.locks.contains_key(&spot) {
            self.serve(spot);
        }
        match self.judge(spot, owner(index), holds) {
            Ok(Acquired::Busy) => {
                let Some(wait) = block else { return };
                let waiter = Waiter {
                    owner: OwnerBuf::from(owner(index)),
                    lease: None,
                    holds,
                    client_id: self.ids.len() as u64,
                    since: Monotonic(self.now),
                    until: (wait > 0).then_some(Monotonic(self.now + wait)),
                };
                let id = self.queues.join(spot.0, &[spot.1], waiter);
                let before = self.numbers.insert(id, self.ids.len());
                assert_eq!(before, None, "{id:?} is given twice");
                self.ids.push(id);
                self.marked.insert(place(spot));
            }
            Ok(_) => self.flights.answer(&place(spot)),
            Err(_) => {}
        }
    }

    fn release(&mut self, spot: Spot, index: usize, all: bool) {
        self.settle(spot);
        let request = Release {
            owner: owner(index),
            amount: if all {
                ReleaseAmount::All
            } else {
                ReleaseAmount::One
            },
            token: None,
        };
        let lock = self.locks.get(&spot);
        let times = || Times::of(lock, self.wall());
        match release(lock.map(Held::record), &request, times) {
            Ok(released) => {
                self.change(spot, request.owner, released.change);
                if released.holds_left > 0 {
                    self.flights.answer(&place(spot));
                } else {
                    self.serve(spot);
                }
            }
            Err(_) if all => {
                while let Some(id) = self.queues.first_of(spot.0, &[spot.1], OWNERS[index]) {
                    self.leave(id, End::CalledOff);
                }
            }
            Err(_) => {}
        }
    }

    fn raise(&mut self, spot: Spot) {
        self.settle(spot);
        let Some(held) = self.locks.get(&spot).copied() else {
            return;
        };
        let from = held.grant.token;
        let to = Token::new(from.number() + LIFT).unwrap();
        let request = Renew::raise(held.owner, None, from, to).unwrap();
        let renewed = renew(Some(&held), &request, &RULES, self.wall(), &mut self.tokens).unwrap();
        self.change(spot, held.owner, renewed.change);
        self.flights.raise(&place(spot), from, to);
        self.flights.answer(&place(spot));
    }

    fn round(&mut self) {
        while let Some((end, id)) = self.queues.next_end()
            && end <= Monotonic(self.now)
        {
            self.leave(id, End::TimedOut);
        }
        let owed: BTreeSet<_> = self.give_backs.iter().map(|g| spot(g.place())).collect();
        let mut places = std::mem::take(&mut self.marked);
        places.extend(self.watch.ended(self.now));
        for spot in owed {
            self.settle(spot);
        }
        for place in places {
            self.serve(spot(&place));
        }
    }

    fn settle(&mut self, spot: Spot) {
        if self.give_back(spot) {
            self.serve(spot);
        }
    }

    fn give_back(&mut self, here: Spot) -> bool {
        let here_too = |given: &mut GiveBack| spot(given.place()) == here;
        let owed: Vec<_> = self.give_backs.extract_if(.., here_too).collect();
        for given in &owed {
            let held = self.locks.get(&here).copied();
            let change = given.change(held.as_ref(), self.wall());
            if let Some(held) = held {
                self.change(here, held.owner, change);
            }
        }
        !owed.is_empty()
    }

    /// Grants the lock to those whose turn it is, for as long as it is somebody's turn.
    fn serve(&mut self, spot: Spot) {
        let (database, key) = (spot.0, [spot.1]);
        loop {
            let before = self.locks.get(&spot).copied();
            let next = match &before {
                Some(held) => {
                    if self.queues.waiting(database, &key) > 0 {
                        self.watch.see(&place(spot), held.deadline);
                    }
                    let own = held.owner.bytes();
                    self.queues.first_of(database, &key, own)
                }
                None => self.queues.first(database, &key),
            };
            let Some(id) = next else { return };
            let waiter = self.queues.get(id).expect("it waits").clone();
            let waits = waiter.owner.as_owner().bytes();
            let own = OWNERS.into_iter().find(|own| *own == waits);
            match self.judge(spot, own.and_then(Owner::new).unwrap(), waiter.holds) {
                Ok(Acquired::Busy) => panic!("free, or its own"),
                Ok(Acquired::New(grant, _) | Acquired::Again(grant, _)) => {
                    let handed = Handed {
                        place: place(spot),
                        client_id: waiter.client_id,
                        token: grant.token,
                        took_hold: before.is_none_or(|held| grant.holds > held.grant.holds),
                        holds: grant.holds,
                        deadline: self.locks[&spot].deadline,
                    };
                    self.take_out(id);
                    self.flights.depart(id, handed, before.is_none());
                }
                Err(refusal) => self.leave(id, End::Refused(refusal)),
            }
        }
    }

    fn judge(
        &mut self,
        spot: Spot,
        owner: Owner<'static>,
        holds: Option<Holds>,
    ) -> Result<Acquired, crate::Refusal> {
        let request = Acquire {
            owner,
            lease: None,
            holds,
            token: None,
        };
        let held = self.locks.get(&spot);
        let acquired = acquire(held, &request, &RULES, self.wall(), &mut self.tokens)?;
        if let Acquired::New(_, change) | Acquired::Again(_, change) = acquired {
            self.change(spot, owner, change);
        }
        Ok(acquired)
    }

    fn change(&mut self, spot: Spot, owner: Owner<'static>, change: Change) {
        match change {
            Change::Keep => {}
            Change::Free => drop(self.locks.remove(&spot)),
            Change::Hold(grant, deadline) => {
                let held = Held {
                    owner,
                    grant,
                    deadline,
                };
                self.locks.insert(spot, held);
            }
        }
    }

    fn leave(&mut self, id: WaiterId, end: End) {
        self.take_out(id);
        self.ended.push((self.numbers[&id], end));
    }

    fn take_out(&mut self, id: WaiterId) {
        let (place, _) = self.queues.leave(id).expect("it waits");
        if self.queues.waiting(place.database, &place.key) == 0 {
            self.watch.let_go(&place);
            self.marked.remove(&place);
        }
    }

    fn wall(&self) -> UnixTime {
        UnixTime::from_micros(self.now * 1000)
    }
}
