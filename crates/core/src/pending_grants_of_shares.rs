//! Pending grants of a lock with several holders.

use super::super::queue::{Queues, Waiter, WaiterId};
use super::super::{Grant, Holder, HolderSet, Lease, Limit, Owner, OwnerBuf, SharedLock};
use super::*;
use crate::Monotonic;

const END: u64 = 1000;

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// A lock that these owners share, with tokens from 1 and these hold counts; and a pending call of each.
struct Scenario {
    lock_id: LockId,
    shares: HolderSet,
    pending_grants: PendingGrants,
    calls: Vec<WaiterId>,
}

impl Scenario {
    fn of(owners: &[(&str, u32)]) -> Self {
        let (mut shares, mut queues) = (None, Queues::new());
        let lock_id = LockId::new(0, b"lock");
        let (mut pending_grants, mut calls) = (PendingGrants::new(), Vec::new());
        for (number, (owner, holds)) in (1..).zip(owners) {
            let (owner, holds) = (
                Owner::new(owner.as_bytes()).unwrap(),
                Holds::new(*holds).unwrap(),
            );
            let holder = Holder {
                owner,
                grant: Grant {
                    token: token(number),
                    holds,
                    lease: Lease::from_millis(END).unwrap(),
                },
                limit: Limit::NONE,
                end: Deadline::At(END),
            };
            HolderSet::add_stored(&mut shares, &holder).unwrap();
            let waiter = Waiter {
                owner: OwnerBuf::from(owner),
                lease: None,
                holds: None,
                limit: Limit::NONE,
                keep: None,
                names_limit: false,
                client_id: number,
                since: Monotonic(0),
                until: None,
            };
            let id = queues.join(0, b"lock", waiter);
            let pending = PendingGrant {
                lock_id: lock_id.clone(),
                client_id: number,
                token: token(number),
                took_hold: true,
                holds,
                deadline: Deadline::At(END),
            };
            pending_grants.add(id, pending, holds == Holds::ONE);
            calls.push(id);
        }
        Self {
            lock_id,
            shares: HolderSet::finish_stored(shares).unwrap(),
            pending_grants,
            calls,
        }
    }

    fn gives_back(&self, give_back: &GiveBack) -> Option<(String, ReleaseAmount)> {
        let holders = Holders::Shared(SharedLock {
            set: &self.shares,
            expiry: Deadline::At(END),
        });
        let (owner, amount) = give_back.release(Some(&holders))?;
        let name = String::from_utf8(owner.as_owner().bytes().to_vec()).unwrap();
        Some((name, amount))
    }

    fn abandon(&mut self, n: usize) -> Option<(String, ReleaseAmount)> {
        let give_back = self.pending_grants.abandon(self.calls[n]).unwrap();
        self.gives_back(&give_back)
    }
}

fn all(owner: &str) -> (String, ReleaseAmount) {
    (owner.to_owned(), ReleaseAmount::All)
}

#[test]
fn each_share_comes_back_whose_caller_is_gone() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1), ("cat", 1)]);
    assert_eq!(scenario.abandon(1), Some(all("bob")));
    let delivered = scenario.pending_grants.deliver(scenario.calls[0]).unwrap();
    assert_eq!(scenario.abandon(2), Some(all("cat")));
    assert_eq!(
        scenario.gives_back(&delivered.into_give_back()),
        Some(all("ann"))
    );
    assert!(scenario.pending_grants.is_empty());
    assert!(scenario.pending_grants.grants.is_empty());
}

#[test]
fn an_answer_is_of_its_own_grant_alone() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1)]);
    scenario
        .pending_grants
        .answered(&scenario.lock_id, token(1));
    assert_eq!(scenario.abandon(0), None, "its last hold stays");
    assert_eq!(scenario.abandon(1), Some(all("bob")));
}

#[test]
fn of_several_holds_one_comes_back() {
    let mut scenario = Scenario::of(&[("ann", 2), ("bob", 1)]);
    assert_eq!(
        scenario.abandon(0),
        Some(("ann".to_owned(), ReleaseAmount::One))
    );
}

#[test]
fn an_unconfirmed_share_that_was_changed_stays() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1)]);
    let unconfirmed = scenario.pending_grants.deliver(scenario.calls[0]).unwrap();
    scenario.shares = Scenario::of(&[("ann", 2), ("bob", 1)]).shares;
    assert_eq!(scenario.gives_back(&unconfirmed.into_give_back()), None);
}

#[test]
fn nothing_comes_back_of_a_share_that_has_gone() {
    let mut scenario = Scenario::of(&[("ann", 1), ("bob", 1)]);
    scenario.shares = Scenario::of(&[("ann", 1)]).shares;
    assert_eq!(scenario.abandon(1), None);
}
