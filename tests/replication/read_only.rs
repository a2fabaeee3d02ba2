//! A replica looks, and never judges.

use crate::*;

const WRITABLE: [&str; 2] = ["yes", "no"];

#[test]
fn a_replica_answers_readonly_to_every_command_but_those_that_look() {
    for read_only in WRITABLE {
        let (primary, mut c) = primary().started();
        let token = cmd!(c, "LOCK.ACQUIRE", "k", "o").grant().token;
        let _waits = wait_as(&primary, ["b"]);
        let replica =
            primary.replica_with(|settings| settings.config("replica-read-only", read_only));
        let mut c = replica.connection();
        let before = replica.state();
        let at = unix_ms() + 90_000;
        for line in [
            "LOCK.ACQUIRE k o".to_owned(),
            "LOCK.ACQUIRE k another".to_owned(),
            "LOCK.ACQUIRE free o PX 1000".to_owned(),
            "LOCK.ACQUIRE free *".to_owned(),
            "LOCK.ACQUIRE k another BLOCK 10000".to_owned(),
            "LOCK.ACQUIRE k another BLOCK 0".to_owned(),
            "LOCK.ACQUIRE k o BLOCK 0".to_owned(),
            "LOCK.ACQUIRE free o BLOCK 0".to_owned(),
            "LOCK.ACQUIRE k o PX none".to_owned(),
            "LOCK.RELEASE k o".to_owned(),
            "LOCK.RELEASE k o ALL".to_owned(),
            "LOCK.RELEASE k another ALL".to_owned(),
            "LOCK.RELEASE free o".to_owned(),
            "LOCK.RENEW k o".to_owned(),
            format!("LOCK.RENEW k o TOKEN {token} RAISE {}", token + 1),
            "LOCK.FENCE k".to_owned(),
            format!("LOCK.FENCE k {token}"),
            format!("LOCK._APPLY k another {} 1 90000 {at}", token + 1),
            format!("LOCK._APPLY free o {} 1 90000 {at}", token + 1),
            format!("LOCK._CLOCK {}", token + 1),
        ] {
            let words = words(&line);
            cmd!(c, &words[0], &words[1..]).refused("READONLY");
            let script = "return redis.call(unpack(ARGV))";
            cmd!(c, "EVAL", script, 0, words).refused("READONLY");
        }
        assert_same(&before, &replica.state(), read_only);
        assert_eq!(replica.last_token(), token, "{read_only}: the clock");
        let info = cmd!(c, "LOCK.INFO", "k").lock_info();
        assert_eq!((info.token, &info.owner[..]), (token, &b"o"[..]));
        assert_eq!(info.waiters, 0);
        cmd!(c, "LOCK.INFO", "free").nil();
        assert!(cmd!(c, "LOCK.WAITERS", "k").items().is_empty());
        assert!(cmd!(c, "LOCK.WAITERS", "k", "COUNT", 1).items().is_empty());
        nobody_waits(&replica);
        if read_only == "no" {
            // A lock that becomes free on the replica stays free.
            cmd!(c, "DEL", "k").int();
            cmd!(c, "LOCK.INFO", "k").nil();
        }
    }
}

#[test]
fn a_transaction_on_a_writable_replica_gets_readonly_for_each_command() {
    let primary = primary().start();
    let replica = primary.replica_with(|settings| settings.config("replica-read-only", "no"));
    let mut c = replica.connection();
    let lines = ["LOCK.ACQUIRE k o", "LOCK._CLOCK 99", "LOCK.INFO k"];
    let replies = testbed::transaction(&mut c, &lines);
    for refused in &replies[..2] {
        refused.clone().refused("READONLY");
    }
    replies[2].clone().nil();
    assert_eq!(replica.last_token(), 0);
}

#[test]
fn a_lock_whose_lease_has_ended_is_free_to_who_looks_on_a_replica() {
    let (primary, mut c) = primary().started();
    let replica = primary.replica();
    // The primary does not look, so that nothing tells the replica to delete the key.
    cmd!(c, "DEBUG", "SET-ACTIVE-EXPIRE", 0).okay();
    cmd!(c, "LOCK.ACQUIRE", "k", "o", "PX", 300).grant();
    primary.wait_for_sync(&replica);
    let mut r = replica.connection();
    let over = || cmd!(r, "LOCK.INFO", "k").value() == redis::Value::Nil;
    eventually(over, "the lease to end");
    assert_eq!(replica.count("held"), 1, "the key is there");
    cmd!(c, "LOCK.INFO", "k").nil();
    primary.wait_for_sync(&replica);
    eventually(|| replica.count("held") == 0, "the key to be deleted");
}
