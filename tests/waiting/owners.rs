//! Several waiting calls of one owner.

use testbed::{
    Copies, Expect, Talk, cmd, held, info, nobody_waits, queue, run, transaction, wait, wait_as,
};

#[test]
fn the_waiting_calls_of_the_new_owner_are_granted_together() {
    let (copies, mut c) = Copies::held();
    let mut ours = Vec::new();
    let mut others = Vec::new();
    for n in 0..3 {
        ours.push(wait(&copies, &format!("k b PX {}00000 BLOCK 0", n + 1)));
        others.push(wait(&copies, &format!("k other{n} PX 600000 BLOCK 0")));
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    let held = info(&mut c);
    let found = (&held.owner[..], held.holds, held.waiters);
    assert_eq!(found, (&b"b"[..], 3, 3));
    assert_eq!(held.lease_ms, 300_000, "the longest that was asked for");
    for (n, call) in ours.iter_mut().enumerate() {
        let (grant, n) = (call.granted(), i64::try_from(n).expect("small"));
        assert_eq!((grant.token, grant.holds), (held.token, n + 1));
        assert_eq!(grant.lease, (n + 1) * 100_000);
    }
    assert_eq!(queue(&mut c), ["other0", "other1", "other2"]);
    for left in [2, 1, 0] {
        assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), left);
    }
    others[0].granted();
    copies.agree();
}

#[test]
fn owners_that_the_server_makes_wait_each_for_itself() {
    let (server, mut c) = held();
    let mut waiters = [(); 2].map(|()| wait(&server, "k * PX 600000 BLOCK 0"));
    let owners = queue(&mut c);
    let are_new = owners[0].len() == 36 && owners[0] != owners[1];
    assert!(are_new, "{owners:?}");
    let mut before = "a".to_owned();
    for (waiter, owner) in waiters.iter_mut().zip(owners) {
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", before).int(), 0);
        assert_eq!(waiter.granted().owner, owner.as_bytes());
        before = owner;
    }
}

#[test]
fn release_all_calls_off_the_waits_of_an_owner_that_does_not_hold() {
    let (server, mut c) = held();
    let [mut one, mut other, mut two] = wait_as(&server, ["b", "c", "b"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b ALL").int(), 0);
    one.receive().nil();
    two.receive().nil();
    assert_eq!(queue(&mut c), ["c"]);
    run(&mut c, "LOCK.RELEASE k b ALL").refused("NOTOWNER");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    other.granted();
    // Also inside a transaction and a script.
    let [mut three, mut four] = wait_as(&server, ["b", "d"]);
    let replies = transaction(&mut c, &["LOCK.RELEASE k b ALL"]);
    assert_eq!(replies[0].clone().int(), 0);
    three.receive().nil();
    let script = "return redis.call('LOCK.RELEASE', KEYS[1], 'd', 'ALL')";
    assert_eq!(cmd!(c, "EVAL", script, 1, "k").int(), 0);
    four.receive().nil();
    nobody_waits(&server);
}

/// The owner comes to hold the lock, while it waits for it, in the transaction of its release.
#[test]
fn release_all_by_a_holder_who_also_waits_calls_off_the_wait() {
    for limit in ["", " SHARED"] {
        for behind in [false, true] {
            let (copies, mut c) = Copies::held();
            run(&mut c, &format!("LOCK.ACQUIRE other b{limit} PX 600000")).grant();
            let words = format!("k b{limit} PX 600000 BLOCK 0");
            let mut ours = [(); 2].map(|()| wait(&copies, &words));
            let mut next = behind.then(|| wait(&copies, "k c PX 600000 BLOCK 0"));
            // Puts the lock `other` in the place of `k`.
            let lines = ["DEL k", "RENAME other k", "LOCK.RELEASE k b ALL"];
            assert_eq!(transaction(&mut c, &lines).remove(2).int(), 0);
            for call in &mut ours {
                call.receive().nil();
            }
            match &mut next {
                Some(next) => assert_eq!(next.granted().owner, b"c"),
                None => run(&mut c, "LOCK.INFO k").nil(),
            }
            nobody_waits(&copies);
            copies.agree();
        }
    }
}
