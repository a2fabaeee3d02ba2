//! A lock on several servers that decide together, as its clients see it: the rules over pairs are all
//! that is asked, and the clients know how long they may trust what they hold.

use history::Kind::{Exclusion, RegisterRefused, RegisterWentBack, TokenOrder, TokenShared};
use history::Mode;
use history::Register::Sql;
use history::Written::{Refused, Taken};

use crate::calls::{Example, acquire, release, wrong};

pub(crate) fn examples() -> impl Iterator<Item = Example> {
    let examples = [
        wrong("two who trust their holds at once, long after", [Exclusion])
            .calls([
                acquire("ann").px(100).at(0, 500).granted(10, 1),
                acquire("bob").px(100).at(0, 550).granted(20, 1),
            ])
            .trusts(10, 500, 580)
            .trusts(20, 550, 620),
        // Ann had servers 1, 2 and 3, of which 3 is ahead of time; Bob has 3, 4 and 5 no more,
        // because 3 is down, and nobody has told the others of Ann's token.
        wrong("raised on no majority", [TokenOrder, RegisterRefused])
            .calls([
                acquire("ann").at(0, 5).granted(3000, 1),
                release("ann").at(6, 8).left(0),
                acquire("bob").at(10, 15).granted(12, 1),
            ])
            .writes(Sql, 3000, 5, Taken)
            .trusts(12, 15, 900)
            .writes(Sql, 12, 16, Refused),
        wrong("a register that takes whatever comes", [RegisterWentBack])
            .calls([
                acquire("ann").px(100).at(0, 5).granted(10, 1),
                acquire("bob").px(100).at(200, 205).granted(20, 1),
            ])
            .writes(Sql, 20, 206, Taken)
            .writes(Sql, 10, 208, Taken),
        wrong("two grants with one token", [TokenShared]).calls([
            acquire("ann").at(0, 5).granted(10, 1),
            release("ann").at(6, 8).left(0),
            acquire("bob").at(1, 15).granted(10, 1),
        ]),
        wrong("a writer that may trust is refused", [RegisterRefused])
            .calls([acquire("ann").px(100).at(0, 500).granted(10, 1)])
            .trusts(10, 500, 580)
            .writes(Sql, 10, 520, Refused),
    ];
    let examples = examples.into_iter();
    examples.map(|example| example.mode(Mode::Split))
}
