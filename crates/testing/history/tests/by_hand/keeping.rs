//! What a PING promises on the connection that keeps a grant, and what it does not. A third of a lease is
//! 333 ms.

use history::Kind::{Exclusion, NoOrder, PromiseBroken};
use history::{Call, History, Mode, Outcome};

use crate::Example;
use crate::calls::{Besides, Words, acquire, calls, look, release, remove, renew};
use crate::wrong::wrong;

/// The server renews the grant of `ann`, until a while after the last PING that was answered, at 3000; then
/// this happens.
fn kept<const COUNT: usize>(then: [Call; COUNT]) -> History {
    let mut history = calls(then);
    history.calls.push(acquire("ann").at(0, 1).granted(10, 1));
    history.keeps("ann", 10, (1, 3100), 3000)
}

/// Somebody else gets the lock so long after the PING.
fn taken(after: u64) -> Call {
    acquire("bob")
        .at(3000 + after - 1, 3000 + after)
        .granted(20, 1)
}

/// Granted while the clock is an hour ahead, kept until this moment, and free for somebody else 3 s after the
/// clock was set right.
fn kept_until(closed: u64) -> History {
    calls([
        acquire("ann").at(100, 101).granted(10, 1),
        acquire("bob").at(3300, 3301).granted(20, 1),
    ])
    .keeps("ann", 10, (101, closed), 200)
    .steps(50, 3_600_000)
    .steps(300, 0)
}

fn lost_to_bob(before: Call) -> History {
    kept([before, taken(100)])
}

pub(crate) fn right() -> Vec<Example> {
    let right = |name, history| (name, Mode::Strict, history, Vec::new());
    vec![
        right(
            "kept beyond its lease",
            kept([look().at(2900, 2901).shows("ann", 10, 1)]),
        ),
        right(
            "nobody knows when it was renewed last",
            kept([look().at(4000, 4001).shows("ann", 10, 1)]),
        ),
        right("a third after the PING", kept([taken(340)])),
        right(
            "removed",
            lost_to_bob(remove().at(3050, 3051).is(Outcome::Done)),
        ),
        right(
            "perhaps removed just after the PING",
            lost_to_bob(remove().at(2990, 3001).is(Outcome::Done)),
        ),
        right(
            "perhaps removed",
            lost_to_bob(remove().at(3050, 3060).is(Outcome::Lost)),
        ),
        right(
            "removed before it was granted",
            kept([remove().at(0, 2).is(Outcome::Done)]),
        ),
        right(
            "released",
            lost_to_bob(release("ann").at(2000, 2001).is(Outcome::Left(0))),
        ),
        right(
            "perhaps released",
            lost_to_bob(release("ann").at(2000, 2001).is(Outcome::Lost)),
        ),
        right(
            "released, and removed then",
            kept([
                release("ann").at(2000, 2001).is(Outcome::Left(0)),
                remove().at(2500, 2501).is(Outcome::Done),
            ]),
        ),
        right(
            "a third of a shorter lease",
            kept([
                renew("ann").px(600).at(2000, 2001).granted(10, 1),
                taken(210),
            ]),
        ),
        right("evicted", kept([taken(100)]).evicts(3050, 3060)),
        right(
            "the clock was set",
            kept([taken(100)]).steps(3050, 3_600_000),
        ),
        right("renewed when the clock was set back", kept_until(2000)),
        (
            "lost with its server",
            Mode::Lossy,
            kept([taken(100)]).loses(3010, 3020),
            Vec::new(),
        ),
        right(
            "shared with somebody who came later",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(3009, 3010).granted(20, 1),
            ])
            .keeps("ann", 10, (1, 3100), 3000),
        ),
        right(
            "another connection takes over",
            kept([renew("ann").at(3000, 3050).granted(10, 1)]).keeps("ann", 10, (3050, 4000), 3900),
        ),
    ]
}

pub(crate) fn wrong_ones() -> Vec<Example> {
    vec![
        wrong(
            "a quarter after the PING",
            kept([taken(250)]),
            [PromiseBroken],
        ),
        wrong(
            "a PING is answered after somebody else got the lock",
            kept([acquire("bob").at(2500, 2501).granted(20, 1)]),
            [PromiseBroken],
        ),
        wrong(
            "somebody else is seen to hold it",
            kept([look().at(3100, 3101).shows("bob", 20, 1)]),
            [PromiseBroken, NoOrder],
        ),
        wrong(
            "a PING is answered after a removal",
            kept([remove().at(2500, 2501).is(Outcome::Done)]),
            [PromiseBroken],
        ),
        wrong(
            "the force came before the PING",
            kept([
                remove().at(2500, 2501).is(Outcome::Lost),
                acquire("bob").at(2600, 2601).granted(20, 1),
            ]),
            [PromiseBroken],
        ),
        wrong(
            "another took over, and a PING is answered here",
            kept([renew("ann").at(2000, 2001).granted(10, 1)]).keeps("ann", 10, (2001, 4000), 3900),
            [PromiseBroken],
        ),
        wrong(
            "closed when the clock was set back",
            kept_until(250),
            [Exclusion, NoOrder],
        ),
        wrong(
            "a release that leaves a hold",
            kept([
                acquire("ann").at(10, 11).granted(10, 2),
                release("ann").at(2000, 2001).is(Outcome::Left(1)),
                taken(100),
            ]),
            [PromiseBroken],
        ),
        wrong(
            "evicted long before",
            kept([taken(100)]).evicts(1050, 1060),
            [PromiseBroken],
        ),
        wrong(
            "the clock was set long before",
            kept([taken(100)]).steps(1050, 0),
            [PromiseBroken],
        ),
        wrong(
            "a share that is lost to somebody who wants it alone",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").at(3009, 3010).granted(20, 1),
            ])
            .keeps("ann", 10, (1, 3100), 3000),
            [PromiseBroken],
        ),
        wrong(
            "held beyond its lease when nobody keeps it any more",
            kept([look().at(4200, 4201).shows("ann", 10, 1)]),
            [history::Kind::NoOrder],
        ),
    ]
}
