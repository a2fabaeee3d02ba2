//! Queued calls, and those that are passed over, in the table by itself.

use super::*;
use crate::{Grant, Holder, HolderSet, Holders, Lease, Owner, SharedLock, Token, next_in_line};

const KEY: &[u8] = b"lock";

fn session(number: u64) -> SessionId {
    SessionId::new(number).unwrap()
}

/// A queued call of a session joins a line.
fn queue(calls: &mut Calls, key: &[u8], owner: &[u8], number: u64, holds: u32) -> CallId {
    let waiter = Waiter {
        session: Some(session(number)),
        holds: Holds::new(holds),
        client_id: None,
        ..Waiter::of(owner, 0)
    };
    calls.join(0, key, waiter, ())
}

/// A blocked call with a session joins a line.
fn block(calls: &mut Calls, key: &[u8], owner: &[u8], number: u64, limit: Limit) -> CallId {
    let waiter = Waiter {
        session: Some(session(number)),
        limit,
        ..Waiter::of(owner, 100 + calls.len() as u64)
    };
    calls.join(0, key, waiter, ())
}

/// All calls of a session are passed over or no longer, and the table is right.
fn pass_over(calls: &mut Calls, number: u64, is_passed_over: bool) {
    let left = calls.pass_over(session(number), is_passed_over, None, usize::MAX);
    assert_eq!(left, None);
    calls.check();
}

/// Takes the ready locks.
fn ready(calls: &mut Calls) -> Vec<u8> {
    let entries = calls.ready_len();
    let taken = (0..entries).filter_map(|_| calls.take_ready());
    let keys = taken.map(|lock_id| lock_id.key[0]).collect();
    calls.check();
    keys
}

#[test]
fn the_place_of_a_call_is_no_less_than_the_calls_before_it() {
    let mut calls = Calls::default();
    let ids = [1, 2, 3, 4].map(|holds| queue(&mut calls, KEY, b"ann", 1, holds));
    let places = |calls: &Calls| ids.map(|id| calls.place(id));
    assert_eq!(places(&calls), [Some(0), Some(1), Some(2), Some(3)]);
    pass_over(&mut calls, 1, true);
    assert_eq!(places(&calls), [Some(0), Some(1), Some(2), Some(3)]);
    calls.remove(ids[3]);
    assert_eq!(places(&calls), [Some(0), Some(1), Some(2), None]);
    calls.remove(ids[0]);
    assert_eq!(places(&calls), [None, Some(1), Some(1), None]);
    let newest = queue(&mut calls, KEY, b"ann", 1, 1);
    assert_eq!(calls.place(newest), Some(2));
    calls.grant_queued(ids[1], Token::new(1).unwrap()).unwrap();
    assert_eq!(calls.place(newest), Some(1));
    let other = queue(&mut calls, b"other", b"ann", 1, 1);
    assert_eq!(calls.place(other), Some(0));
}

#[test]
fn a_call_is_repeated_by_its_lock_owner_session_and_holds() {
    let mut calls = Calls::default();
    let [first, second] = [1, 2].map(|holds| queue(&mut calls, KEY, b"ann", 1, holds));
    let other = queue(&mut calls, KEY, b"ann", 2, 1);
    block(&mut calls, KEY, b"bob", 1, Limit::ONE);
    let find = |calls: &Calls, database, key: &[u8], owner: &[u8], number, holds| {
        let call = (session(number), Holds::new(holds).unwrap());
        calls.repeated(database, key, owner, call)
    };
    for is_passed_over in [false, true] {
        pass_over(&mut calls, 1, is_passed_over);
        let found = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
            .map(|(number, holds)| find(&calls, 0, KEY, b"ann", number, holds));
        assert_eq!(found, [Some(first), Some(second), None, Some(other), None]);
        assert_eq!(find(&calls, 0, KEY, b"bob", 1, 1), None, "no queued call");
        assert_eq!(find(&calls, 1, KEY, b"ann", 1, 1), None);
        assert_eq!(find(&calls, 0, b"other", b"ann", 1, 1), None);
    }
    calls.remove(first);
    assert_eq!(find(&calls, 0, KEY, b"ann", 1, 1), None);
}

