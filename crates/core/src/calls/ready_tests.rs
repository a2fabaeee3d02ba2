//! Which locks are looked at, and when.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::Token;

static CLIENTS: AtomicU64 = AtomicU64::new(1);

fn key(number: u8) -> [u8; 1] {
    [number]
}

fn lock_id(number: u8) -> LockId {
    LockId::new(0, &key(number))
}

/// A call waits for each of so many locks, which were looked at.
fn waiting_for(locks: u8) -> (Calls, Vec<CallId>) {
    let mut calls = Calls::default();
    let ids = (1..=locks).map(|number| join(&mut calls, number)).collect();
    assert_eq!(ready(&mut calls), (1..=locks).collect::<Vec<_>>());
    (calls, ids)
}

fn join(calls: &mut Calls, number: u8) -> CallId {
    let waiter = Waiter::of(b"ann", CLIENTS.fetch_add(1, Ordering::Relaxed));
    calls.join(0, &key(number), waiter, ())
}

/// Takes the ready locks.
fn ready(calls: &mut Calls) -> Vec<u8> {
    let entries = calls.ready_len();
    let taken = (0..entries).filter_map(|_| calls.take_ready());
    let numbers = taken.map(|lock_id| lock_id.key[0]).collect();
    calls.check();
    numbers
}

fn ended(calls: &mut Calls, now_ms: u64) -> Vec<u8> {
    calls.make_ended_ready(now_ms, usize::MAX);
    ready(calls)
}

#[test]
fn a_lock_is_ready_once_in_the_order_of_events_until_it_is_opened() {
    let (mut calls, ids) = waiting_for(4);
    for number in [3, 1, 3, 4, 2] {
        assert!(calls.make_ready(0, &key(number)));
    }
    assert!(!calls.make_ready(0, &key(9)), "nobody waits");
    calls.clear_ready(0, &key(1));
    calls.remove(ids[3]);
    calls.check();
    assert_eq!(ready(&mut calls), [3, 2]);
    calls.clear_ready(0, &key(2));
    assert!(calls.make_ready(0, &key(2)));
    assert_eq!(ready(&mut calls), [2]);
    assert!(calls.make_all_ready());
    assert_eq!(ready(&mut calls), [1, 2, 3]);
}

#[test]
fn all_locks_are_ready_once_each_while_calls_join_and_leave_and_locks_have_turns() {
    let (mut calls, ids) = waiting_for(4);
    assert!(calls.make_ready(0, &key(3)));
    assert!(calls.make_all_ready());
    assert_eq!(calls.ready_len(), 5);
    assert_eq!(calls.take_ready(), Some(lock_id(3)), "it was ready before");
    assert_eq!(calls.take_ready(), Some(lock_id(1)));
    assert_eq!(calls.next_turn(), Some(lock_id(2)), "its turn");
    calls.remove(ids[2]);
    join(&mut calls, 5);
    let rest = ready(&mut calls);
    assert!(rest.contains(&4) && rest.contains(&5), "{rest:?}");
    assert_eq!(ready(&mut calls), []);
    // Once more from the start, and until nobody waits.
    assert!(calls.make_all_ready());
    calls.take_ready();
    assert!(calls.make_all_ready());
    assert_eq!(calls.ready_len(), 4);
    let waiting: Vec<_> = [1, 2, 4, 5]
        .map(|number| calls.first(0, &key(number)).unwrap())
        .into();
    for id in waiting {
        calls.remove(id);
    }
    assert_eq!((calls.ready_len(), calls.entries()), (0, 0));
    assert!(!calls.make_all_ready(), "nobody waits");
}

#[test]
fn all_locks_are_ready_even_those_added_in_this_round() {
    let (mut calls, _) = waiting_for(3);
    assert_eq!(calls.next_turn(), Some(lock_id(1)));
    join(&mut calls, 4);
    ready(&mut calls);
    assert!(calls.make_all_ready());
    assert_eq!(ready(&mut calls), [2, 3, 4, 1]);
}

#[test]
fn a_lock_is_ready_when_its_first_call_leaves_and_others_wait() {
    let (mut calls, ids) = waiting_for(1);
    let second = join(&mut calls, 1);
    let third = join(&mut calls, 1);
    calls.set_lease_end(0, &key(1), Deadline::Never);
    assert_eq!(ready(&mut calls), [1], "nobody had looked");
    join(&mut calls, 1);
    assert_eq!(ready(&mut calls), [], "the end of the lease is known");
    calls.remove(second);
    assert_eq!(ready(&mut calls), []);
    calls.remove(ids[0]);
    assert_eq!(ready(&mut calls), [1]);
    calls.remove(third);
    assert_eq!(ready(&mut calls), [1]);
}

#[test]
fn a_lock_with_give_backs_is_ready_until_they_are_taken() {
    let (mut calls, ids) = waiting_for(2);
    let taken = Taken {
        token: Token::new(1).unwrap(),
        took_hold: true,
        holds: crate::Holds::ONE,
        deadline: Deadline::Never,
    };
    let is_ready = |calls: &mut Calls| {
        calls.clear_ready(0, &key(1));
        calls.check();
        ready(calls)
    };
    calls.grant(ids[0], taken, true).unwrap();
    assert_eq!(is_ready(&mut calls), []);
    assert!(calls.abandon(ids[0]));
    calls.clear_ready(0, &key(1));
    calls.check();
    assert_eq!((calls.ready_len(), calls.gives_back(0, &key(1))), (1, true));
    assert_eq!(calls.take_give_backs(1, &key(1)), [], "another database");
    assert_eq!(calls.take_give_backs(0, &key(2)), [], "another key");
    assert_eq!(calls.take_give_backs(0, &key(1)).len(), 1);
    assert_eq!(calls.take_give_backs(0, &key(1)), []);
    calls.check();
    assert_eq!(ready(&mut calls), [], "nothing is left of it");
}

