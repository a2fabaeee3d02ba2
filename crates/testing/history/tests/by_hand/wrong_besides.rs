//! Wrong behaviour towards waiters, callers without a reply and registers, and in a crash.

use history::Kind::{
    Exclusion, NoOrder, QueueOrder, RegisterRefused, RegisterTookStale, RegisterWentBack,
    TokenOrder,
};
use history::{Kind, Mode, Outcome, Register, Written};

use crate::Example;
use crate::calls::{Besides, Words, acquire, calls, release};
use crate::wrong::wrong;

pub(crate) fn examples() -> Vec<Example> {
    [queue(), unanswered(), registers(), losses()].concat()
}

fn queue() -> Vec<Example> {
    let held = || acquire("cat").at(0, 1).granted(10, 1);
    let freed = || release("cat").at(40, 41).is(Outcome::Left(0));
    vec![
        wrong(
            "a queue that is jumped by who came later",
            calls([
                held(),
                acquire("ann").by_client(1).block().at(2, 90).granted(60, 1),
                freed(),
                acquire("bob").by_client(2).at(42, 43).granted(50, 1),
                release("bob").by_client(2).at(80, 81).is(Outcome::Left(0)),
            ])
            .sees(10, &[1]),
            [QueueOrder],
        ),
        wrong(
            "a queue that is served from behind",
            calls([
                held(),
                acquire("ann").by_client(1).block().at(2, 90).granted(60, 1),
                acquire("bob").by_client(2).block().at(2, 43).granted(50, 1),
                freed(),
                release("bob").by_client(2).at(80, 81).is(Outcome::Left(0)),
            ])
            .sees(10, &[1, 2]),
            [QueueOrder],
        ),
    ]
}

fn unanswered() -> Vec<Example> {
    let held = || acquire("ann").at(0, 1).granted(10, 1);
    let closed = || {
        let call = acquire("bob").by_client(1).block();
        call.at(2, 6).is(Outcome::GivenBack)
    };
    let freed = || release("ann").at(4, 5).is(Outcome::Left(0));
    vec![
        wrong(
            "what a closed call took stays",
            calls([
                held(),
                closed(),
                freed(),
                acquire("cat").at(7, 8).is(Outcome::Nil),
            ]),
            [NoOrder],
        ),
        wrong(
            "a closed call takes its twin's grant with it",
            calls([
                held(),
                closed(),
                acquire("bob").by_client(2).block().at(3, 6).granted(20, 2),
                freed(),
                acquire("cat").at(12, 13).granted(30, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        wrong(
            "a closed call leaves its hold with its twin",
            calls([
                held(),
                closed(),
                acquire("bob").by_client(2).block().at(3, 6).granted(20, 2),
                freed(),
                release("bob").by_client(2).at(12, 13).is(Outcome::Left(1)),
            ]),
            [NoOrder],
        ),
        wrong(
            "an acquire without a reply takes effect after its end",
            calls([
                acquire("ann").at(0, 1).is(Outcome::Lost),
                acquire("bob").at(2, 3).granted(10, 1),
                release("bob").at(4, 5).is(Outcome::Left(0)),
                acquire("bob").at(6, 7).is(Outcome::Nil),
            ]),
            [NoOrder],
        ),
    ]
}

fn registers() -> Vec<Example> {
    let one_after_the_other = || {
        calls([
            acquire("ann").at(0, 1).granted(10, 1),
            release("ann").at(2, 3).is(Outcome::Left(0)),
            acquire("bob").at(4, 5).granted(20, 1),
        ])
    };
    vec![
        wrong(
            "a register that goes back",
            one_after_the_other()
                .writes(Register::Sql, 20, 6, Written::Taken)
                .writes(Register::Sql, 10, 8, Written::Taken),
            [RegisterWentBack],
        ),
        wrong(
            "a script that writes with a stale token",
            one_after_the_other().writes(Register::Script, 10, 6, Written::Taken),
            [RegisterTookStale, NoOrder],
        ),
        wrong(
            "a database that refuses whom nobody disturbs",
            one_after_the_other().writes(Register::Sql, 20, 6, Written::Refused),
            [RegisterRefused],
        ),
        wrong(
            "a script that refuses whom nobody disturbs",
            one_after_the_other().writes(Register::Script, 20, 6, Written::Refused),
            [RegisterRefused, NoOrder],
        ),
    ]
}

fn losses() -> Vec<Example> {
    let lost = || {
        calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").at(20, 21).granted(20, 1),
        ])
        .loses(5, 9)
    };
    let lossy = |name, history, kinds: &[Kind]| (name, Mode::Lossy, history, kinds.to_vec());
    vec![
        wrong(
            "a grant is lost where none may be",
            lost(),
            [Exclusion, NoOrder],
        ),
        lossy(
            "a grant is lost before anything may be",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(2, 3).granted(20, 1),
            ])
            .loses(5, 9),
            &[Exclusion, NoOrder],
        ),
        lossy(
            "tokens fall after a loss",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(20, 21).granted(9, 1),
            ])
            .loses(5, 9),
            &[TokenOrder, NoOrder],
        ),
        lossy(
            "a database forgets as a server does",
            lost().writes(Register::Sql, 20, 2, Written::Taken).writes(
                Register::Sql,
                10,
                30,
                Written::Taken,
            ),
            &[RegisterWentBack],
        ),
        lossy(
            "two owners long after a loss",
            calls([
                acquire("ann").at(20, 21).granted(10, 1),
                acquire("bob").at(22, 23).granted(20, 1),
            ])
            .loses(5, 9),
            &[Exclusion, NoOrder],
        ),
    ]
}
