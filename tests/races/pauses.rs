//! Nothing is granted and nothing given back while writes are paused; afterwards all of it is.

use crate::ends::{Together, has_it_at_once, is_closed, nil_or_refused};
use redis::{Connection, Value};
use std::time::{Duration, Instant};
use testbed::{Copies, Expect, Talk, Waiter, held_and_waited_for, info, post, run, wait_as};

const PAUSE: Duration = Duration::from_millis(500);

/// The server counts a pause by whole milliseconds of a time that it has looked up a little before.
const LEAST: Duration = Duration::from_millis(490);

/// The longest that a hand-off may take once it is possible. One that is missed comes with the next lease to
/// end, in minutes.
const SOON: Duration = Duration::from_secs(10);

/// Demands that the waiter is granted once the pause is over, and not before.
#[track_caller]
fn is_granted_after(began: Instant, waiter: &mut Waiter) {
    waiter.granted();
    let after = began.elapsed();
    let in_time = (LEAST..PAUSE + SOON).contains(&after);
    assert!(in_time, "granted after {after:?}");
}

/// Grants `b` the lock, loses that grant on its way and pauses, all in one write.
#[track_caller]
fn owe_a_give_back(c: &mut Connection, first: &Waiter, kind: &str, together: Together) -> Instant {
    let kill = format!("CLIENT KILL ID {}", first.id);
    let pause = format!("CLIENT PAUSE {} {kind}", PAUSE.as_millis());
    let began = Instant::now();
    together.send(c, &["LOCK.RELEASE k a", &kill, &pause]);
    began
}

#[test]
fn a_give_back_that_is_due_in_a_pause_comes_behind_it() {
    for kind in ["WRITE", "ALL"] {
        for together in Together::ALL {
            let (copies, mut c) = Copies::held();
            let [mut first, mut second] = wait_as(&copies, ["b", "c"]);
            let began = owe_a_give_back(&mut c, &first, kind, together);
            is_closed(&mut first);
            is_granted_after(began, &mut second);
            assert_eq!(info(&mut c).owner, b"c");
            copies.agree();
        }
    }
}

#[test]
fn a_give_back_that_waited_for_a_pause_comes_before_the_commands_that_did() {
    for (command, code) in [
        ("LOCK.ACQUIRE", ""),
        ("LOCK.RENEW", "NOTOWNER"),
        ("LOCK.RELEASE", "NOTOWNER"),
    ] {
        let (copies, mut c) = Copies::held();
        let [first, mut second] = wait_as(&copies, ["b", "c"]);
        let mut late = copies.connection();
        let began = owe_a_give_back(&mut c, &first, "WRITE", Together::Pipeline);
        post!(late, command, "k", "b");
        nil_or_refused(late.receive(), code);
        assert!(began.elapsed() >= LEAST);
        has_it_at_once(&mut second);
        assert_eq!(info(&mut c).owner, b"c");
        copies.agree();
    }
}

/// The owners that a reply tells of.
fn owners(reply: Value) -> Vec<String> {
    let each = match reply {
        Value::Array(items) if !matches!(items.first(), Some(Value::BulkString(_))) => items,
        one => vec![one],
    };
    each.into_iter()
        .map(|one| one.fields()["owner"].clone().text())
        .collect()
}

#[test]
fn a_give_back_that_waited_for_a_pause_comes_before_a_look() {
    let looks = [
        ("LOCK.INFO k", &["c"][..]),
        ("LOCK.HOLDERS k", &["c"]),
        ("LOCK.WAITERS k", &[]),
    ];
    for (look, seen) in looks {
        for together in Together::ALL {
            let (copies, mut c) = Copies::held();
            let [mut first, mut second] = wait_as(&copies, ["b", "c"]);
            let kill = format!("CLIENT KILL ID {}", first.id);
            let pause = "CLIENT PAUSE 60000 WRITE";
            together.send(&mut c, &["LOCK.RELEASE k a", &kill, pause]);
            is_closed(&mut first);
            // In the pause nothing is given back.
            held_and_waited_for(&mut c, &["b"], &["c"]);
            // A transaction with a FENCE, a write, would be paused itself.
            let mut replies = together.send(&mut c, &["CLIENT UNPAUSE", look]);
            assert_eq!(owners(replies.pop().expect("two replies")), seen, "{look}");
            let fenced = run(&mut c, "LOCK.FENCE k").int();
            has_it_at_once(&mut second);
            assert_eq!(info(&mut c).token, fenced);
            copies.agree();
        }
    }
}

#[test]
fn a_release_in_the_transaction_of_a_pause_hands_over_behind_it() {
    let (copies, mut c) = Copies::held();
    let [mut first] = wait_as(&copies, ["b"]);
    let pause = format!("CLIENT PAUSE {} WRITE", PAUSE.as_millis());
    let began = Instant::now();
    Together::Transaction.send(&mut c, &[&pause, "LOCK.RELEASE k a"]);
    is_granted_after(began, &mut first);
    copies.agree();
}
