//! What an administrator sees of those who wait.

use redis::Value;
use std::collections::BTreeMap;
use testbed::{
    Expect, cmd, eventually, held, info, queue, run, started, transaction, wait, wait_as,
};

fn number(fields: &BTreeMap<String, Value>, name: &str) -> i64 {
    fields[name].clone().int()
}

#[test]
fn waiters_are_listed_in_order_with_what_each_asked_for() {
    let (server, mut c) = held();
    let calls = [
        wait(&server, "k b LIMIT 5 BLOCK 600000"),
        wait(&server, "k c BLOCK 0"),
    ];
    // Time that must show: in both numbers of the first, in one of the second.
    let mut waited = || {
        let first = cmd!(c, "LOCK.WAITERS", "k").items().remove(0).fields();
        number(&first, "waited-ms") > 30
    };
    eventually(&mut waited, "the waits to be told");
    let waiters = cmd!(c, "LOCK.WAITERS", "k").items();
    assert_eq!(waiters.len(), 2);
    for (n, waiter) in waiters.into_iter().enumerate() {
        let fields = waiter.fields();
        let names: Vec<_> = fields.keys().map(String::as_str).collect();
        let expected = "client-id left-ms limit owner session waited-ms";
        assert_eq!(names.join(" "), expected);
        assert_eq!(fields["owner"].clone().bytes(), [b"b", b"c"][n]);
        assert_eq!(number(&fields, "client-id"), calls[n].id);
        assert_eq!(number(&fields, "limit"), [5, 1][n]);
        let (waited, left) = (number(&fields, "waited-ms"), number(&fields, "left-ms"));
        assert!((0..30_000).contains(&waited));
        assert_eq!(left, if n == 0 { 600_000 - waited } else { -1 });
    }
}

#[test]
fn waiters_are_flat_arrays_in_resp2_and_maps_in_resp3() {
    let (server, mut c) = held();
    let [_waiter] = wait_as(&server, ["b"]);
    let two = cmd!(c, "LOCK.WAITERS", "k").items().remove(0);
    let is_flat = matches!(&two, Value::Array(flat) if flat.len() == 12);
    assert!(is_flat, "{two:?}");
    let mut c = server.connection_resp3();
    let three = cmd!(c, "LOCK.WAITERS", "k").items().remove(0);
    let is_map = matches!(&three, Value::Map(pairs) if pairs.len() == 6);
    assert!(is_map, "{three:?}");
}

#[test]
fn count_cuts_the_list_short() {
    let (server, mut c) = held();
    let _waiters = wait_as(&server, ["b", "c", "d"]);
    for (words, count) in [("", 3), ("COUNT 2", 2), ("count 1", 1), ("COUNT 99", 3)] {
        let listed = run(&mut c, &format!("LOCK.WAITERS k {words}")).items();
        assert_eq!(listed.len(), count, "{words}");
    }
}

#[test]
fn the_list_is_empty_when_nobody_waits() {
    let (_server, mut c) = started();
    assert_eq!(run(&mut c, "LOCK.WAITERS k").items(), []);
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    assert_eq!(run(&mut c, "LOCK.WAITERS k COUNT 3").items(), []);
    assert_eq!(info(&mut c).waiters, 0);
    run(&mut c, "LOCK.ACQUIRE k b BLOCK 1").nil();
    assert_eq!(run(&mut c, "LOCK.WAITERS k").items(), []);
}

#[test]
fn looking_is_possible_in_transactions_and_scripts_and_by_readers() {
    let (server, mut c) = held();
    let [_waiter] = wait_as(&server, ["b"]);
    let replies = transaction(&mut c, &["LOCK.WAITERS k"]);
    assert_eq!(replies[0].clone().items().len(), 1);
    let script = "return #redis.call('LOCK.WAITERS', KEYS[1])";
    assert_eq!(cmd!(c, "EVAL_RO", script, 1, "k").int(), 1);
    run(&mut c, "ACL SETUSER reader on >secret %R~* +lock.waiters").okay();
    let mut reader = server.connection_as("reader", "secret");
    assert_eq!(queue(&mut reader), ["b"]);
}