#[test]
fn a_session_is_passed_over_in_parts_while_other_calls_join_and_leave() {
    let mut calls = Calls::default();
    let keys = [b"1", b"2", b"3"];
    let ids: Vec<_> = keys.map(|key| queue(&mut calls, key, b"ann", 1, 1)).into();
    let other = queue(&mut calls, b"1", b"bob", 2, 1);
    let is_passed_over = |calls: &Calls, id| calls.get(id).map(Call::is_passed_over);
    assert!(calls.pass_over(session(1), true, None, 0).is_some());
    let next = calls.pass_over(session(1), true, None, 1);
    let both = [0, 1].map(|index| is_passed_over(&calls, ids[index]));
    assert_eq!(both, [Some(true), Some(false)]);
    calls.check();
    // The call to go on with has left, and another has joined.
    calls.remove(ids[1]);
    let joined = queue(&mut calls, b"2", b"ann", 1, 1);
    assert_eq!(is_passed_over(&calls, joined), Some(false));
    assert_eq!(calls.pass_over(session(1), true, next, 2), None);
    calls.check();
    let all = [ids[0], ids[1], ids[2], joined, other].map(|id| is_passed_over(&calls, id));
    assert_eq!(all, [Some(true), None, Some(true), Some(true), Some(false)]);
    assert_eq!(calls.first(0, b"1"), Some(ids[0]));
    assert_eq!(calls.first_eligible(0, b"1"), Some(other));
    // The same once more changes nothing.
    ready(&mut calls);
    pass_over(&mut calls, 1, true);
    assert_eq!(ready(&mut calls), []);
    pass_over(&mut calls, 3, true);
}

#[test]
fn a_lock_is_ready_when_its_first_eligible_call_changes() {
    let mut calls = Calls::default();
    for (key, numbers) in [(b"1", [1, 2]), (b"2", [2, 1]), (b"3", [1, 1])] {
        for (owner, number) in [b"ann", b"bob"].into_iter().zip(numbers) {
            block(&mut calls, key, owner, number, Limit::ONE);
        }
        calls.set_lease_end(0, key, Deadline::Never);
    }
    assert_eq!(ready(&mut calls), *b"123", "nobody had looked");
    pass_over(&mut calls, 1, true);
    assert_eq!(ready(&mut calls), *b"13");
    pass_over(&mut calls, 1, false);
    // Behind another call too: its owner may hold the lock.
    assert_eq!(ready(&mut calls), *b"123");
    pass_over(&mut calls, 1, true);
    ready(&mut calls);
    let first = calls.first(0, b"1").unwrap();
    calls.remove(first);
    assert_eq!(ready(&mut calls), [], "it was in nobody's way");
    let first = calls.first_eligible(0, b"2").unwrap();
    calls.remove(first);
    assert_eq!(ready(&mut calls), *b"2");
}

#[test]
fn an_owner_may_have_calls_of_both_kinds_in_several_lines() {
    let mut calls = Calls::default();
    let away = block(&mut calls, b"1", b"ann", 1, Limit::NONE);
    let here = block(&mut calls, b"1", b"ann", 2, Limit::ONE);
    let other = block(&mut calls, b"1", b"bob", 2, Limit::ONE);
    let elsewhere = block(&mut calls, b"2", b"ann", 1, Limit::ONE);
    let found = |calls: &Calls| {
        let first_of = calls.first_of(0, b"1", b"ann");
        let eligible = calls.first_eligible_of(0, b"1", b"ann");
        (first_of, eligible, calls.first_exclusive(0, b"1", None))
    };
    // Of an owner's calls in a line only the first stands in others' way, passed over or not.
    assert_eq!(found(&calls), (Some(away), Some(away), Some(other)));
    pass_over(&mut calls, 1, true);
    assert_eq!(found(&calls), (Some(away), Some(here), Some(other)));
    assert_eq!(calls.first_eligible_of(0, b"2", b"ann"), None);
    assert_eq!(calls.first_exclusive(0, b"2", None), Some(elsewhere));
    assert_eq!(calls.waits_of(b"ann"), OwnerWaits::Several);
    pass_over(&mut calls, 2, true);
    assert_eq!(found(&calls), (Some(away), None, Some(other)));
    pass_over(&mut calls, 1, false);
    assert_eq!(found(&calls), (Some(away), Some(away), Some(other)));
    calls.remove(away);
    assert_eq!(found(&calls), (Some(here), None, Some(here)));
    calls.remove(elsewhere);
    let only = calls.waits_of(b"ann");
    assert!(matches!(only, OwnerWaits::One(_, id) if id == here));
    calls.remove(here);
    assert_eq!(calls.waits_of(b"ann"), OwnerWaits::None);
    calls.check();
}