#[test]
fn give_backs_are_taken_in_order() {
    let mut calls = Calls::default();
    let ids = [1, 1, 1].map(|number| join(&mut calls, number));
    for (number, id) in (1..).zip(ids) {
        let taken = Taken {
            token: Token::new(number).unwrap(),
            took_hold: true,
            holds: crate::Holds::ONE,
            deadline: Deadline::Never,
        };
        calls.grant(id, taken, true).unwrap();
    }
    for id in [ids[1], ids[2], ids[0]] {
        assert!(calls.abandon(id));
    }
    let tokens = calls.take_give_backs(0, &key(1));
    let tokens = tokens.iter().map(|given| given.token().number());
    assert_eq!(tokens.collect::<Vec<_>>(), [2, 3, 1]);
    assert_eq!(calls.entries(), 0);
}

#[test]
fn an_ended_lease_is_taken_once() {
    let (mut calls, _) = waiting_for(3);
    calls.set_lease_end(0, &key(1), Deadline::At(10));
    calls.set_lease_end(0, &key(2), Deadline::At(20));
    calls.set_lease_end(0, &key(3), Deadline::Never);
    assert_eq!(calls.next_lease_end(), Some(10));
    let early = ended(&mut calls, 10);
    assert_eq!(early, [], "a key expires after its deadline, not at it");
    assert_eq!(ended(&mut calls, 11), [1]);
    assert_eq!(ended(&mut calls, 11), []);
    assert_eq!(calls.next_lease_end(), Some(20));
}

#[test]
fn a_lease_whose_end_moved_has_one_end() {
    let (mut calls, ids) = waiting_for(1);
    for end in [10, 30, 20] {
        calls.set_lease_end(0, &key(1), Deadline::At(end));
        calls.check();
    }
    assert_eq!(ended(&mut calls, 20), []);
    assert_eq!(ended(&mut calls, 100), [1]);
    calls.set_lease_end(0, &key(1), Deadline::At(200));
    assert_eq!(calls.next_lease_end(), Some(200));
    calls.remove(ids[0]);
    assert_eq!(calls.next_lease_end(), None);
    assert_eq!(calls.entries(), 0);
    calls.set_lease_end(0, &key(1), Deadline::At(200));
    assert_eq!(calls.entries(), 0, "nobody waits");
}

#[test]
fn a_shortened_lease_ends_sooner_and_an_extended_one_keeps_its_recorded_end() {
    let (mut calls, _) = waiting_for(1);
    let [one, none] = [1, 2].map(key);
    assert!(!calls.cut_lease_end(0, &none, Deadline::At(10)));
    assert!(!calls.cut_lease_end(0, &one, Deadline::At(10)), "not known");
    calls.set_lease_end(0, &one, Deadline::Never);
    for (end, is_sooner, next) in [
        (30, true, 30),
        (20, true, 20),
        (20, false, 20),
        (40, false, 20),
    ] {
        assert_eq!(calls.cut_lease_end(0, &one, Deadline::At(end)), is_sooner);
        assert_eq!(calls.next_lease_end(), Some(next));
    }
    assert!(!calls.cut_lease_end(0, &one, Deadline::Never));
    assert_eq!(ended(&mut calls, 21), [1]);
    assert_eq!(calls.locks(), 1);
}

#[test]
fn every_lock_with_waiting_calls_has_its_turn() {
    let (mut calls, ids) = waiting_for(3);
    let turns = |calls: &mut Calls, count| -> Vec<LockId> {
        let locks = (0..count).filter_map(|_| calls.next_turn()).collect();
        calls.check();
        locks
    };
    assert_eq!(turns(&mut calls, 2), [lock_id(1), lock_id(2)]);
    calls.remove(ids[0]);
    assert_eq!(turns(&mut calls, 2), [lock_id(3), lock_id(2)]);
    join(&mut calls, 1);
    let new_is_last = [lock_id(3), lock_id(2), lock_id(3), lock_id(1)];
    assert_eq!(turns(&mut calls, 4), new_is_last);
    assert_eq!(calls.locks(), 3);
}

#[test]
fn new_lines_do_not_delay_the_turns_of_others() {
    let (mut calls, _) = waiting_for(3);
    let turns: Vec<_> = (4..=12)
        .map(|number| {
            join(&mut calls, number);
            calls.next_turn()
        })
        .collect();
    let first_round = [1, 2, 3, 4].map(|number| Some(lock_id(number)));
    assert_eq!(turns[..4], first_round);
    assert_eq!(turns[4..8], first_round);
}

#[test]
fn ended_leases_are_processed_in_parts() {
    let (mut calls, _) = waiting_for(5);
    while calls.take_ready().is_some() {}
    for number in 1..=5 {
        calls.set_lease_end(0, &key(number), Deadline::At(10));
    }
    calls.make_ended_ready(11, 2);
    assert_eq!((calls.ready_len(), calls.next_lease_end()), (2, Some(10)));
    calls.make_ended_ready(11, 9);
    assert_eq!((calls.ready_len(), calls.next_lease_end()), (5, None));
    calls.check();
}
