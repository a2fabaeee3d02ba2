//! `LOCK.HOTKEYS`: the keys with the most waiting.

use crate::support::field;
use redis::{Connection, Value};
use testbed::{Expect, Talk, at_once, cmd, eventually, run, started, transaction, wait, within};

#[derive(Clone, Debug, Default, PartialEq)]
struct Hot {
    key: String,
    waits: i64,
    timeouts: i64,
    expirations: i64,
    total: i64,
    longest: i64,
}

fn hot(reply: Value) -> Vec<Hot> {
    let read = |item: Value| {
        let mut fields = item.fields();
        let mut take = |name: &str| fields.remove(name).expect(name);
        let hot = Hot {
            key: take("key").text(),
            waits: take("waits").int(),
            timeouts: take("timeouts").int(),
            expirations: take("expirations").int(),
            total: take("total-wait-ms").int(),
            longest: take("longest-wait-ms").int(),
        };
        assert!(fields.is_empty(), "more fields: {fields:?}");
        hot
    };
    reply.items().into_iter().map(read).collect()
}

#[track_caller]
fn hottest(c: &mut Connection) -> Vec<Hot> {
    hot(run(c, "LOCK.HOTKEYS").value())
}

#[track_caller]
fn names(c: &mut Connection, line: &str) -> Vec<String> {
    let keys = hot(run(c, line).value());
    keys.into_iter().map(|hot| hot.key).collect()
}

/// Waits for a lock that another holds, until the time is up.
#[track_caller]
fn wait_in_vain(c: &mut Connection, key: &str, ms: u32) {
    cmd!(*c, "LOCK.ACQUIRE", key, "b", "BLOCK", ms).nil();
}

#[track_caller]
fn held(c: &mut Connection, keys: &[&str]) {
    for key in keys {
        cmd!(*c, "LOCK.ACQUIRE", *key, "a", "PX", 600_000).grant();
    }
}

#[test]
fn nothing_is_hot_where_nobody_has_waited() {
    let (_server, mut c) = started();
    held(&mut c, &["k"]);
    run(&mut c, "LOCK.ACQUIRE k b").nil();
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(hottest(&mut c), []);
}

#[test]
fn each_kind_of_trouble_is_counted_by_key() {
    let (server, mut c) = started();
    held(&mut c, &["k", "l"]);
    wait_in_vain(&mut c, "k", 20);
    wait_in_vain(&mut c, "k", 60);
    let mut waiter = wait(&server, "l b BLOCK 0");
    run(&mut c, "LOCK.RELEASE l a").int();
    waiter.receive().grant();
    run(&mut c, "LOCK.ACQUIRE short a PX 1").grant();
    eventually(|| field(&mut c, "expirations") == 1, "the lease to end");
    let keys = hottest(&mut c);
    let [k, rest @ ..] = keys.as_slice() else {
        panic!("{keys:?}")
    };
    assert_eq!((k.key.as_str(), k.waits, k.timeouts), ("k", 2, 2));
    let fits = k.total >= 80 && (60..k.total).contains(&k.longest);
    assert!(fits, "{k:?}");
    let find = |key: &str| rest.iter().find(|hot| hot.key == key).expect(key);
    let (l, short) = (find("l"), find("short"));
    assert_eq!((l.waits, l.timeouts, l.total), (1, 0, l.longest));
    let expected = Hot {
        key: "short".to_owned(),
        expirations: 1,
        ..Hot::default()
    };
    assert_eq!(*short, expected);
    assert_eq!(rest.len(), 2);
}

#[test]
fn waits_that_go_on_count() {
    let (server, mut c) = started();
    held(&mut c, &["k", "l"]);
    let _waiters = ["l b BLOCK 0", "l c BLOCK 0"].map(|words| wait(&server, words));
    eventually(|| hottest(&mut c)[0].longest >= 20, "some time to pass");
    let [l] = hottest(&mut c).try_into().expect("one key");
    assert_eq!((l.key.as_str(), l.waits, l.timeouts), ("l", 2, 0));
    // Each figure is cut to whole milliseconds.
    assert!(l.longest >= 20 && l.total > l.longest && l.total <= 2 * l.longest + 1);
}

#[test]
fn count_says_how_many_and_ten_is_usual() {
    let (_server, mut c) = started();
    for number in 0..12 {
        let key = format!("k{number}");
        held(&mut c, &[&key]);
        wait_in_vain(&mut c, &key, if number == 7 { 1000 } else { 1 });
    }
    assert_eq!(hottest(&mut c).len(), 10);
    assert_eq!(names(&mut c, "LOCK.HOTKEYS COUNT 1"), ["k7"]);
    assert_eq!(names(&mut c, "LOCK.HOTKEYS count 100").len(), 12);
    for words in ["5", "COUNT", "COUNT 0", "COUNT x", "COUNT 1 COUNT 1"] {
        println!("{words}");
        run(&mut c, &format!("LOCK.HOTKEYS {words}")).refused("ERR");
    }
}

