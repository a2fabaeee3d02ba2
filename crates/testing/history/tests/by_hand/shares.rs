//! A lock that several share: what it may do, and what it may not.

use history::Kind::{Exclusion, NoOrder, QueueOrder, RegisterTookStale, TokenOrder};
use history::{History, Kind, Mode, Outcome, Refusal, Register, Written};

use crate::Example;
use crate::calls::{Besides, LEASE, Words, acquire, calls, fence, look, release, remove, renew};

fn example<const COUNT: usize>(
    name: &'static str,
    history: History,
    kinds: [Kind; COUNT],
) -> Example {
    (name, Mode::Strict, history, kinds.to_vec())
}

pub(crate) fn right() -> Vec<Example> {
    let two = || {
        [
            acquire("ann").shared().at(0, 1).granted(10, 1),
            acquire("bob").limit(2).at(2, 3).granted(20, 1),
        ]
    };
    let with = |third| {
        let [ann, bob] = two();
        [ann, bob, third]
    };
    vec![
        example(
            "two share, and a third has no room",
            calls(with(acquire("cat").shared().at(4, 5).is(Outcome::Nil))),
            [],
        ),
        example(
            "each is current",
            calls(with(fence(10).at(4, 5).is(Outcome::Done)))
                .writes(Register::Script, 20, 6, Written::Taken)
                .writes(Register::Script, 10, 8, Written::Taken),
            [],
        ),
        example(
            "all are listed",
            calls(with(look().at(4, 5).and("ann", 10, 0).and("bob", 20, 2))),
            [],
        ),
        example(
            "a holder with others cannot have it alone, and others are told that they hold nothing",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
                acquire("ann").at(4, 5).refused(Refusal::NotAlone),
                renew("bob").limit(1).at(6, 7).refused(Refusal::NotAlone),
                release("cat").at(8, 9).refused(Refusal::NotOwner),
                release("bob").at(10, 11).is(Outcome::Left(0)),
                acquire("ann").at(12, 13).granted(10, 2),
                acquire("ann").shared().at(14, 15).granted(10, 3).still(1),
                acquire("cat").shared().at(16, 17).is(Outcome::Nil),
            ]),
            [],
        ),
        example(
            "a writer continues as a reader, and others come in",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").shared().block().at(2, 20).granted(15, 1),
                renew("ann").shared().at(10, 19).granted(10, 1),
                release("ann").at(21, 22).is(Outcome::Left(0)),
            ]),
            [],
        ),
        example(
            "who would have room stands behind one who has none",
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 20).is(Outcome::Nil),
                acquire("cat").shared().at(4, 5).is(Outcome::Nil),
                acquire("dan").shared().at(30, 31).granted(20, 1),
            ])
            .sees(3, &[307]),
            [],
        ),
        example(
            "one lease ends, and the other stands",
            calls([
                acquire("ann").shared().px(50).at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
                acquire("cat").limit(2).at(60, 61).granted(30, 1),
                fence(10).at(62, 63).refused(Refusal::Fenced),
                acquire("dan").at(LEASE + 1, LEASE + 2).is(Outcome::Nil),
            ]),
            [],
        ),
        (
            "after a loss nobody knows who else shares it",
            Mode::Lossy,
            calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(20, 21).granted(20, 1),
                acquire("cat").at(22, 23).is(Outcome::Nil),
                release("bob").at(24, 25).is(Outcome::Left(0)),
                look().at(26, 27).and("ann", 10, 0),
                remove().at(28, 29).is(Outcome::Done),
                acquire("cat").at(30, 31).granted(30, 1),
            ])
            .loses(10, 12),
            Vec::new(),
        ),
    ]
}

pub(crate) fn wrong() -> Vec<Example> {
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
    ]
}
