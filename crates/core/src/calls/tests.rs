//! Scenarios in which calls join a line and leave it from any place.
//!
//! A call is named by its owner and its number in the order of joining: `ann1 bob2 ann3`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::{Owner, OwnerBuf};

const KEY: &[u8] = b"lock";

static CLIENTS: AtomicU64 = AtomicU64::new(1);

/// A call of another client each time.
fn call(owner: &str, until: Option<u64>) -> Waiter {
    Waiter {
        owner: OwnerBuf::from(Owner::new(owner.as_bytes()).unwrap()),
        lease: None,
        holds: None,
        limit: Limit::ONE,
        keep: None,
        session: None,
        names_limit: false,
        client_id: CLIENTS.fetch_add(1, Ordering::Relaxed),
        since: Monotonic(0),
        until: until.map(Monotonic),
    }
}

/// One line, and the names of its calls.
struct Scenario {
    calls: Calls,
    names: Vec<(CallId, String)>,
}

impl Scenario {
    /// A line that these owners join in this order.
    fn of(owners: &str) -> Self {
        let mut scenario = Self {
            calls: Calls::default(),
            names: Vec::new(),
        };
        for owner in owners.split_whitespace() {
            scenario.join(owner, None);
        }
        scenario
    }

    fn join(&mut self, owner: &str, until: Option<u64>) {
        let id = self.calls.join(0, KEY, call(owner, until), ());
        let name = format!("{owner}{}", self.names.len() + 1);
        self.names.push((id, name));
        self.calls.check();
    }

    fn leave(&mut self, names: &str) {
        for name in names.split_whitespace() {
            let (id, _) = self.names.iter().find(|(_, known)| known == name).unwrap();
            assert!(self.calls.remove(*id).is_some(), "{name} waits");
            self.calls.check();
        }
    }

    fn name(&self, id: Option<CallId>) -> &str {
        id.map_or("-", |id| {
            let (_, name) = self.names.iter().find(|(known, _)| *known == id).unwrap();
            name
        })
    }

    /// The calls in the order of the line.
    fn line(&self) -> String {
        let names: Vec<_> = self
            .calls
            .iter(0, KEY)
            .map(|(id, _)| self.name(Some(id)))
            .collect();
        names.join(" ")
    }

    fn first(&self) -> &str {
        self.name(self.calls.first(0, KEY))
    }

    fn first_of(&self, owner: &str) -> &str {
        self.name(self.calls.first_of(0, KEY, owner.as_bytes()))
    }
}

#[rustfmt::skip]
#[test]
fn leaving_from_any_place_keeps_the_order() {
    // (who joins, who leaves, the line, the first, the first of ann, the first of bob)
    let table = [
        ("ann",             "",               "ann1",           "ann1", "ann1", "-"),
        ("ann",             "ann1",           "",               "-",    "-",    "-"),
        ("ann bob cid",     "",               "ann1 bob2 cid3", "ann1", "ann1", "bob2"),
        ("ann bob cid",     "ann1",           "bob2 cid3",      "bob2", "-",    "bob2"),
        ("ann bob cid",     "bob2",           "ann1 cid3",      "ann1", "ann1", "-"),
        ("ann bob cid",     "cid3",           "ann1 bob2",      "ann1", "ann1", "bob2"),
        ("ann bob cid",     "bob2 ann1",      "cid3",           "cid3", "-",    "-"),
        ("ann bob cid",     "bob2 cid3",      "ann1",           "ann1", "ann1", "-"),
        ("ann bob cid",     "cid3 ann1 bob2", "",               "-",    "-",    "-"),
        ("ann bob ann bob", "ann1",           "bob2 ann3 bob4", "bob2", "ann3", "bob2"),
        ("ann bob ann bob", "bob2",           "ann1 ann3 bob4", "ann1", "ann1", "bob4"),
        ("ann bob ann bob", "ann3",           "ann1 bob2 bob4", "ann1", "ann1", "bob2"),
        ("ann bob ann bob", "ann1 bob2",      "ann3 bob4",      "ann3", "ann3", "bob4"),
        ("ann bob ann bob", "ann3 ann1",      "bob2 bob4",      "bob2", "-",    "bob2"),
        ("ann ann ann",     "ann2",           "ann1 ann3",      "ann1", "ann1", "-"),
        ("ann ann ann",     "ann2 ann1",      "ann3",           "ann3", "ann3", "-"),
        ("ann ann ann",     "ann3 ann2",      "ann1",           "ann1", "ann1", "-"),
    ];
    for (joins, leaves, queue, first, anns, bobs) in table {
        let mut scenario = Scenario::of(joins);
        scenario.leave(leaves);
        let actual = (scenario.line(), scenario.first(), scenario.first_of("ann"), scenario.first_of("bob"));
        assert_eq!(actual, (queue.to_owned(), first, anns, bobs), "{joins}, without {leaves}");
        assert_eq!(scenario.calls.waiting(0, KEY), queue.split_whitespace().count());
    }
}

#[test]
fn an_owner_that_joins_again_is_last() {
    let mut scenario = Scenario::of("ann bob cid");
    scenario.leave("ann1 cid3");
    scenario.join("ann", None);
    assert_eq!(scenario.line(), "bob2 ann4");
    scenario.leave("bob2 ann4");
    scenario.join("bob", None);
    assert_eq!(
        (scenario.line().as_str(), scenario.first()),
        ("bob5", "bob5")
    );
}

