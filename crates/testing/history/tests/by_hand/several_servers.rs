//! A lock on several servers that decide together, as its clients see it: the rules over pairs are all
//! that is asked, and the clients know how long they may trust what they hold.

use history::Kind::{Exclusion, RegisterRefused, RegisterWentBack, TokenOrder, TokenShared};
use history::{History, Kind, Mode, Outcome, Register, Written};

use crate::Example;
use crate::calls::{Besides, Words, acquire, calls, release};

fn example<const COUNT: usize>(
    name: &'static str,
    history: History,
    kinds: [Kind; COUNT],
) -> Example {
    (name, Mode::Split, history, kinds.to_vec())
}

pub(crate) fn examples() -> Vec<Example> {
    vec![
        example(
            "two who trust their holds at once, both long after they had asked",
            calls([
                acquire("ann").px(100).at(0, 500).granted(10, 1),
                acquire("bob").px(100).at(0, 550).granted(20, 1),
            ])
            .trusts(10, 500, 580)
            .trusts(20, 550, 620),
            [Exclusion],
        ),
        // Ann had servers 1, 2 and 3, of which 3 is ahead of time; Bob has 3, 4 and 5 no more,
        // because 3 is down, and nobody has told the others of Ann's token.
        example(
            "a token that was not raised on a majority",
            calls([
                acquire("ann").at(0, 5).granted(3000, 1),
                release("ann").at(6, 8).is(Outcome::Left(0)),
                acquire("bob").at(10, 15).granted(12, 1),
            ])
            .writes(Register::Sql, 3000, 5, Written::Taken)
            .trusts(12, 15, 900)
            .writes(Register::Sql, 12, 16, Written::Refused),
            [TokenOrder, RegisterRefused],
        ),
        example(
            "a register that takes whatever comes",
            calls([
                acquire("ann").px(100).at(0, 5).granted(10, 1),
                acquire("bob").px(100).at(200, 205).granted(20, 1),
            ])
            .writes(Register::Sql, 20, 206, Written::Taken)
            .writes(Register::Sql, 10, 208, Written::Taken),
            [RegisterWentBack],
        ),
        example(
            "two grants with one token",
            calls([
                acquire("ann").at(0, 5).granted(10, 1),
                release("ann").at(6, 8).is(Outcome::Left(0)),
                acquire("bob").at(1, 15).granted(10, 1),
            ]),
            [TokenShared],
        ),
        example(
            "a write that was refused while the writer could trust its hold",
            calls([acquire("ann").px(100).at(0, 500).granted(10, 1)])
                .trusts(10, 500, 580)
                .writes(Register::Sql, 10, 520, Written::Refused),
            [RegisterRefused],
        ),
    ]
}
