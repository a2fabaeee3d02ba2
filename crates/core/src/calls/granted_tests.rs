//! Scenarios of one owner's waiting calls, from the grant to the answer or the disconnect.

use super::*;
use crate::{Grant, Holder, Holds, Lease, LockChange, Owner, OwnerBuf, Token, UnixTime};

const KEY: &[u8] = b"lock";

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
    calls: Calls,
    /// The calls; the number of each is that of its client.
    ids: Vec<CallId>,
    lock: Option<Holder<'static>>,
    last_token: u64,
    /// The client that was answered last.
    answered: u64,
}

impl Scenario {
    /// A scenario in which the owner holds the lock already, or not.
    fn new(held: bool) -> Self {
        let waiter = |client_id| Waiter {
            owner: OwnerBuf::from(Owner::new(b"ann").unwrap()),
            lease: None,
            holds: None,
            limit: Limit::ONE,
            keep: None,
            session: None,
            names_limit: false,
            client_id,
            since: Monotonic(0),
            until: None,
        };
        let mut calls = Calls::default();
        let mut scenario = Self {
            ids: (0..10)
                .map(|client| calls.join(0, KEY, waiter(client), ()))
                .collect(),
            calls,
            lock: None,
            last_token: 0,
            answered: 0,
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
        let taken = Taken {
            token: held.grant.token,
            took_hold,
            holds: held.grant.holds,
            deadline: held.end,
        };
        let granted = self.calls.grant(self.ids[call], taken, is_new);
        granted.expect("a call that waits");
    }

    fn answer(&mut self, client: u64) {
        self.calls.reply_written(client);
        self.calls.check();
        self.calls.replies_sent(|| NOW);
        self.answered = client;
    }

    fn owner_answered(&mut self) {
        let token = self.lock.unwrap().grant.token;
        self.calls.answered(0, KEY, token);
    }

    /// True when the last answer was the only one of its grant.
    fn may_be_unsent(&mut self) -> bool {
        self.calls.closed(self.answered)
    }

    /// The last answer was not sent: what becomes of the lock.
    fn unsent(&mut self) -> LockChange<'static> {
        assert!(self.may_be_unsent(), "the only call");
        self.calls.reply_is_unsent(self.answered);
        self.given_back().change(self.lock.as_ref(), NOW)
    }

    fn given_back(&mut self) -> GiveBack {
        self.calls.check();
        assert!(self.calls.gives_back(0, KEY));
        let mut give_backs = self.calls.take_give_backs(0, KEY);
        assert!(!self.calls.gives_back(0, KEY));
        assert_eq!(give_backs.len(), 1);
        give_backs.remove(0)
    }

