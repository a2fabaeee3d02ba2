//! Queued calls, those that are passed over, and what the reply to a POLL promises. Session 1 is ann's.

use history::Kind::{Exclusion, NoOrder, PromiseBroken, QueueOrder};
use history::{Call, History, Outcome};

use crate::Example;
use crate::calls::{Besides, Words, acquire, calls, look, release, remove};
use crate::wrong::wrong;

/// Ann waits in front of bob, is seen to at 30, and so is bob. Cat lets go at 50, and bob is granted the lock first.
fn overtaken(ann: Call) -> History {
    let client = ann.client;
    let bob = acquire("bob").block().at(20, 60).granted(20, 1);
    let seen = [client, bob.client];
    calls([
        acquire("cat").px(5000).at(0, 1).granted(10, 1),
        ann.at(10, 90).granted(30, 1),
        bob,
        release("cat").at(50, 51).is(Outcome::Left(0)),
        release("bob").at(80, 81).is(Outcome::Left(0)),
    ])
    .sees(30, &seen)
}

fn queued() -> History {
    overtaken(acquire("ann").queue(1))
}

/// Ann waits for a free lock after a stall of the server, and so bob does not get it.
fn held_up() -> History {
    calls([
        acquire("cat").at(0, 1).granted(10, 1),
        acquire("ann").queue(1).at(10, 90).granted(30, 1),
        release("cat").at(50, 51).is(Outcome::Left(0)),
        look().at(55, 56).is(Outcome::Nil),
        acquire("bob").at(60, 61).is(Outcome::Nil),
        look().at(65, 66).is(Outcome::Nil),
    ])
}

/// A grant of ann's in session 1, and what then happened. Her lease is one of a second.
fn promised<const COUNT: usize>(then: [Call; COUNT]) -> History {
    let mut history = calls(then);
    let ann = acquire("ann").session(1).at(0, 1).granted(10, 1);
    history.calls.push(ann);
    history.renews("ann", 0, 4000)
}

/// Granted while the clock is an hour ahead, perhaps renewed until the session ended, before the clock was set right,
/// and free for somebody else 3 s after that.
fn renewed_an_hour_ahead() -> History {
    calls([
        acquire("ann").at(100, 101).granted(10, 1),
        acquire("bob").at(3300, 3301).granted(20, 1),
    ])
    .renews("ann", 100, 250)
    .steps(50, 3_600_000)
    .steps(300, 0)
}

/// Ann's share in session 1, a POLL that is answered 900 ms, and the lock for bob alone, half a second after the POLL.
fn share_lost() -> History {
    calls([
        acquire("ann").shared().session(1).at(0, 1).granted(10, 1),
        taken(1500),
    ])
    .renews("ann", 0, 4000)
    .polls(1, 1000, 1010, 900)
}

/// Bob gets the lock at this moment.
fn taken(at: u64) -> Call {
    acquire("bob").at(at - 1, at).granted(20, 1)
}

pub(crate) fn examples() -> Vec<Example> {
    let mut all = overtakings();
    all.extend(broken_promises());
    all
}

fn overtakings() -> Vec<Example> {
    vec![
        wrong(
            "a queued call is overtaken while its program polls",
            queued().polls(1, 5, 6, 0).polls(1, 70, 71, 0),
            [QueueOrder],
        ),
        wrong(
            "and polls on a new connection before the old one closes",
            queued()
                .polls(1, 5, 6, 0)
                .polls(2, 30, 31, 0)
                .polls(1, 35, 36, 0)
                .polls(2, 70, 71, 0),
            [QueueOrder],
        ),
        wrong(
            "a blocked call of a session is overtaken while its program polls",
            overtaken(acquire("ann").block().session(1))
                .polls(1, 5, 6, 0)
                .polls(1, 70, 71, 0),
            [QueueOrder],
        ),
        wrong(
            "a program polls, and gets a free lock late",
            held_up().polls(1, 5, 6, 0).polls(1, 70, 71, 0),
            [NoOrder],
        ),
        wrong(
            "a call without a session is never passed over",
            overtaken(acquire("ann").block()),
            [QueueOrder],
        ),
    ]
}

fn broken_promises() -> Vec<Example> {
    vec![
        wrong(
            "somebody else gets the lock within the promise",
            promised([taken(1500)]).polls(1, 1000, 1010, 900),
            [PromiseBroken],
        ),
        wrong(
            "though the loss is told later",
            promised([taken(1500)])
                .polls(1, 1000, 1010, 900)
                .polls(1, 1490, 1600, 0)
                .gone(10),
            [PromiseBroken],
        ),
        wrong(
            "though another loss is told",
            promised([taken(1500)]).polls(1, 1000, 1010, 900).gone(11),
            [PromiseBroken],
        ),
        wrong(
            "an event of the reply grants it",
            calls([
                acquire("ann").queue(1).px(30_000).at(0, 100).granted(10, 1),
                remove().at(20, 40).is(Outcome::Done),
                taken(99),
            ])
            .polls(1, 50, 100, 900),
            [PromiseBroken],
        ),
        wrong(
            "removed before the POLL was sent",
            promised([remove().at(900, 901).is(Outcome::Done), taken(1500)])
                .polls(1, 1000, 1010, 900),
            [PromiseBroken],
        ),
        wrong(
            "somebody else is seen to hold it",
            promised([look().at(1500, 1501).shows("bob", 20, 1)]).polls(1, 1000, 1010, 900),
            [PromiseBroken, NoOrder],
        ),
        wrong(
            "a release that leaves a hold",
            promised([
                acquire("ann").at(10, 11).granted(10, 2),
                release("ann").at(400, 401).is(Outcome::Left(1)),
                taken(1500),
            ])
            .polls(1, 1000, 1010, 900),
            [PromiseBroken],
        ),
        wrong(
            "evicted long before",
            promised([taken(1500)])
                .evicts(500, 510)
                .polls(1, 1000, 1010, 900),
            [PromiseBroken],
        ),
        wrong(
            "the clock was set long before",
            promised([taken(1500)])
                .steps(500, 0)
                .polls(1, 1000, 1010, 900),
            [PromiseBroken],
        ),
        wrong(
            "a share is lost to somebody who wants it alone",
            share_lost(),
            [PromiseBroken],
        ),
        wrong(
            "the session ended when the clock was set back",
            renewed_an_hour_ahead(),
            [Exclusion, NoOrder],
        ),
        wrong(
            "held beyond its lease when its session has ended",
            promised([look().at(5200, 5201).shows("ann", 10, 1)]),
            [NoOrder],
        ),
    ]
}
