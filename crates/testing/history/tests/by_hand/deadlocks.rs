//! Wrong DEADLOCK errors.

use history::Kind::{NoCycle, NoOrder};
use history::{Call, History, Outcome, Refusal};

use crate::Example;
use crate::calls::{Words, acquire, calls, release};
use crate::wrong::wrong;

/// `ann` has `lock` and waits for `other`, which `bob` has until then; he is told of what he asks for.
fn two(told: Call) -> History {
    calls([
        acquire("ann").at(0, 1).granted(10, 1),
        acquire("bob").of("other").at(2, 3).granted(20, 1),
        acquire("ann").of("other").block().at(10, 41).granted(30, 1),
        told.block().refused(Refusal::Deadlock),
        release("bob").of("other").at(39, 40).is(Outcome::Left(0)),
    ])
}

pub(crate) fn examples() -> Vec<Example> {
    vec![
        wrong("nobody waits yet", two(acquire("bob").at(8, 9)), [NoCycle]),
        wrong(
            "who holds the lock waits for somebody else",
            two(acquire("cat").at(20, 21)),
            [NoCycle],
        ),
        wrong(
            "a lock that is free",
            calls([acquire("bob").block().at(20, 21).refused(Refusal::Deadlock)]),
            [NoCycle, NoOrder],
        ),
        wrong(
            "the caller has let go of what the other waits for",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").of("other").at(2, 3).granted(20, 1),
                release("bob").of("other").at(4, 5).is(Outcome::Left(0)),
                acquire("cat").of("other").at(6, 7).granted(30, 1),
                acquire("ann")
                    .of("other")
                    .block()
                    .at(10, 41)
                    .is(Outcome::Nil),
                acquire("bob").block().at(20, 21).refused(Refusal::Deadlock),
            ]),
            [NoCycle],
        ),
        wrong(
            "two waits that were never at one time",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").of("other").at(2, 3).granted(20, 1),
                acquire("cat").of("third").at(4, 5).granted(30, 1),
                acquire("ann")
                    .of("other")
                    .block()
                    .at(10, 22)
                    .is(Outcome::Nil),
                acquire("bob")
                    .of("third")
                    .block()
                    .at(25, 41)
                    .is(Outcome::Nil),
                acquire("cat").block().at(20, 30).refused(Refusal::Deadlock),
            ]),
            [NoCycle],
        ),
    ]
}
