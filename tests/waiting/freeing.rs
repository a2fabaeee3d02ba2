//! However a lock becomes free, the first waiter gets it, and replica and file hear of it.

use redis::Connection;
use testbed::{
    Copies, Expect, all_granted, at_once, cmd, eventually, held, info, owner, queue, run,
    transaction, wait, wait_as,
};

/// Has `a` hold `k` and two others wait, frees the lock `so`, and demands that the first waiter has
/// it and the second continues waiting, on the copies too.
#[track_caller]
fn frees(so: impl FnOnce(&mut Connection)) {
    let (copies, mut c) = Copies::started();
    let before = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, second] = wait_as(&copies, ["b", "c"]);
    so(&mut c);
    let grant = first.granted();
    assert!(grant.token > before.token, "{grant:?} after {before:?}");
    let expected = (&b"b"[..], 1, 600_000);
    assert_eq!((&grant.owner[..], grant.holds, grant.lease), expected);
    let held = info(&mut c);
    let expected = (&b"b"[..], grant.token, 1, 1);
    let found = (&held.owner[..], held.token, held.holds, held.waiters);
    assert_eq!(found, expected);
    assert!((590_000..=600_000).contains(&held.ttl_ms), "{held:?}");
    assert!(second.is_blocked(&mut c));
    copies.agree();
}

#[test]
fn by_one_command() {
    for command in [
        "LOCK.RENEW k a PX 50",
        "DEL k",
        "PEXPIRE k 50",
        "PEXPIREAT k 1",
        "FLUSHDB",
        "FLUSHALL SYNC",
        "EVAL return(redis.call('DEL','k')) 0",
        "EVAL return(redis.call('FLUSHALL')) 0",
        "SWAPDB 0 9",
        "RENAME k elsewhere",
        "MOVE k 7",
    ] {
        println!("{command}");
        frees(|c| drop(run(c, command).value()));
    }
}

#[test]
fn by_the_last_release() {
    frees(|c| {
        run(c, "LOCK.ACQUIRE k a").grant();
        assert_eq!(run(c, "LOCK.RELEASE k a").int(), 1);
        assert_eq!(owner(c), "a");
        assert_eq!(run(c, "LOCK.RELEASE k a").int(), 0);
        // Inside the command itself: no later command finds it free.
        assert_eq!(owner(c), "b");
    });
}

#[test]
fn by_a_transaction_that_deletes() {
    frees(|c| drop(transaction(c, &["DEL k"])));
}

/// A limit that nothing fits in is set, one command comes upon it, and it is lifted in the same write: the next
/// grant is not to be evicted too.
#[test]
fn by_eviction() {
    frees(|c| {
        let limit = "CONFIG SET maxmemory-policy allkeys-lru maxmemory 1";
        for reply in at_once(c, &[limit, "PING", "CONFIG SET maxmemory 0"]) {
            reply.value();
        }
        let evicted = run(c, "INFO stats").text();
        assert!(evicted.contains("evicted_keys:1\r\n"), "{evicted}");
    });
}

#[test]
fn a_lock_without_an_end_is_waited_for_until_it_is_released() {
    let (copies, mut c) = Copies::held();
    let [mut first] = wait_as(&copies, ["b"]);
    let lines = ["LOCK.RENEW k a PX 150", "PERSIST k"];
    assert_eq!(transaction(&mut c, &lines)[1].clone().int(), 1);
    // Well behind the end that the lease had.
    run(&mut copies.connection(), "LOCK.ACQUIRE k late BLOCK 300").nil();
    assert_eq!((owner(&mut c), info(&mut c).ttl_ms), ("a".to_owned(), -1));
    assert!(first.is_blocked(&mut c));
    copies.replica_agrees();
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    first.granted();
    copies.agree();
}

#[test]
fn a_lease_that_was_lengthened_is_waited_for_to_its_new_end() {
    let (server, mut c) = held();
    let [mut first] = wait_as(&server, ["b"]);
    run(&mut c, "LOCK.RENEW k a PX 1500").grant();
    let lines = ["LOCK.RENEW k a PX 1700", "PEXPIRE k 2000", "PEXPIRETIME k"];
    let end = transaction(&mut c, &lines).remove(2).int();
    let token = first.granted().token;
    assert!(token > end * 1000, "{token}, but the lease ended at {end}");
}

#[test]
fn free_locks_of_many_keys_are_all_handed_over() {
    let (copies, mut c) = Copies::started();
    let keys: Vec<_> = (0..100).map(|n| format!("k{n}")).collect();
    let mut waiters = Vec::new();
    for key in &keys {
        cmd!(c, "LOCK.ACQUIRE", key, "a", "PX", 600_000).grant();
        waiters.push(wait(&copies, &format!("{key} b PX 600000 BLOCK 0")));
    }
    let (some, others) = keys.split_at(50);
    assert_eq!(cmd!(c, "DEL", some).int(), 50);
    let script = "for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 30) end";
    cmd!(c, "EVAL", script, others.len(), others).nil();
    all_granted(&mut waiters);
    eventually(|| queue(&mut c).is_empty(), "nobody to wait");
    copies.agree();
}
