//! Scenarios of one owner's waiting calls, from the grant to the answer or the loss.

use super::super::queue::{Monotonic, Queues, Waiter};
use super::super::{Grant, Lease, Owner, OwnerBuf};
use super::*;

/// What happens, to the waiting calls 0 to 9 of the owner of a lock.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The call finds the lock free: a new grant.
    Begins(usize),
    /// The call re-enters: one hold more.
    Adds(usize),
    /// The call re-enters with `HOLDS`, and there are as many as it wants.
    Finds(usize),
    /// The call's answer is written.
    Answered(usize),
    /// The owner is answered directly.
    Direct,
    /// The owner re-enters directly: one hold more.
    DirectAdds,
    /// The owner gives a hold back, and keeps the rest.
    DirectGives,
    /// The token of the grant is raised.
    Raised,
    /// The lock was deleted, and is another grant of the same owner.
    Anew,
    /// The call's client is gone, and so many holds are left: 0 when the lock is free.
    Lost(usize, u32),
}
use Step::{Adds, Anew, Answered, Begins, Direct, DirectAdds, DirectGives, Finds, Lost, Raised};

const LEASE: Lease = Lease::from_millis(30_000).unwrap();
const NOW: UnixTime = UnixTime::from_micros(100_000_000);
const OLD: Deadline = Deadline::At(120_000);
const FRESH: Deadline = Deadline::At(130_000);

struct Scenario {
    pending_grants: PendingGrants,
    ids: Vec<WaiterId>,
    lock_id: LockId,
    lock: Option<Held<'static>>,
    last_token: u64,
    /// What the last answer left unconfirmed.
    unconfirmed: Option<UnconfirmedGrant>,
}

impl Scenario {
    /// The owner holds the lock already when `held`.
    fn new(held: bool) -> Self {
        let waiter = Waiter {
            owner: OwnerBuf::from(Owner::new(b"ann").unwrap()),
            lease: None,
            holds: None,
            client_id: 7,
            since: Monotonic(0),
            until: None,
        };
        let mut queues = Queues::new();
        let mut scenario = Self {
            pending_grants: PendingGrants::new(),
            ids: (0..10)
                .map(|_| queues.join(0, b"lock", waiter.clone()))
                .collect(),
            lock_id: LockId::new(0, b"lock"),
            lock: None,
            last_token: 0,
            unconfirmed: None,
        };
        if held {
            scenario.begin();
        }
        scenario
    }

    fn begin(&mut self) {
        self.last_token += 1;
        self.lock = Some(Held {
            owner: Owner::new(b"ann").unwrap(),
            grant: Grant {
                token: Token::new(self.last_token).unwrap(),
                holds: Holds::ONE,
                lease: LEASE,
            },
            deadline: OLD,
        });
    }

    fn holds(&mut self) -> &mut Holds {
        &mut self.lock.as_mut().unwrap().grant.holds
    }

    fn more(&mut self, by: i32) {
        let holds = self
            .holds()
            .number()
            .checked_add_signed(by)
            .expect("no overflow");
        *self.holds() = Holds::new(holds).unwrap();
    }

    fn add(&mut self, call: usize, took_hold: bool, begins: bool) {
        let held = self.lock.unwrap();
        let pending = PendingGrant {
            lock_id: self.lock_id.clone(),
            client_id: 7,
            token: held.grant.token,
            took_hold,
            holds: held.grant.holds,
            deadline: held.deadline,
        };
        self.pending_grants.add(self.ids[call], pending, begins);
    }

    /// Does a step; for a loss, the holds that are left, and whether the lock was touched.
    fn apply(&mut self, step: Step) -> Option<(u32, Change)> {
        match step {
            Begins(call) => {
                self.begin();
                self.add(call, true, true);
            }
            Adds(call) => {
                self.more(1);
                self.add(call, true, false);
            }
            Finds(call) => self.add(call, false, false),
            Answered(call) => self.unconfirmed = self.pending_grants.deliver(self.ids[call]),
            Direct => self.pending_grants.owner_answered(&self.lock_id),
            DirectAdds | DirectGives => {
                self.more(if matches!(step, DirectAdds) { 1 } else { -1 });
                self.pending_grants.owner_answered(&self.lock_id);
            }
            Raised => {
                let from = self.lock.unwrap().grant.token;
                self.last_token += 10;
                let to = Token::new(self.last_token).unwrap();
                self.lock.as_mut().unwrap().grant.token = to;
                self.pending_grants.raise(&self.lock_id, from, to);
                self.pending_grants.owner_answered(&self.lock_id);
            }
            Anew => self.begin(),
            Lost(call, _) => {
                let given = self
                    .pending_grants
                    .abandon(self.ids[call])
                    .expect("a pending grant");
                assert_eq!(given.lock_id(), &self.lock_id);
                let change = given.change(self.lock.as_ref(), NOW);
                match change {
                    Change::Keep => {}
                    Change::Free => self.lock = None,
                    Change::Hold(grant, deadline) => {
                        let held = self.lock.as_mut().unwrap();
                        (held.grant, held.deadline) = (grant, deadline);
                    }
                }
                let left = self.lock.map_or(0, |held| held.grant.holds.number());
                return Some((left, change));
            }
        }
        None
    }
}

