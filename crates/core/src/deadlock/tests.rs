//! Cycles and what is none, by example, with locks of limit 1; the rest is in `deadlock_properties`.

use super::*;
use crate::{
    CallId, Calls, Deadline, Grant, Holder, HolderSet, Holders, Holds, Lease, Limit, LockId, Owner,
    OwnerBuf, SharedLock, StoredHolder, Token, UnixTime, Waiter,
};

const NOW: UnixTime = UnixTime::from_micros(1_000_000);
const LIVE: u64 = NOW.millis();

fn name(number: usize) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// This owner holds the lock alone.
fn held(owner: &[u8]) -> Holders<'_> {
    Holders::Exclusive(Holder {
        owner: Owner::new(owner).unwrap(),
        grant: Grant {
            token: Token::new(1).unwrap(),
            holds: Holds::ONE,
            lease: Lease::from_millis(1000).unwrap(),
        },
        limit: Limit::ONE,
        end: Deadline::At(LIVE),
    })
}

/// The owners with these numbers share a lock, each until this time.
fn shares(owners: impl Iterator<Item = usize>, end_ms: u64) -> HolderSet {
    let mut shares = None;
    for (token, owner) in (1..).zip(owners) {
        let owner = name(owner);
        let fields = StoredHolder {
            limit: 0,
            end_ms: Some(end_ms),
            token,
            holds: 1,
            lease_ms: 1000,
            owner: &owner,
        };
        HolderSet::add_stored(&mut shares, &fields.try_into().unwrap()).unwrap();
    }
    HolderSet::finish_stored(shares).unwrap()
}

const fn shared(shares: &HolderSet) -> Holders<'_> {
    Holders::Shared(SharedLock {
        set: shares,
        expiry: Deadline::Never,
    })
}

fn wait(calls: &mut Calls, owner: usize, lock: usize) -> CallId {
    wait_with(calls, owner, lock, Limit::ONE)
}

fn wait_with(calls: &mut Calls, owner: usize, lock: usize, limit: Limit) -> CallId {
    let waiter = Waiter {
        limit,
        ..Waiter::of(&name(owner), 0)
    };
    calls.join(0, &name(lock), waiter, ())
}

/// Owner 0 wants lock 1 alone. Each owner holds the lock with its number, unless these share that lock.
fn search(calls: &Calls, several: &[(usize, &HolderSet)]) -> Option<Cycle> {
    search_with(calls, Limit::ONE, several)
}

fn search_with(calls: &Calls, limit: Limit, several: &[(usize, &HolderSet)]) -> Option<Cycle> {
    let (caller, key) = (name(0), name(1));
    let caller = Owner::new(&caller)?;
    let holders = |lock_id: &LockId, step: &mut dyn FnMut(&Holders<'_>)| {
        let mut several = several.iter();
        match several.find(|(lock, _)| *name(*lock) == *lock_id.key) {
            Some((_, shares)) => step(&shared(shares)),
            None => step(&held(&lock_id.key)),
        }
    };
    let mut search = None;
    holders(&LockId::new(0, &key), &mut |holders| {
        search = Search::begin(calls, caller, (0, &key), limit, Some(holders), NOW);
    });
    let mut search = search?;
    let mut cycle = None;
    while cycle.is_none() {
        holders(&search.next_lock(calls)?, &mut |holders| {
            cycle = search.visit(calls, Some(holders), NOW);
        });
    }
    cycle
}

/// So many owners in a cycle, of whom 0 does not wait yet.
fn chain(owners: usize) -> Calls {
    let mut calls = Calls::default();
    for owner in 1..owners {
        wait(&mut calls, owner, (owner + 1) % owners);
    }
    calls
}

#[test]
fn the_second_of_two_waiters_gets_the_deadlock_at_once() {
    let cycle = search(&chain(2), &[]).unwrap();
    let waits = [(0, 1), (1, 0)].map(|(owner, lock)| {
        let owner = name(owner);
        let owner = OwnerBuf::from(Owner::new(&owner).unwrap());
        (owner, LockId::new(0, &name(lock)))
    });
    assert_eq!(cycle.waits(), waits);
    assert_eq!(
        cycle.text().to_str().unwrap(),
        "DEADLOCK waiting would create a deadlock cycle of 2 owners: \
         release something first"
    );
}