#[test]
fn every_call_of_a_session_is_found_and_leaves_nothing_behind() {
    let mut calls = Calls::default();
    let ids: Vec<_> = (0..20_u8)
        .map(|number| match number % 3 {
            0 => block(&mut calls, &[number % 4], &[number], 1, Limit::NONE),
            rest => queue(
                &mut calls,
                &[number % 4],
                &[number % 5],
                rest.into(),
                number.into(),
            ),
        })
        .collect();
    pass_over(&mut calls, 1, true);
    let mut of_session: Vec<_> = calls.of_session(session(1)).collect();
    of_session.sort_unstable();
    let waits = [(1, 1), (1, 2), (2, 1), (3, 1)]
        .map(|(number, key)| calls.session_waits(session(number), 0, &[key]));
    assert_eq!(waits, [true, true, true, false]);
    let is_of = |id: &CallId| calls.get(*id).unwrap().waiter.session == Some(session(1));
    assert_eq!(
        of_session,
        ids.iter().copied().filter(is_of).collect::<Vec<_>>()
    );
    assert_eq!(calls.queued(), 13);
    let counts = [1, 2, 3].map(|number| calls.waiting_of_session(session(number)));
    assert_eq!(counts, [14, 6, 0]);
    assert_eq!(
        calls.sessions().collect::<Vec<_>>(),
        [session(1), session(2)]
    );
    for id in ids {
        calls.remove(id).unwrap();
        calls.check();
    }
    assert_eq!((calls.queued(), calls.entries()), (0, 0));
    assert_eq!(calls.sessions().next(), None);
    assert_eq!(calls.waiting_of_session(session(1)), 0);
}

/// A newcomer that took the lock past them has another lease than the one that was waited for before.
#[test]
fn a_lock_is_ready_when_a_call_joins_a_line_in_which_all_are_passed_over() {
    let mut calls = Calls::default();
    queue(&mut calls, KEY, b"ann", 1, 1);
    calls.set_lease_end(0, KEY, Deadline::At(60_000));
    pass_over(&mut calls, 1, true);
    ready(&mut calls);
    queue(&mut calls, KEY, b"bob", 2, 1);
    assert_eq!(ready(&mut calls), KEY[..1]);
    queue(&mut calls, KEY, b"cat", 2, 1);
    assert_eq!(ready(&mut calls), [], "the end of the lease is known");
}

/// A holder has a call behind one that has no room, which was not judged with its grant.
#[test]
fn the_calls_of_an_owner_are_judged_after_an_interrupted_service() {
    let holder = Holder {
        owner: Owner::new(b"ann").unwrap(),
        grant: Grant {
            token: Token::new(1).unwrap(),
            holds: Holds::ONE,
            lease: Lease::from_millis(60_000).unwrap(),
        },
        limit: Limit::NONE,
        end: Deadline::Never,
    };
    let set = HolderSet::one(&holder);
    let holders = Holders::Shared(SharedLock {
        set: &set,
        expiry: Deadline::Never,
    });
    let mut calls = Calls::default();
    block(&mut calls, KEY, b"bob", 1, Limit::ONE);
    let own = block(&mut calls, KEY, b"ann", 1, Limit::NONE);
    let next = |calls: &mut Calls| next_in_line(calls, (0, KEY), Some(&holders), None, 100);
    assert_eq!(next(&mut calls), None);
    calls.judge_later(0, KEY, b"ann");
    calls.judge_later(0, KEY, b"cat");
    calls.check();
    assert_eq!(next(&mut calls), Some(own));
    // As long as it is in line, and its owner holds the lock.
    assert_eq!(next(&mut calls), Some(own));
    assert_eq!(
        next_in_line(&mut calls, (0, KEY), None, None, 100),
        calls.first(0, KEY)
    );
    assert_eq!(next(&mut calls), None);
    calls.judge_later(0, KEY, b"ann");
    calls.remove(own);
    calls.check();
    assert_eq!(next(&mut calls), None);
}