#[test]
fn keys_are_those_of_the_selected_database() {
    let (_server, mut c) = started();
    held(&mut c, &["zero"]);
    wait_in_vain(&mut c, "zero", 1);
    run(&mut c, "SELECT 4").okay();
    assert_eq!(hottest(&mut c), []);
    held(&mut c, &["four"]);
    wait_in_vain(&mut c, "four", 1);
    assert_eq!(names(&mut c, "LOCK.HOTKEYS"), ["four"]);
}

#[test]
fn only_keys_that_the_caller_may_use_with_it_are_listed() {
    let (server, mut c) = started();
    for key in ["mine:1", "theirs:1", "mine:2"] {
        held(&mut c, &[key]);
        wait_in_vain(&mut c, key, 1);
    }
    let _waiter = wait(&server, "theirs:1 b BLOCK 0");
    for (rule, expected) in [
        ("~mine:*", &["mine:1", "mine:2"][..]),
        ("%R~mine:1", &["mine:1"]),
        ("%W~mine:*", &[]),
        ("~none", &[]),
        // A selector gives the right to other commands only, or to this one.
        ("~mine:1 (+lock.info ~mine:2)", &["mine:1"]),
        ("~mine:1 (+get allkeys)", &["mine:1"]),
        ("~mine:1 (+lock.hotkeys ~theirs:*)", &["mine:1", "theirs:1"]),
        ("~mine:1 (+lock.hotkeys %W~theirs:*)", &["mine:1"]),
        ("allkeys", &["mine:1", "mine:2", "theirs:1"]),
    ] {
        let rights = format!("ACL SETUSER u reset on >pw {rule} +lock.hotkeys +multi +exec");
        run(&mut c, &rights).okay();
        let mut user = server.connection_as("u", "pw");
        let mut told = names(&mut user, "LOCK.HOTKEYS");
        told.sort();
        assert_eq!(told, expected, "{rule}");
        let in_transaction = transaction(&mut user, &["LOCK.HOTKEYS"]).remove(0);
        assert_eq!(hot(in_transaction).len(), expected.len(), "{rule}");
    }
    run(&mut c, "ACL SETUSER u reset on >pw allkeys +lock.info").okay();
    let mut user = server.connection_as("u", "pw");
    run(&mut user, "LOCK.HOTKEYS").refused("NOPERM");
}

#[test]
fn a_script_is_refused() {
    let (_server, mut c) = started();
    assert!(cmd!(c, "EVAL", "return redis.call('LOCK.HOTKEYS')", 0).is_err());
}

#[test]
fn the_same_in_resp3_and_on_a_replica() {
    let (server, mut c) = started();
    let replica = server.replica();
    held(&mut c, &["k"]);
    wait_in_vain(&mut c, "k", 5);
    let mut three = server.connection_resp3();
    let told = run(&mut three, "LOCK.HOTKEYS").items();
    assert!(matches!(told.as_slice(), [Value::Map(_)]), "{told:?}");
    assert_eq!(hot(Value::Array(told)), hottest(&mut c));
    assert_eq!(hottest(&mut replica.connection()), []);
}

#[test]
fn any_number_of_keys_takes_little_room() {
    const KEYS: usize = 100_000;
    const BATCH: usize = 1000;
    let (server, mut c) = started();
    let used = || server.number("memory", "used_memory");
    let before = used();
    for batch in 0..KEYS / BATCH {
        let keys = batch * BATCH..(batch + 1) * BATCH;
        let lines = keys.map(|key| format!("LOCK.ACQUIRE key:{key} a PX 1"));
        for reply in at_once(&mut c, &lines.collect::<Vec<_>>()) {
            reply.grant();
        }
    }
    let keys = i64::try_from(KEYS).expect("a number");
    let limit = std::time::Duration::from_secs(60);
    within(limit, || server.count("expirations") == keys, "every end");
    held(&mut c, &["hot"]);
    wait_in_vain(&mut c, "hot", 50);
    let told = names(&mut c, "LOCK.HOTKEYS COUNT 100000");
    assert_eq!(told[0], "hot");
    assert!(told.len() <= 640, "{}", told.len());
    let more = used() - before;
    assert!(more < 5_000_000, "{more} bytes more");
}