    /// Ends every call that has not ended; how many entries are left.
    fn left(mut self) -> usize {
        for (client, id) in (0..).zip(&self.ids) {
            self.calls.remove(*id);
            self.calls.forget_sent(client);
        }
        self.calls.check();
        self.calls.entries()
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
            Answered(call) => self.answer(call as u64),
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
                self.calls.raise(0, KEY, from, to);
                self.owner_answered();
            }
            Regranted => self.regrant(),
            Lost(call, _) => {
                assert!(self.calls.abandon(self.ids[call]), "a pending grant");
                let given = self.given_back();
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
            scenario.calls.check();
            if let (Lost(_, left), Some((holds, _))) = (step, result) {
                assert_eq!(holds, *left, "{rule}: step {number} of {steps:?}");
            }
        }
        let left = scenario.left();
        assert_eq!(left, 0, "{rule}: something is left after {steps:?}");
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
    let [first, second, waiting] = [0, 1, 2].map(|call| scenario.ids[call]);
    assert!(!scenario.calls.abandon(waiting), "it waits");
    scenario.apply(Acquires(0));
    scenario.apply(Answered(0));
    assert!(!scenario.calls.abandon(first));
    scenario.apply(Acquires(1));
    let blocked: Vec<_> = scenario.calls.blocked().collect();
    assert_eq!(
        (blocked.len(), blocked[0]),
        (9, second),
        "the granted one is first"
    );
    assert_eq!(scenario.calls.blocked_by(0), None);
    assert_eq!(scenario.calls.blocked_by(1), Some(second));
    let taken = Taken {
        token: Token::MAX,
        took_hold: true,
        holds: Holds::ONE,
        deadline: OLD,
    };
    let granted = scenario.calls.grant(second, taken, true);
    assert!(granted.is_none(), "a call is granted the lock once");
    assert!(scenario.calls.abandon(second));
    assert!(!scenario.calls.abandon(second));
    assert_eq!(scenario.calls.blocked().count(), 8);
    assert_eq!(scenario.calls.blocked_by(1), None);
    scenario.calls.reply_written(1);
    scenario.calls.replies_sent(|| NOW);
    scenario.calls.take_give_backs(0, KEY);
    assert_eq!(scenario.left(), 0);
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
    assert_eq!(alone.unsent(), LockChange::Free);
    assert!(!alone.may_be_unsent(), "given back once");
    let mut free = after(false, &[Acquires(0), Answered(0)]);
    free.lock = None;
    assert_eq!(free.unsent(), LockChange::Keep);
    // A changed grant stays: whoever changed it has it.
    for step in [DirectReenters, Raised, Regranted] {
        let mut changed = after(false, &[Acquires(0), Answered(0), step]);
        assert_eq!(changed.unsent(), LockChange::Keep);
    }
    let mut renewed = after(false, &[Acquires(0), Answered(0)]);
    renewed.lock.as_mut().unwrap().end = FRESH;
    assert_eq!(renewed.unsent(), LockChange::Keep);
    // Another call was answered, or is pending.
    for (held, steps) in [
        (true, &[Reenters(0), Answered(0)][..]),
        (false, &[Acquires(0), Direct, Answered(0)]),
        (false, &[Acquires(0), Reenters(1), Answered(0)]),
    ] {
        assert!(!after(held, steps).may_be_unsent(), "{steps:?}");
    }
    let mut regranted = after(false, &[Acquires(0), Regranted, Answered(0)]);
    assert_eq!(regranted.unsent(), LockChange::Keep);
}

#[test]
fn a_sent_reply_is_forgotten_with_the_next_call_the_next_reply_and_the_end_of_the_lease() {
    let mut scenario = Scenario::new(false);
    scenario.apply(Acquires(0));
    scenario.apply(Answered(0));
    assert!(scenario.calls.has_sent());
    scenario.calls.forget_sent(0);
    assert!(!scenario.calls.has_sent() && !scenario.may_be_unsent());
    assert_eq!(scenario.left(), 0);

    // A reply that is only written is not.
    let mut scenario = Scenario::new(false);
    scenario.apply(Acquires(0));
    scenario.calls.reply_written(0);
    scenario.calls.forget_sent(0);
    assert!(!scenario.calls.closed(0));
    assert_eq!(
        scenario.given_back().change(scenario.lock.as_ref(), NOW),
        LockChange::Free
    );

    // Among many the expired ones are forgotten.
    let mut calls = Calls::<()>::default();
    let many = super::granted::MAX_SENT as u64;
    for client in 0..=many {
        let waiter = Scenario::new(false)
            .calls
            .remove(Scenario::new(false).ids[0]);
        let waiter = Waiter {
            client_id: client,
            ..waiter.unwrap().waiter
        };
        let id = calls.join(0, &client.to_be_bytes(), waiter, ());
        let taken = Taken {
            token: Token::new(client + 1).unwrap(),
            took_hold: true,
            holds: Holds::ONE,
            deadline: Deadline::At(1000 + client),
        };
        calls.grant(id, taken, true).unwrap();
        calls.reply_written(client);
    }
    let at = |millis: u64| move || UnixTime::from_micros(millis * 1000);
    calls.replies_sent(at(1010));
    calls.check();
    let kept = |calls: &mut Calls, client| calls.closed(client);
    assert_eq!(
        [9, 10, many].map(|client| kept(&mut calls, client)),
        [false, true, true]
    );
    // Few are kept.
    calls.replies_sent(at(5000));
    assert_eq!(
        [9, 10, many].map(|client| kept(&mut calls, client)),
        [false, true, true]
    );
}