#[test]
fn a_call_that_waits_for_owners_that_do_not_wait_is_no_deadlock() {
    assert_eq!(search(&Calls::default(), &[]), None);
    let mut calls = chain(4);
    let last = calls.first(0, &name(0)).unwrap();
    calls.remove(last);
    assert_eq!(search(&calls, &[]), None);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn at_most_a_thousand_holders_are_visited() {
    let cycle = search(&chain(MAX_STEPS), &[]).unwrap();
    assert_eq!(cycle.waits().len(), MAX_STEPS);
    assert_eq!(search(&chain(MAX_STEPS + 1), &[]), None);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn each_holder_that_must_release_the_lock_is_a_step() {
    let mut calls = chain(2);
    for (readers, found) in [(MAX_STEPS, false), (MAX_STEPS - 1, true)] {
        // The owner 1 is the last of those who share the lock 1.
        let shares = shares((2..=readers).chain([1]), LIVE);
        let cycle = search(&calls, &[(1, &shares)]);
        assert_eq!(cycle.is_some(), found, "{readers} readers");
    }
    wait(&mut calls, 1, 7);
    assert_eq!(search(&calls, &[]), None, "it waits for two locks");
}

#[test]
fn a_holder_whose_lease_has_ended_blocks_nobody() {
    let calls = chain(2);
    for (end, found) in [(LIVE, true), (LIVE - 1, false)] {
        let shares = shares([1].into_iter(), end);
        assert_eq!(search(&calls, &[(1, &shares)]).is_some(), found);
    }
}

#[test]
fn a_holder_in_its_own_line_blocks_nobody_because_it_is_about_to_be_judged() {
    // The owner 1 waits for the lock 5, and the owner 2, who shares that, for the caller's.
    let mut calls = Calls::default();
    wait(&mut calls, 1, 5);
    wait(&mut calls, 2, 0);
    for (other, found) in [(4, true), (1, false)] {
        let shares = shares([other, 2].into_iter(), LIVE);
        assert_eq!(search(&calls, &[(5, &shares)]).is_some(), found, "{other}");
    }
    // The caller as a reader, behind the writer 3.
    let mut calls = Calls::default();
    wait(&mut calls, 3, 1);
    wait(&mut calls, 2, 0);
    for (other, found) in [(4, true), (3, false)] {
        let shares = shares([other, 2].into_iter(), LIVE);
        let cycle = search_with(&calls, Limit::NONE, &[(1, &shares)]);
        assert_eq!(cycle.is_some(), found, "{other}");
    }
    // The owner 1 as a reader, behind the writer 3.
    let mut calls = Calls::default();
    wait(&mut calls, 3, 5);
    wait_with(&mut calls, 1, 5, Limit::NONE);
    wait(&mut calls, 2, 0);
    for (other, found) in [(4, true), (3, false)] {
        let shares = shares([other, 2].into_iter(), LIVE);
        assert_eq!(search(&calls, &[(5, &shares)]).is_some(), found, "{other}");
    }
}

#[test]
fn a_lock_is_visited_again_when_more_holders_must_release_it() {
    // Both who share the lock 1 wait for the lock 5: the first for one of two places, the second for all.
    let mut calls = Calls::default();
    wait_with(&mut calls, 1, 5, Limit::new(2).unwrap());
    wait(&mut calls, 2, 5);
    let (first, second) = (
        shares([1, 2].into_iter(), LIVE),
        shares([0, 4].into_iter(), LIVE),
    );
    let cycle = search(&calls, &[(1, &first), (5, &second)]).unwrap();
    let second_owner = &cycle.waits()[1].0;
    assert_eq!(
        (cycle.waits().len(), second_owner.as_owner().bytes()),
        (2, &b"2"[..])
    );
}

#[test]
fn waits_that_change_between_two_steps_are_not_followed() {
    let (caller, key) = (name(0), name(1));
    let caller = Owner::new(&caller).unwrap();
    // (who leaves before the search asks for a lock, who before it gets the holders)
    for (early, late, found) in [
        (None, None, true),
        (Some(1), None, false),
        (None, Some(1), false),
        (None, Some(2), false),
    ] {
        let mut calls = chain(3);
        let call = |calls: &Calls, owner: usize| {
            let lock = name((owner + 1) % 3);
            calls.first(0, &lock).unwrap()
        };
        let first = name(1);
        let first = held(&first);
        let lock = (0, &*key);
        let search = Search::begin(&calls, caller, lock, Limit::ONE, Some(&first), NOW);
        let mut search = search.unwrap();
        if let Some(owner) = early {
            calls.remove(call(&calls, owner));
        }
        let mut cycle = None;
        for lock in [2, 0] {
            let Some(lock_id) = search.next_lock(&calls) else {
                break;
            };
            assert_eq!(*lock_id.key, *name(lock));
            if let Some(owner) = late
                && lock == 0
            {
                calls.remove(call(&calls, owner));
            }
            let owner = name(lock);
            cycle = search.visit(&calls, Some(&held(&owner)), NOW);
        }
        assert_eq!(cycle.is_some(), found, "{early:?} {late:?}");
    }
}

#[test]
fn a_free_lock_ends_the_search() {
    let (calls, caller, key) = (chain(2), name(0), name(1));
    let caller = Owner::new(&caller).unwrap();
    let lock = (0, &*key);
    assert!(Search::begin(&calls, caller, lock, Limit::ONE, None, NOW).is_none());
    let first = name(1);
    let first = held(&first);
    let search = Search::begin(&calls, caller, lock, Limit::ONE, Some(&first), NOW);
    let mut search = search.unwrap();
    assert!(
        search.visit(&calls, Some(&first), NOW).is_none(),
        "no lock was asked for"
    );
    assert!(search.next_lock(&calls).is_some());
    assert_eq!(search.visit(&calls, None, NOW), None);
    assert_eq!(search.next_lock(&calls), None);
}
