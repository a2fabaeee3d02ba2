//! The new owner has two calls on their way, and one of them, or both, are killed.

use crate::copies::Copies;
use crate::ends::{Together, has_it_at_once, is_closed};
use crate::support::{Waiter, info, queue, run, wait};
use testbed::{Expect, Server, cmd, eventually};

/// Two calls of `b` with these words behind them, and one of `c`, wait for what `a` holds.
struct Line {
    siblings: [Waiter; 2],
    next: Waiter,
}

fn line_up(server: &Server, words: &str) -> Line {
    run(&mut server.connection(), "LOCK.ACQUIRE k a PX 600000").grant();
    let call = || wait(server, &format!("k b PX 600000 BLOCK 0 {words}"));
    let siblings = [call(), call()];
    let next = wait(server, "k c PX 600000 BLOCK 0");
    Line { siblings, next }
}

/// One of the two is killed: the other has the grant, with this many holds in its reply, and one in
/// the lock.
#[track_caller]
fn one_dies(words: &str, which: usize, told: i64) {
    let copies = Copies::start();
    let mut c = copies.connection();
    for together in Together::ALL {
        let Line {
            mut siblings,
            mut next,
        } = line_up(&copies, words);
        let kill = format!("CLIENT KILL ID {}", siblings[which].id);
        together.send(&mut c, &["LOCK.RELEASE k a", &kill]);
        is_closed(&mut siblings[which]);
        let grant = siblings[1 - which].granted();
        assert_eq!((&grant.owner[..], grant.holds), (&b"b"[..], told));
        eventually(
            || info(&mut c).holds == 1,
            "the dead call's hold to be given back",
        );
        assert_eq!(
            (info(&mut c).owner, info(&mut c).token),
            (b"b".to_vec(), grant.token)
        );
        assert_eq!(queue(&mut c), ["c"]);
        copies.replica_agrees();
        assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
        has_it_at_once(&mut next);
        assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

#[test]
fn the_first_of_two_calls_dies() {
    one_dies("", 0, 2);
}

#[test]
fn the_second_of_two_calls_dies() {
    one_dies("", 1, 1);
}

#[test]
fn the_first_of_two_calls_with_one_hold_dies() {
    one_dies("HOLDS 1", 0, 1);
}

#[test]
fn the_second_of_two_calls_with_one_hold_dies() {
    one_dies("HOLDS 1", 1, 1);
}

#[test]
fn both_calls_die_and_the_lock_goes_on() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for words in ["", "HOLDS 1"] {
        for together in Together::ALL {
            for order in [[0, 1], [1, 0]] {
                let Line {
                    mut siblings,
                    mut next,
                } = line_up(&copies, words);
                let kills = order.map(|n| format!("CLIENT KILL ID {}", siblings[n].id));
                together.send(&mut c, &["LOCK.RELEASE k a", &kills[0], &kills[1]]);
                has_it_at_once(&mut next);
                siblings.iter_mut().for_each(is_closed);
                assert_eq!((info(&mut c).holds, queue(&mut c).len()), (1, 0));
                copies.replica_agrees();
                assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
            }
        }
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

/// Both die, but the owner was answered directly in between: it knows of its grant.
#[test]
fn both_calls_die_but_one_hold_stays_when_the_owner_was_answered_directly() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for direct in [
        "LOCK.ACQUIRE k b",
        "LOCK.ACQUIRE k b HOLDS 1",
        "LOCK.RENEW k b",
        "LOCK.RELEASE k b HOLDS 1",
    ] {
        for together in Together::ALL {
            for at in 1..=2 {
                let Line {
                    mut siblings,
                    mut next,
                } = line_up(&copies, "");
                let kills = [0, 1].map(|n| format!("CLIENT KILL ID {}", siblings[n].id));
                let mut lines = vec!["LOCK.RELEASE k a", &kills[0], &kills[1]];
                lines.insert(at, direct);
                together.send(&mut c, &lines);
                siblings.iter_mut().for_each(is_closed);
                // Whatever was to be given back comes before this.
                let renewed = run(&mut c, "LOCK.RENEW k b").grant();
                assert_eq!(renewed.holds, 1, "{direct} as number {at}, {together:?}");
                assert_eq!(
                    queue(&mut c),
                    ["c"],
                    "{direct} as number {at}, {together:?}"
                );
                copies.replica_agrees();
                assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
                has_it_at_once(&mut next);
                assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
            }
        }
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

#[test]
fn a_call_that_dies_behind_a_raise_of_its_grant_gives_its_hold_back() {
    const RAISE: &str = "#!lua name=raise
        redis.register_function('raise', function(keys)
            local token = redis.call('LOCK.FENCE', keys[1])
            return redis.call('LOCK.RENEW', keys[1], 'b',
                'TOKEN', string.format('%.0f', token),
                'RAISE', string.format('%.0f', token + 1000))
        end)";
    let copies = Copies::start();
    let mut c = copies.connection();
    cmd!(c, "FUNCTION", "LOAD", RAISE).value();
    let Line {
        mut siblings,
        mut next,
    } = line_up(&copies, "");
    let kill = format!("CLIENT KILL ID {}", siblings[1].id);
    let replies = Together::Pipeline.send(&mut c, &["LOCK.RELEASE k a", "FCALL raise 1 k", &kill]);
    let raised = replies[1].clone().grant();
    assert_eq!(raised.holds, 2);
    is_closed(&mut siblings[1]);
    assert_eq!(siblings[0].granted().token, raised.token - 1000);
    eventually(
        || info(&mut c).holds == 1,
        "the dead call's hold to be given back",
    );
    assert_eq!(info(&mut c).token, raised.token);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    has_it_at_once(&mut next);
    copies.agree();
}
