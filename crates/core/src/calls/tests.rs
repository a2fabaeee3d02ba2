//! The table of calls by itself. What becomes of calls is in the model of the queue (`properties`).

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::{Holds, Token, UnixTime};

const KEY: &[u8] = b"lock";

/// A call of `ann` from a client joins a line.
fn join(calls: &mut Calls, key: &[u8], client: u64) -> CallId {
    calls.join(0, key, Waiter::of(b"ann", client), ())
}

fn grant(calls: &mut Calls, id: CallId, number: u64, end: u64) -> bool {
    let taken = Taken {
        token: Token::new(number).unwrap(),
        took_hold: true,
        holds: Holds::ONE,
        deadline: Deadline::At(end),
    };
    calls.grant(id, taken, true).is_some()
}

#[test]
fn a_call_leaves_once_with_what_it_asked_for() {
    let mut calls = Calls::default();
    let waiter = Waiter::of(b"ann", 1);
    let id = calls.join(3, KEY, waiter.clone(), ());
    let lock_id = LockId::new(3, KEY);
    let are_of =
        [(3, KEY), (0, KEY), (3, b"other")].map(|(database, key)| lock_id.is(database, key));
    assert_eq!(are_of, [true, false, false]);
    let call = calls.get(id).unwrap();
    assert_eq!(
        (&call.lock_id, &call.waiter, call.is_waiting()),
        (&lock_id, &waiter, true)
    );
    let call = calls.remove(id).unwrap();
    assert_eq!((call.lock_id, call.waiter), (lock_id, waiter.clone()));
    assert!(calls.remove(id).is_none());
    assert!(calls.get(id).is_none());
    assert_ne!(calls.join(3, KEY, waiter, ()), id, "a new call");
}

#[test]
fn a_granted_call_is_answered_or_abandoned_once() {
    let mut calls = Calls::default();
    let [first, second] = [1, 2].map(|client| join(&mut calls, KEY, client));
    assert!(!calls.abandon(second), "it waits");
    assert!(grant(&mut calls, first, 1, 1000));
    assert!(!grant(&mut calls, first, 1, 1000), "it waits no more");
    calls.reply_written(1);
    calls.replies_sent(|| UnixTime::from_micros(0));
    assert!(!calls.abandon(first));
    assert!(grant(&mut calls, second, 2, 1000));
    assert_eq!(calls.blocked().collect::<Vec<_>>(), [second]);
    assert_eq!(
        [1, 2].map(|client| calls.blocked_by(client)),
        [None, Some(second)]
    );
    assert!(calls.abandon(second));
    assert!(!calls.abandon(second));
    assert_eq!((calls.blocked().count(), calls.blocked_by(2)), (0, None));
    calls.check();
}

#[test]
fn a_reply_is_sent_when_the_next_one_is_written_to_its_client() {
    let mut calls = Calls::default();
    let first = join(&mut calls, KEY, 1);
    assert!(grant(&mut calls, first, 1, 1000));
    calls.reply_written(1);
    let second = join(&mut calls, b"other", 1);
    assert!(grant(&mut calls, second, 2, 1000));
    calls.reply_written(1);
    calls.check();
    assert!(
        calls.get(first).is_none(),
        "what was written before is read"
    );
    assert!(!calls.client_closed(1), "it gives back");
    assert!(calls.gives_back(0, b"other") && !calls.gives_back(0, KEY));
}

