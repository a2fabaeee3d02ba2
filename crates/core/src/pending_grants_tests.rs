//! Scenarios of one owner's waiting calls, from the grant to the answer or the disconnect.

use super::super::queue::{Queues, Waiter};
use super::super::{Grant, Holder, Lease, Limit, LockChange, Owner, OwnerBuf};
use super::*;
use crate::Monotonic;

/// A step of a scenario. The owner of the lock has the waiting calls 0 to 9.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The call finds the lock free: a new grant.
    Acquires(usize),
    /// The call re-enters and adds a hold.
    Reenters(usize),
    /// The call re-enters with `HOLDS` and adds none: there are enough.
    FindsHolds(usize),
    /// The call's reply is written.
    Answered(usize),
    /// A call of the owner that did not wait is answered.
    Direct,
    /// The same, and it adds a hold.
    DirectReenters,
    /// The same, and it releases a hold of several.
    DirectReleases,
    /// The token of the grant is raised.
    Raised,
    /// The lock was deleted, and the same owner has a new grant.
    Regranted,
    /// The call's client disconnects, which leaves so many holds; 0: the lock is free.
    Lost(usize, u32),
}
use Step::{
    Acquires, Answered, Direct, DirectReenters, DirectReleases, FindsHolds, Lost, Raised, Reenters,
    Regranted,
};

const LEASE: Lease = Lease::from_millis(30_000).unwrap();
const NOW: UnixTime = UnixTime::from_micros(100_000_000);
const OLD: Deadline = Deadline::At(120_000);
const FRESH: Deadline = Deadline::At(130_000);

struct Scenario {
    pending_grants: PendingGrants,
    ids: Vec<WaiterId>,
    lock_id: LockId,
    lock: Option<Holder<'static>>,
    last_token: u64,
    /// The result of the last `deliver`.
    unconfirmed: Option<UnconfirmedGrant>,
}

impl Scenario {
    /// A scenario in which the owner holds the lock already, or not.
    fn new(held: bool) -> Self {
        let waiter = Waiter {
            owner: OwnerBuf::from(Owner::new(b"ann").unwrap()),
            lease: None,
            holds: None,
            limit: Limit::ONE,
            keep: None,
            names_limit: false,
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
            scenario.regrant();
        }
        scenario
    }

    fn regrant(&mut self) {
        self.last_token += 1;
        self.lock = Some(Holder {
            owner: Owner::new(b"ann").unwrap(),
            grant: Grant {
                token: Token::new(self.last_token).unwrap(),
                holds: Holds::ONE,
                lease: LEASE,
            },
            limit: Limit::ONE,
            end: OLD,
        });
    }

    fn holds(&mut self) -> &mut Holds {
        &mut self.lock.as_mut().unwrap().grant.holds
    }

    fn add_holds(&mut self, by: i32) {
        let holds = self
            .holds()
            .number()
            .checked_add_signed(by)
            .expect("no overflow");
        *self.holds() = Holds::new(holds).unwrap();
    }

    fn add(&mut self, call: usize, took_hold: bool, is_new: bool) {
        let held = self.lock.unwrap();
        let pending = PendingGrant {
            lock_id: self.lock_id.clone(),
            client_id: 7,
            token: held.grant.token,
            took_hold,
            holds: held.grant.holds,
            deadline: held.end,
        };
        self.pending_grants.add(self.ids[call], pending, is_new);
    }

    fn owner_answered(&mut self) {
        let token = self.lock.unwrap().grant.token;
        self.pending_grants.answered(&self.lock_id, token);
    }