#[test]
fn a_call_leaves_once_with_what_it_asked_for() {
    let mut calls = Calls::default();
    let waiter = call("ann", Some(9));
    let id = calls.join(3, KEY, waiter.clone(), ());
    let call_of = |calls: &Calls| {
        let call = calls.get(id)?;
        Some((call.lock_id.clone(), call.waiter.clone()))
    };
    let expected = (LockId::new(3, KEY), waiter.clone());
    assert_eq!(call_of(&calls), Some(expected.clone()));
    let Call {
        lock_id, waiter, ..
    } = calls.remove(id).unwrap();
    assert_eq!((lock_id, waiter.clone()), expected);
    assert!(calls.remove(id).is_none());
    assert!(calls.get(id).is_none());
    assert_ne!(calls.join(3, KEY, waiter, ()), id, "a new call");
}

#[test]
fn a_moment_is_so_long_after_another() {
    let (early, late) = (Monotonic(5), Monotonic(3_000_005));
    assert_eq!(early.plus(Duration::from_secs(3)), late);
    assert_eq!(late.plus(Duration::MAX), Monotonic(u64::MAX));
    assert_eq!(late.since(early), Duration::from_secs(3));
    assert_eq!(early.since(late), Duration::ZERO);
}

#[test]
fn each_key_of_each_database_has_a_line_of_its_own() {
    let mut calls = Calls::default();
    let keys = [(0, b"a"), (0, b"b"), (1, b"a")];
    let ids = keys.map(|(database, key)| calls.join(database, key, call("ann", None), ()));
    for ((database, key), id) in keys.into_iter().zip(ids) {
        assert_eq!(calls.first(database, key), Some(id));
        assert_eq!(calls.first_of(database, key, b"ann"), Some(id));
        assert_eq!(calls.waiting(database, key), 1);
    }
    assert_eq!(calls.first(1, b"b"), None);
    let lock_id = LockId::new(0, b"a");
    assert_eq!(
        keys.map(|(database, key)| lock_id.is(database, key)),
        [true, false, false]
    );

    let lock_ids = |calls: &Calls, database: Option<i32>| {
        let mut lock_ids = calls.lock_ids();
        lock_ids.retain(|lock_id| database.is_none_or(|wanted| wanted == lock_id.database));
        lock_ids.sort();
        let lock_ids = lock_ids
            .iter()
            .map(|lock_id| (lock_id.database, lock_id.key[0]));
        lock_ids.collect::<Vec<_>>()
    };
    assert_eq!(lock_ids(&calls, None), [(0, b'a'), (0, b'b'), (1, b'a')]);
    assert_eq!(lock_ids(&calls, Some(0)), [(0, b'a'), (0, b'b')]);
    calls.remove(ids[0]);
    calls.check();
    assert_eq!(lock_ids(&calls, Some(0)), [(0, b'b')]);
    calls.remove(ids[2]);
    assert_eq!(lock_ids(&calls, Some(1)), []);
    assert_eq!(lock_ids(&calls, None), [(0, b'b')]);
}

#[test]
fn waits_end_by_time_and_then_in_the_order_of_joining() {
    let mut scenario = Scenario::of("");
    for (owner, until) in [("ann", 30), ("bob", 10), ("cid", 10), ("dan", 20)] {
        scenario.join(owner, Some(until));
    }
    scenario.join("eve", None);
    scenario.leave("dan4");
    let mut ends = Vec::new();
    while let Some((end, id)) = scenario.calls.next_end() {
        ends.push((end.0, scenario.name(Some(id)).to_owned()));
        scenario.calls.remove(id);
    }
    let expected = [(10, "bob2"), (10, "cid3"), (30, "ann1")];
    assert_eq!(ends, expected.map(|(end, name)| (end, name.to_owned())));
    assert_eq!(scenario.line(), "eve5", "waits for ever");
}

#[test]
fn nothing_is_left_of_calls_that_left() {
    let mut calls = Calls::default();
    let ids: Vec<_> = (0..1000)
        .map(|number: u64| {
            let (owner, key) = (format!("owner{}", number % 7), [(number % 5) as u8]);
            let until = number.is_multiple_of(2).then_some(number);
            calls.join(
                i32::from(number.is_multiple_of(3)),
                &key,
                call(&owner, until),
                (),
            )
        })
        .collect();
    for id in ids.iter().step_by(2).chain(ids.iter().skip(1).step_by(2)) {
        calls.remove(*id);
    }
    assert_eq!((calls.len(), calls.entries()), (0, 0));
    assert!(calls.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_tables_shrink_when_most_have_left() {
    let mut calls = Calls::default();
    let stays = calls.join(0, KEY, call("stays", None), ());
    let ids: Vec<_> = (0..10_000_u32)
        .flat_map(|number| {
            let same_key = calls.join(0, KEY, call(&number.to_string(), None), ());
            let own_key = calls.join(0, &number.to_be_bytes(), call("ann", None), ());
            [same_key, own_key]
        })
        .collect();
    for id in ids {
        calls.remove(id);
    }
    let capacities = [
        calls.table.capacity(),
        calls.lines.capacity(),
        calls.clients.capacity(),
    ];
    // Each is a map in 64 parts.
    assert!(
        capacities.iter().all(|capacity| *capacity < 64 * 4),
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
            ..call("ann", None)
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
