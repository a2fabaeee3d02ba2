//! Wrong DEADLOCK errors.

use history::Kind::{NoCycle, NoOrder};
use history::Refusal::Deadlock;

use crate::calls::{Call, Example, acquire, release, wrong};

/// `ann` has `lock` and waits for `other`, which `bob` has until then; he is told of what he asks for.
fn two(told: Call) -> [Call; 5] {
    [
        acquire("ann").at(0, 1).granted(10, 1),
        acquire("bob").of("other").at(2, 3).granted(20, 1),
        acquire("ann").of("other").block().at(10, 41).granted(30, 1),
        told.block().refused(Deadlock),
        release("bob").of("other").at(39, 40).left(0),
    ]
}

pub(crate) fn examples() -> Vec<Example> {
    vec![
        wrong("nobody waits yet", [NoCycle]).calls(two(acquire("bob").at(8, 9))),
        wrong("who holds the lock waits for somebody else", [NoCycle])
            .calls(two(acquire("cat").at(20, 21))),
        wrong("a lock that is free", [NoCycle, NoOrder])
            .calls([acquire("bob").block().at(20, 21).refused(Deadlock)]),
        wrong("the caller let go of what the other waits for", [NoCycle]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").of("other").at(2, 3).granted(20, 1),
            release("bob").of("other").at(4, 5).left(0),
            acquire("cat").of("other").at(6, 7).granted(30, 1),
            acquire("ann").of("other").block().at(10, 41).nil(),
            acquire("bob").block().at(20, 21).refused(Deadlock),
        ]),
        wrong("two waits that were never at one time", [NoCycle]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").of("other").at(2, 3).granted(20, 1),
            acquire("cat").of("third").at(4, 5).granted(30, 1),
            acquire("ann").of("other").block().at(10, 22).nil(),
            acquire("bob").of("third").block().at(25, 41).nil(),
            acquire("cat").block().at(20, 30).refused(Deadlock),
        ]),
    ]
}
