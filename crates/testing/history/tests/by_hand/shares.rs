//! A lock that several share: what it may not do.

use history::Kind::{Exclusion, NoOrder, QueueOrder, RegisterTookStale, TokenOrder};
use history::{Mode, Register, Written};

use crate::calls::{Call, Example, acquire, fence, look, release, right, wrong};

pub(crate) fn examples() -> Vec<Example> {
    vec![
        wrong("one holder too many", [Exclusion, NoOrder]).calls([
            acquire("ann").shared().at(0, 1).granted(10, 1),
            acquire("bob").limit(2).at(2, 3).granted(20, 1),
            acquire("cat").limit(3).at(4, 5).granted(30, 1),
        ]),
        wrong("one too many where only rules are asked", [Exclusion])
            .mode(Mode::Split)
            .calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").limit(2).at(2, 3).granted(20, 1),
                acquire("cat").limit(3).at(4, 5).granted(30, 1),
            ]),
        wrong("a reader beside a writer", [Exclusion, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").shared().at(2, 3).granted(20, 1),
        ]),
        wrong("no room where there is some, and nobody waits", [NoOrder]).calls([
            acquire("ann").shared().at(0, 1).granted(10, 1),
            acquire("bob").shared().at(2, 3).nil(),
        ]),
        wrong("a reader passes a writer that waits on", [QueueOrder])
            .calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 90).nil(),
                acquire("cat").shared().at(10, 11).granted(20, 1),
            ])
            .sees(4, &[307])
            .sees(20, &[307]),
        wrong("one of several holders gets an exclusive grant", [NoOrder]).calls([
            acquire("ann").shared().at(0, 1).granted(10, 1),
            acquire("bob").shared().at(2, 3).granted(20, 1),
            acquire("ann").at(4, 5).granted(10, 2),
        ]),
        wrong("a later share with a lower token", [TokenOrder, NoOrder]).calls([
            acquire("ann").shared().at(0, 1).granted(10, 1),
            acquire("bob").shared().at(2, 3).granted(9, 1),
        ]),
        wrong("a share whose lease is over counts", [NoOrder]).calls([
            acquire("ann").shared().px(50).at(0, 1).granted(10, 1),
            acquire("bob").shared().at(2, 3).granted(20, 1),
            look().at(200, 201).and("ann", 10, 0).and("bob", 20, 0),
        ]),
        wrong("a released share passes", [NoOrder, RegisterTookStale])
            .calls([
                acquire("ann").shared().at(0, 1).granted(10, 1),
                acquire("bob").shared().at(2, 3).granted(20, 1),
                release("ann").at(4, 5).left(0),
            ])
            .writes(Register::Script, 10, 6, Written::Taken),
        wrong("a share that has ended is there again", [NoOrder]).calls(ended_and_there_again()),
        right("a share that has ended is there again, since the clock was set back")
            .calls(ended_and_there_again())
            .steps(250, -3_600_000),
    ]
}

/// Ann's share ends after 100 ms: bob is the only holder then. Later a fence finds ann's.
fn ended_and_there_again() -> [Call; 4] {
    [
        acquire("ann").shared().px(100).at(0, 1).granted(10, 1),
        acquire("bob").limit(5).at(2, 3).granted(20, 1),
        look().and("bob", 20, 5).at(200, 201),
        fence(10).at(300, 301).done(),
    ]
}