#[test]
fn a_sent_reply_is_forgotten_with_the_next_call_and_among_many_with_the_end_of_the_lease() {
    let mut calls = Calls::default();
    let at = |millis: u64| move || UnixTime::from_micros(millis * 1000);
    let first = join(&mut calls, KEY, 1);
    assert!(grant(&mut calls, first, 1, 1000));
    calls.reply_written(1);
    calls.forget_sent(1);
    assert!(calls.get(first).is_some(), "it is only written");
    calls.replies_sent(at(0));
    assert!(calls.has_sent());
    calls.forget_sent(1);
    assert_eq!((calls.has_sent(), calls.entries()), (false, 0));

    let many = granted::MAX_SENT as u64;
    for client in 0..=many {
        let id = join(&mut calls, &client.to_be_bytes(), client);
        assert!(grant(&mut calls, id, client + 1, 1000 + client));
        calls.reply_written(client);
    }
    let kept = |calls: &mut Calls| [9, 10, many].map(|client| calls.client_closed(client));
    let expected = [false, true, true];
    calls.replies_sent(at(1010));
    calls.check();
    assert_eq!(kept(&mut calls), expected);
    calls.replies_sent(at(5000));
    assert_eq!(kept(&mut calls), expected, "few are kept");
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_tables_shrink_when_most_calls_have_left() {
    let mut calls = Calls::default();
    let stays = join(&mut calls, KEY, 0);
    let ids: Vec<_> = (1..=10_000_u32)
        .flat_map(|number| {
            let owner = Waiter::of(&number.to_be_bytes(), 2 * u64::from(number));
            let same_key = calls.join(0, KEY, owner, ());
            let own_key = join(&mut calls, &number.to_be_bytes(), 2 * u64::from(number) + 1);
            let queued = Waiter {
                client_id: None,
                session: SessionId::new(1),
                ..Waiter::of(&number.to_be_bytes(), 0)
            };
            let queued = calls.join(0, &(1 << 20 | number).to_be_bytes(), queued, ());
            calls.pass_call_over(queued, number % 2 == 0);
            [same_key, own_key, queued]
        })
        .collect();
    for id in ids {
        calls.remove(id);
    }
    let capacities = [
        calls.table.capacity(),
        calls.lines.capacity(),
        calls.owners.capacity(),
        calls.clients.capacity(),
    ];
    // Each is a map of three parts: the one with the entry may keep room for 14, an empty one for 3.
    assert!(
        capacities.iter().all(|capacity| *capacity <= 14 + 2 * 3),
        "{capacities:?}"
    );
    calls.remove(stays);
    assert_eq!(calls.entries(), 0);
}

#[test]
fn the_waits_of_a_database_are_listed_by_key() {
    let mut calls = Calls::default();
    let mut join = |database, key, since| {
        let waiter = Waiter {
            since: Monotonic(since),
            ..Waiter::of(b"ann", since)
        };
        calls.join(database, key, waiter, ())
    };
    let first = join(0, KEY, 1_000_000);
    join(0, KEY, 3_000_000);
    join(0, KEY, 3_500_000);
    join(1, b"other", 0);
    let waits = |calls: &Calls, database| {
        let waits = calls.waits(database);
        let plain = waits.map(|(key, waits)| {
            let QueueWaits {
                count,
                since_sum,
                first_since,
            } = waits;
            (Arc::clone(key), count, since_sum, first_since.0)
        });
        plain.collect::<Vec<_>>()
    };
    let here = Arc::from(KEY);
    assert_eq!(calls.max_waiting(), 3);
    assert_eq!(
        waits(&calls, 0),
        [(Arc::clone(&here), 3, 7_500_000, 1_000_000)]
    );
    calls.remove(first);
    assert_eq!(waits(&calls, 0), [(here, 2, 6_500_000, 3_000_000)]);
    assert!(waits(&calls, 2).is_empty());
    assert_eq!(<Calls>::default().max_waiting(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn thousands_keep_their_order(
        joins in vec((0..3_u8, 0..40_u8, 0..50_u64), 2000..4000),
        leaves in vec((0..4_u8, any::<Index>()), 3000),
    ) {
        let mut calls = Calls::default();
        let mut list: Vec<(CallId, u8, u8, u64)> = Vec::new();
        for (key, owner, until) in joins {
            let waiter = Waiter {
                until: Some(Monotonic(until)),
                ..Waiter::of(&[owner], list.len() as u64)
            };
            list.push((calls.join(0, &[key], waiter, ()), key, owner, until));
        }
        for (way, index) in leaves {
            if list.is_empty() {
                break;
            }
            let (any, key, owner, _) = *index.get(&list);
            let here = list.iter().filter(|call| call.1 == key);
            let own = here.clone().find(|call| call.2 == owner);
            let next_end = list.iter().min_by_key(|call| (call.3, call.0)).unwrap();
            prop_assert_eq!(calls.waiting(0, &[key]), here.clone().count());
            let (id, expected) = match way {
                0 => (Some(any), Some(any)),
                1 => (calls.first(0, &[key]), here.clone().next().map(|call| call.0)),
                2 => (calls.first_of(0, &[key], &[owner]), own.map(|call| call.0)),
                _ => (calls.next_wait_end().map(|(_, id)| id), Some(next_end.0)),
            };
            prop_assert_eq!(id, expected);
            calls.remove(id.unwrap());
            list.retain(|call| Some(call.0) != id);
        }
        calls.check();
        for key in 0..3 {
            let key = [key];
            let line = calls.iter(0, &key).map(|(id, _)| id);
            let expected = list.iter().filter(|call| call.1 == key[0]).map(|call| call.0);
            prop_assert!(line.eq(expected));
        }
        for call in list {
            calls.remove(call.0);
        }
        prop_assert_eq!(calls.entries(), 0);
    }
}

/// The end of the lease tells whether somebody else changed the grant. The server's renewals do not.
#[test]
fn a_grant_that_the_server_renewed_counts_as_unchanged() {
    let mut calls = Calls::default();
    let at = |millis| (Deadline::At(millis), Deadline::At(millis + 500));
    let token = |number| Token::new(number).unwrap();
    let id = join(&mut calls, KEY, 1);
    assert!(grant(&mut calls, id, 1, 1000));
    let renew = |calls: &mut Calls, key: &[u8], number, ends| {
        calls.renewed((0, key), token(number), ends);
        calls.check();
    };
    renew(&mut calls, KEY, 1, at(1000));
    calls.reply_written(1);
    renew(&mut calls, KEY, 1, at(1500));
    calls.replies_sent(|| UnixTime::from_micros(0));
    renew(&mut calls, KEY, 1, at(2000));
    assert!(calls.client_closed(1));
    calls.reply_is_unsent(1);
    renew(&mut calls, KEY, 1, at(2500));
    // Another grant, and one that somebody else has changed.
    for (key, number, end) in [(&b"other"[..], 1, 3000), (KEY, 2, 3000), (KEY, 1, 3001)] {
        renew(&mut calls, key, number, at(end));
    }
    let give_backs = calls.take_give_backs(0, KEY);
    let ends = give_backs.iter().map(|give_back| give_back.taken.deadline);
    assert_eq!(ends.collect::<Vec<_>>(), [Deadline::At(3000)]);
}
