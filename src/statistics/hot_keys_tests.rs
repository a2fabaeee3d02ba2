//! Tests of the hottest keys: their numbers, their bounded memory, and when they are forgotten.

use super::*;

const MINUTE: u64 = 60_000;

fn lock_id(database: i32, key: &str) -> LockId {
    LockId::new(database, key.as_bytes())
}

fn wait(ms: u64) -> KeyStats {
    KeyStats {
        waits: 1,
        total_wait_ms: ms,
        max_wait_ms: ms,
        ..KeyStats::default()
    }
}

fn names(keys: &[(Arc<[u8]>, KeyStats)]) -> Vec<&str> {
    keys.iter()
        .map(|(key, _)| std::str::from_utf8(key).unwrap())
        .collect()
}

#[test]
fn the_numbers_of_a_key_add_up_and_the_hottest_is_first() {
    let mut hot = HotKeys::new();
    hot.record(0, &lock_id(0, "a"), &wait(30));
    hot.record(0, &lock_id(0, "b"), &wait(20));
    hot.record(MINUTE, &lock_id(0, "b"), &wait(50));
    let expired = KeyStats {
        expirations: 1,
        ..KeyStats::default()
    };
    let timed_out = KeyStats {
        timeouts: 1,
        ..wait(5)
    };
    hot.record(MINUTE, &lock_id(0, "b"), &expired);
    hot.record(MINUTE, &lock_id(0, "b"), &timed_out);
    let hottest = hot.hottest(MINUTE, 0, []);
    assert_eq!(names(&hottest), ["b", "a"]);
    let expected = KeyStats {
        waits: 3,
        timeouts: 1,
        expirations: 1,
        total_wait_ms: 75,
        max_wait_ms: 50,
    };
    assert_eq!(hottest[0].1, expected);
}

#[test]
fn each_database_has_its_own() {
    let mut hot = HotKeys::new();
    hot.record(0, &lock_id(0, "a"), &wait(30));
    hot.record(0, &lock_id(3, "a"), &wait(10));
    assert_eq!(hot.hottest(0, 3, [])[0].1, wait(10));
    assert!(hot.hottest(0, 1, []).is_empty());
}

#[test]
fn ongoing_waits_count() {
    let mut hot = HotKeys::new();
    hot.record(0, &lock_id(0, "a"), &wait(30));
    let ongoing = [("a", 5), ("b", 1000)];
    let ongoing = ongoing.map(|(key, ms)| (Arc::from(key.as_bytes()), wait(ms)));
    let hottest = hot.hottest(0, 0, ongoing);
    assert_eq!(names(&hottest), ["b", "a"]);
    assert_eq!((hottest[1].1.waits, hottest[1].1.total_wait_ms), (2, 35));
}

#[test]
fn keys_are_forgotten_after_five_minutes() {
    let mut hot = HotKeys::new();
    hot.record(0, &lock_id(0, "a"), &wait(30));
    hot.record(3 * MINUTE, &lock_id(0, "b"), &wait(1));
    assert_eq!(names(&hot.hottest(4 * MINUTE, 0, [])), ["a", "b"]);
    assert_eq!(names(&hot.hottest(5 * MINUTE, 0, [])), ["b"]);
    assert!(hot.hottest(100 * MINUTE, 0, []).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn a_hot_key_is_found_among_many_cold_keys_in_bounded_memory() {
    let mut hot = HotKeys::new();
    for number in 0..100_000 {
        hot.record(
            number / 10,
            &lock_id(0, &format!("cold {number}")),
            &wait(1),
        );
        if number % 50 == 0 {
            hot.record(number / 10, &lock_id(0, "hot"), &wait(3));
        }
    }
    let hottest = hot.hottest(10_000, 0, []);
    assert_eq!(hottest.len(), KEYS);
    assert_eq!(hottest[0].0.as_ref(), b"hot");
    assert!(hottest[0].1.waits > 1900, "{:?}", hottest[0].1);
    assert!(hot.spans.iter().all(|span| span.0.len() <= KEYS));
}

#[test]
fn a_new_key_inherits_the_rank_but_not_the_numbers() {
    let mut hot = HotKeys::new();
    for number in 0..KEYS {
        hot.record(0, &lock_id(0, &format!("{number}")), &wait(10));
    }
    hot.record(0, &lock_id(0, "new"), &wait(1));
    let hottest = hot.hottest(0, 0, []);
    let (_, stats) = hottest
        .iter()
        .find(|(key, _)| key.as_ref() == b"new")
        .unwrap();
    assert_eq!(*stats, wait(1));
}

#[test]
fn a_key_with_a_very_long_name_is_ignored() {
    let mut hot = HotKeys::new();
    hot.record(0, &lock_id(0, &"x".repeat(MAX_NAME)), &wait(1));
    hot.record(0, &lock_id(0, &"x".repeat(MAX_NAME + 1)), &wait(1));
    assert_eq!(hot.hottest(0, 0, []).len(), 1);
}

#[test]
fn ongoing_waits_last_until_now() {
    // Three waits, which began after 1, 3 and 3.5 seconds.
    let waits = QueueWaits {
        count: 3,
        since_sum: 7_500_000,
        first_since: Monotonic(1_000_000),
    };
    let stats = |now| {
        let stats = KeyStats::of_ongoing(&waits, Monotonic(now));
        (stats.waits, stats.total_wait_ms, stats.max_wait_ms)
    };
    assert_eq!(stats(4_000_000), (3, 4500, 3000));
    assert_eq!(stats(4_000_999), (3, 4502, 3000));
    assert_eq!(stats(0), (3, 0, 0), "before they began");
}