fn check_scenarios(held: bool, scenarios: &[(&str, &[Step])]) {
    for (rule, steps) in scenarios {
        let mut scenario = Scenario::new(held);
        for (number, step) in steps.iter().enumerate() {
            let came = scenario.apply(*step);
            scenario.pending_grants.check();
            if let (Lost(_, left), Some((holds, _))) = (step, came) {
                assert_eq!(holds, *left, "{rule}: step {number} of {steps:?}");
            }
        }
        assert_eq!(
            scenario.pending_grants.entries(),
            0,
            "{rule}: {steps:?} is whole"
        );
    }
}

#[rustfmt::skip]
#[test]
fn a_grant_that_nobody_else_knows_of_is_given_back_whole() {
    check_scenarios(false, &[
        ("alone", &[Begins(0), Lost(0, 0)]),
        ("both die, the first first", &[Begins(0), Adds(1), Lost(0, 1), Lost(1, 0)]),
        ("both die, the second first", &[Begins(0), Adds(1), Lost(1, 1), Lost(0, 0)]),
        ("both want one hold and die", &[Begins(0), Finds(1), Lost(0, 1), Lost(1, 0)]),
        ("the other way round", &[Begins(0), Finds(1), Lost(1, 1), Lost(0, 0)]),
        ("three die", &[Begins(0), Adds(1), Finds(2), Lost(1, 1), Lost(0, 1), Lost(2, 0)]),
        ("the calls of another grant do not count",
            &[Begins(0), Answered(0), Anew, Begins(1), Lost(1, 0)]),
        ("nor those that are still on their way",
            &[Begins(0), Begins(1), Lost(1, 0), Lost(0, 0)]),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_grant_that_another_call_has_or_will_have_loses_a_hold_and_keeps_one() {
    check_scenarios(false, &[
        ("the second is about to be told", &[Begins(0), Adds(1), Lost(0, 1), Answered(1)]),
        ("the first is about to be told", &[Begins(0), Adds(1), Lost(1, 1), Answered(0)]),
        ("the first was told", &[Begins(0), Adds(1), Answered(0), Lost(1, 1)]),
        ("the second was told", &[Begins(0), Adds(1), Answered(1), Lost(0, 1)]),
        ("the last hold stays for who is about to be told",
            &[Begins(0), Finds(1), Lost(0, 1), Answered(1)]),
        ("the last hold stays for who was told", &[Begins(0), Finds(1), Answered(1), Lost(0, 1)]),
        ("no hold taken, none given back",
            &[Begins(0), Adds(1), Finds(2), Answered(0), Lost(2, 2), Answered(1)]),
        ("two of three die", &[Begins(0), Adds(1), Adds(2), Lost(0, 2), Lost(2, 1), Answered(1)]),
        ("the told one counts for every later loss",
            &[Begins(0), Adds(1), Adds(2), Answered(1), Lost(0, 2), Lost(2, 1)]),
        ("a direct answer is an answer", &[Begins(0), Direct, Lost(0, 1)]),
        ("a direct re-entry is an answer", &[Begins(0), DirectAdds, Lost(0, 1)]),
        ("also where its hold is gone", &[Begins(0), DirectAdds, DirectGives, Lost(0, 1)]),
        ("the answer outlives the calls on their way", &[Begins(0), Answered(0), Adds(1), Lost(1, 1)]),
    ]);
    check_scenarios(true, &[
        ("the owner knew of its grant before", &[Adds(0), Lost(0, 1)]),
        ("and found the holds it wanted", &[Finds(0), Lost(0, 1)]),
        ("both die", &[Adds(0), Adds(1), Lost(1, 2), Lost(0, 1)]),
        ("in between a hold was given back", &[Adds(0), DirectGives, Lost(0, 1)]),
    ]);
}

#[rustfmt::skip]
#[test]
fn another_grant_is_not_touched() {
    check_scenarios(false, &[
        ("the grant is over", &[Begins(0), Anew, Lost(0, 1)]),
        ("also where the new grant has more holds", &[Begins(0), Anew, DirectAdds, Lost(0, 2)]),
        ("the new grant's calls are on their way",
            &[Begins(0), Begins(1), Adds(2), Lost(0, 2), Lost(1, 1), Lost(2, 0)]),
        ("an answer to the old grant's call tells nobody of the new one",
            &[Begins(0), Begins(1), Answered(0), Lost(1, 0)]),
        ("an answer about the new grant is not one about the old",
            &[Begins(0), Anew, Direct, Finds(1), Lost(0, 1), Lost(1, 1)]),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_raised_grant_is_the_same_grant() {
    check_scenarios(false, &[
        ("the hold is given back", &[Begins(0), Adds(1), Raised, Lost(0, 1), Answered(1)]),
        ("who raised it was answered", &[Begins(0), Raised, Lost(0, 1)]),
        ("calls from before and after", &[Begins(0), Raised, Adds(1), Lost(0, 1), Lost(1, 1)]),
        ("a grant that is over stays over",
            &[Begins(0), Anew, Raised, DirectAdds, Lost(0, 2)]),
        ("and raising it does not end the new one",
            &[Begins(0), Begins(1), Raised, Adds(2), Lost(0, 2), Lost(2, 1), Lost(1, 1)]),
    ]);
}

#[test]
fn a_call_is_answered_or_abandoned_once() {
    let mut scenario = Scenario::new(false);
    scenario.apply(Begins(0));
    scenario.apply(Answered(0));
    assert_eq!(scenario.pending_grants.abandon(scenario.ids[0]), None);
    scenario.apply(Begins(1));
    assert!(!scenario.pending_grants.is_empty());
    assert!(scenario.pending_grants.abandon(scenario.ids[1]).is_some());
    assert_eq!(scenario.pending_grants.abandon(scenario.ids[1]), None);
    scenario.pending_grants.deliver(scenario.ids[1]);
    assert!(scenario.pending_grants.is_empty());
}

#[test]
fn what_is_given_back_is_a_release() {
    // A hold less starts the lease again, but never shortens it.
    for (before, after) in [(OLD, FRESH), (Deadline::Never, Deadline::Never)] {
        let mut scenario = Scenario::new(false);
        scenario.apply(Begins(0));
        scenario.apply(Adds(1));
        scenario.lock.as_mut().unwrap().deadline = before;
        scenario.apply(Lost(0, 1));
        assert_eq!(scenario.lock.unwrap().deadline, after);
    }
    // What stays as it is is not written.
    let mut scenario = Scenario::new(true);
    scenario.apply(Finds(0));
    assert_eq!(scenario.apply(Lost(0, 1)), Some((1, Change::Keep)));
    // A lock that is gone stays so.
    let mut scenario = Scenario::new(false);
    scenario.apply(Begins(0));
    scenario.lock = None;
    assert_eq!(scenario.apply(Lost(0, 0)), Some((0, Change::Keep)));
}

#[test]
fn a_grant_that_one_call_alone_was_told_of_can_be_given_back_later() {
    let after = |held: bool, steps: &[Step]| {
        let mut scenario = Scenario::new(held);
        for step in steps {
            scenario.apply(*step);
        }
        scenario
    };
    let mut alone = after(false, &[Begins(0), Answered(0)]);
    let grant = alone.unconfirmed.take().expect("nobody else knows");
    assert!(!grant.has_expired(NOW));
    let given = grant.into_give_back();
    assert_eq!(given.change(alone.lock.as_ref(), NOW), Change::Free);
    assert_eq!(given.change(None, NOW), Change::Keep);
    // Whoever has changed the grant knows of it.
    for step in [DirectAdds, Raised, Anew] {
        let mut touched = after(false, &[Begins(0), Answered(0), step]);
        let given = touched
            .unconfirmed
            .take()
            .expect("nobody else knew")
            .into_give_back();
        assert_eq!(given.change(touched.lock.as_ref(), NOW), Change::Keep);
    }
    let mut renewed = after(false, &[Begins(0), Answered(0)]);
    renewed.lock.as_mut().unwrap().deadline = FRESH;
    let given = renewed
        .unconfirmed
        .take()
        .expect("nobody else knew")
        .into_give_back();
    assert_eq!(given.change(renewed.lock.as_ref(), NOW), Change::Keep);
    // Others know, or will.
    assert_eq!(after(true, &[Adds(0), Answered(0)]).unconfirmed, None);
    assert_eq!(
        after(false, &[Begins(0), Direct, Answered(0)]).unconfirmed,
        None
    );
    assert_eq!(
        after(false, &[Begins(0), Adds(1), Answered(0)]).unconfirmed,
        None
    );
    assert_eq!(
        after(false, &[Begins(0), Anew, Answered(0)])
            .unconfirmed
            .map(|grant| { grant.into_give_back().change(None, NOW) }),
        Some(Change::Keep)
    );
}
