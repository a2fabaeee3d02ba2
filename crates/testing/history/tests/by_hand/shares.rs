//! A lock that several share: what it may not do.

use history::Kind::{Exclusion, NoOrder, QueueOrder, RegisterTookStale, TokenOrder};
use history::{History, Kind, Mode, Outcome, Register, Written};

use crate::Example;
use crate::calls::{Besides, Words, acquire, calls, fence, look, release};

fn example<const COUNT: usize>(
    name: &'static str,
    history: History,
    kinds: [Kind; COUNT],
) -> Example {
    (name, Mode::Strict, history, kinds.to_vec())
}

pub(crate) fn examples() -> Vec<Example> {
    vec![
        example(
            "one holder too many",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").limit(2).at(2, 3).granted(20, 1),
                acquire("cat").limit(3).at(4, 5).granted(30, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        (
            "one holder too many, where only rules are asked",
            Mode::Split,
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").limit(2).at(2, 3).granted(20, 1),
                acquire("cat").limit(3).at(4, 5).granted(30, 1),
            ]),
            vec![Exclusion],
        ),
        example(
            "a reader beside a writer",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        example(
            "no room where there is some, and nobody waits",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).is(Outcome::Nil),
            ]),
            [NoOrder],
        ),
        example(
            "a reader passes a writer that waits on",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 90).is(Outcome::Nil),
                acquire("cat").shared().at(10, 11).granted(20, 1),
            ])
            .sees(4, &[307])
            .sees(20, &[307]),
            [QueueOrder],
        ),
        example(
            "who holds it with others is told that it has it alone",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
                acquire("ann").at(4, 5).granted(10, 2),
            ]),
            [NoOrder],
        ),
        example(
            "a share with a lower token than one before it",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(9, 1),
            ]),
            [TokenOrder, NoOrder],
        ),
        example(
            "a share whose lease is over counts",
            calls([
                acquire("ann").shared().px(50).at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
                look().at(200, 201).and("ann", 10, 0).and("bob", 20, 0),
            ]),
            [NoOrder],
        ),
        example(
            "a share that was released passes the fence",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
                release("ann").at(4, 5).is(Outcome::Left(0)),
            ])
            .writes(Register::Script, 10, 6, Written::Taken),
            [NoOrder, RegisterTookStale],
        ),
        example(
            "a share that has ended is there again",
            ended_and_there_again(),
            [NoOrder],
        ),
        example(
            "a share that has ended is there again, since the clock was set back",
            ended_and_there_again().steps(250, -3_600_000),
            [],
        ),
    ]
}

/// Ann's share ends after 100 ms: bob is the only holder then. Later a fence finds ann's.
fn ended_and_there_again() -> History {
    calls([
        acquire("ann").shared().px(100).at(0, 1).granted(10, 1),
        acquire("bob").limit(5).at(2, 3).granted(20, 1),
        look().and("bob", 20, 5).at(200, 201),
        fence(10).at(300, 301).is(Outcome::Done),
    ])
}