    /// Does a step; for [`Lost`], returns the holds that are left and the change.
    fn apply(&mut self, step: Step) -> Option<(u32, LockChange<'static>)> {
        match step {
            Acquires(call) => {
                self.regrant();
                self.add(call, true, true);
            }
            Reenters(call) => {
                self.add_holds(1);
                self.add(call, true, false);
            }
            FindsHolds(call) => self.add(call, false, false),
            Answered(call) => self.unconfirmed = self.pending_grants.deliver(self.ids[call]),
            Direct => self.owner_answered(),
            DirectReenters | DirectReleases => {
                self.add_holds(if matches!(step, DirectReenters) {
                    1
                } else {
                    -1
                });
                self.owner_answered();
            }
            Raised => {
                let from = self.lock.unwrap().grant.token;
                self.last_token += 10;
                let to = Token::new(self.last_token).unwrap();
                self.lock.as_mut().unwrap().grant.token = to;
                self.pending_grants.raise(&self.lock_id, from, to);
                self.owner_answered();
            }
            Regranted => self.regrant(),
            Lost(call, _) => {
                let given = self
                    .pending_grants
                    .abandon(self.ids[call])
                    .expect("a pending grant");
                assert_eq!(given.lock_id(), &self.lock_id);
                let change = given.change(self.lock.as_ref(), NOW);
                match change {
                    LockChange::Keep => {}
                    LockChange::Free => self.lock = None,
                    LockChange::Exclusive(holder) => self.lock = Some(holder),
                    LockChange::Shared(_) => unreachable!("an exclusive lock"),
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
            let result = scenario.apply(*step);
            scenario.pending_grants.check();
            if let (Lost(_, left), Some((holds, _))) = (step, result) {
                assert_eq!(holds, *left, "{rule}: step {number} of {steps:?}");
            }
        }
        assert_eq!(
            scenario.pending_grants.entries(),
            0,
            "{rule}: something is left after {steps:?}"
        );
    }
}

#[rustfmt::skip]
#[test]
fn a_grant_without_another_call_is_given_back_whole() {
    check_scenarios(false, &[
        ("alone", &[Acquires(0), Lost(0, 0)]),
        ("both disconnect, the first before the second", &[Acquires(0), Reenters(1), Lost(0, 1), Lost(1, 0)]),
        ("both disconnect, the second before the first", &[Acquires(0), Reenters(1), Lost(1, 1), Lost(0, 0)]),
        ("both want one hold and disconnect", &[Acquires(0), FindsHolds(1), Lost(0, 1), Lost(1, 0)]),
        ("the same in the other order", &[Acquires(0), FindsHolds(1), Lost(1, 1), Lost(0, 0)]),
        ("three disconnect", &[Acquires(0), Reenters(1), FindsHolds(2), Lost(1, 1), Lost(0, 1), Lost(2, 0)]),
        ("the calls of another grant do not count",
            &[Acquires(0), Answered(0), Regranted, Acquires(1), Lost(1, 0)]),
        ("nor do those that are pending",
            &[Acquires(0), Acquires(1), Lost(1, 0), Lost(0, 0)]),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_grant_with_another_call_loses_a_hold_and_keeps_one() {
    check_scenarios(false, &[
        ("the second is pending", &[Acquires(0), Reenters(1), Lost(0, 1), Answered(1)]),
        ("the first is pending", &[Acquires(0), Reenters(1), Lost(1, 1), Answered(0)]),
        ("the first was answered", &[Acquires(0), Reenters(1), Answered(0), Lost(1, 1)]),
        ("the second was answered", &[Acquires(0), Reenters(1), Answered(1), Lost(0, 1)]),
        ("the last hold stays for a pending call",
            &[Acquires(0), FindsHolds(1), Lost(0, 1), Answered(1)]),
        ("the last hold stays for an answered call", &[Acquires(0), FindsHolds(1), Answered(1), Lost(0, 1)]),
        ("no hold taken, none given back",
            &[Acquires(0), Reenters(1), FindsHolds(2), Answered(0), Lost(2, 2), Answered(1)]),
        ("two of three disconnect", &[Acquires(0), Reenters(1), Reenters(2), Lost(0, 2), Lost(2, 1), Answered(1)]),
        ("an answer counts for every later disconnect",
            &[Acquires(0), Reenters(1), Reenters(2), Answered(1), Lost(0, 2), Lost(2, 1)]),
        ("a direct answer is an answer", &[Acquires(0), Direct, Lost(0, 1)]),
        ("a direct re-entry is an answer", &[Acquires(0), DirectReenters, Lost(0, 1)]),
        ("also after its hold was released", &[Acquires(0), DirectReenters, DirectReleases, Lost(0, 1)]),
        ("an answer outlives the call", &[Acquires(0), Answered(0), Reenters(1), Lost(1, 1)]),
    ]);
    check_scenarios(true, &[
        ("the owner had the grant before", &[Reenters(0), Lost(0, 1)]),
        ("and had the holds it wanted", &[FindsHolds(0), Lost(0, 1)]),
        ("both disconnect", &[Reenters(0), Reenters(1), Lost(1, 2), Lost(0, 1)]),
        ("a hold was released in between", &[Reenters(0), DirectReleases, Lost(0, 1)]),
    ]);
}

#[rustfmt::skip]
#[test]
fn another_grant_is_not_touched() {
    check_scenarios(false, &[
        ("the grant has ended", &[Acquires(0), Regranted, Lost(0, 1)]),
        ("also where the new grant has more holds", &[Acquires(0), Regranted, DirectReenters, Lost(0, 2)]),
        ("the new grant has pending calls",
            &[Acquires(0), Acquires(1), Reenters(2), Lost(0, 2), Lost(1, 1), Lost(2, 0)]),
        ("an answer to a call of the old grant does not count for the new one",
            &[Acquires(0), Acquires(1), Answered(0), Lost(1, 0)]),
        ("an answer about the new grant does not count for the old one",
            &[Acquires(0), Regranted, Direct, FindsHolds(1), Lost(0, 1), Lost(1, 1)]),
    ]);
}

#[rustfmt::skip]
#[test]
fn a_raised_grant_is_the_same_grant() {
    check_scenarios(false, &[
        ("the hold is given back", &[Acquires(0), Reenters(1), Raised, Lost(0, 1), Answered(1)]),
        ("the raise was answered", &[Acquires(0), Raised, Lost(0, 1)]),
        ("calls from before and after", &[Acquires(0), Raised, Reenters(1), Lost(0, 1), Lost(1, 1)]),
        ("a grant that has ended is not raised",
            &[Acquires(0), Regranted, Raised, DirectReenters, Lost(0, 2)]),
        ("and raising the new one keeps its calls",
            &[Acquires(0), Acquires(1), Raised, Reenters(2), Lost(0, 2), Lost(2, 1), Lost(1, 1)]),
    ]);
}

#[test]
fn a_call_is_answered_or_abandoned_once() {
    let mut scenario = Scenario::new(false);
    scenario.apply(Acquires(0));
    scenario.apply(Answered(0));
    assert_eq!(scenario.pending_grants.abandon(scenario.ids[0]), None);
    scenario.apply(Acquires(1));
    assert!(!scenario.pending_grants.is_empty());
    let client = |call: usize| {
        let mut calls = scenario.pending_grants.clients();
        let found = calls.find(|(id, _)| *id == scenario.ids[call]);
        found.map(|(_, client)| client)
    };
    assert_eq!([client(0), client(1)], [None, Some(7)]);
    assert!(scenario.pending_grants.abandon(scenario.ids[1]).is_some());
    assert_eq!(scenario.pending_grants.abandon(scenario.ids[1]), None);
    scenario.pending_grants.deliver(scenario.ids[1]);
    assert!(scenario.pending_grants.is_empty());
}

#[test]
fn what_is_given_back_is_a_release() {
    // It refreshes the lease, but never shortens it.
    for (before, after) in [(OLD, FRESH), (Deadline::Never, Deadline::Never)] {
        let mut scenario = Scenario::new(false);
        scenario.apply(Acquires(0));
        scenario.apply(Reenters(1));
        scenario.lock.as_mut().unwrap().end = before;
        scenario.apply(Lost(0, 1));
        assert_eq!(scenario.lock.unwrap().end, after);
    }
    // Where nothing changes, nothing is written.
    let mut scenario = Scenario::new(true);
    scenario.apply(FindsHolds(0));
    assert_eq!(scenario.apply(Lost(0, 1)), Some((1, LockChange::Keep)));
    // A free lock stays free.
    let mut scenario = Scenario::new(false);
    scenario.apply(Acquires(0));
    scenario.lock = None;
    assert_eq!(scenario.apply(Lost(0, 0)), Some((0, LockChange::Keep)));
}

#[test]
fn a_grant_that_was_answered_to_one_call_only_can_be_given_back_later() {
    let after = |held: bool, steps: &[Step]| {
        let mut scenario = Scenario::new(held);
        for step in steps {
            scenario.apply(*step);
        }
        scenario
    };
    let mut alone = after(false, &[Acquires(0), Answered(0)]);
    let grant = alone.unconfirmed.take().expect("the only call");
    let expired = [119_999, 120_000, 120_001].map(|ms| {
        let now = UnixTime::from_micros(ms * 1000);
        grant.has_expired(now)
    });
    assert_eq!(expired, [false, false, true]);
    let given = grant.into_give_back();
    assert_eq!(given.change(alone.lock.as_ref(), NOW), LockChange::Free);
    assert_eq!(given.change(None, NOW), LockChange::Keep);
    // A changed grant stays: whoever changed it has it.
    for step in [DirectReenters, Raised, Regranted] {
        let mut changed = after(false, &[Acquires(0), Answered(0), step]);
        let given = changed
            .unconfirmed
            .take()
            .expect("the only call")
            .into_give_back();
        assert_eq!(given.change(changed.lock.as_ref(), NOW), LockChange::Keep);
    }
    let mut renewed = after(false, &[Acquires(0), Answered(0)]);
    renewed.lock.as_mut().unwrap().end = FRESH;
    let given = renewed
        .unconfirmed
        .take()
        .expect("the only call")
        .into_give_back();
    assert_eq!(given.change(renewed.lock.as_ref(), NOW), LockChange::Keep);
    // Another call was answered, or is pending.
    assert_eq!(after(true, &[Reenters(0), Answered(0)]).unconfirmed, None);
    assert_eq!(
        after(false, &[Acquires(0), Direct, Answered(0)]).unconfirmed,
        None
    );
    assert_eq!(
        after(false, &[Acquires(0), Reenters(1), Answered(0)]).unconfirmed,
        None
    );
    assert_eq!(
        after(false, &[Acquires(0), Regranted, Answered(0)])
            .unconfirmed
            .map(|grant| { grant.into_give_back().change(None, NOW) }),
        Some(LockChange::Keep)
    );
}
