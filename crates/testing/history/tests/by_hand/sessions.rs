//! Queued calls, those that are passed over, and what the reply to a POLL promises. Session 1 is ann's.

use history::Kind::{Exclusion, NoOrder, PromiseBroken, QueueOrder};

use crate::calls::{Call, Example, acquire, look, release, remove, wrong};

/// Their clients.
const ANN: u32 = 317;
const BOB: u32 = 307;

impl Example {
    /// Ann waits in front of bob, is seen to at 30, and so is bob. Cat lets go at 50, and bob is granted the lock first.
    fn overtaken(self, ann: Call) -> Self {
        self.calls([
            acquire("cat").px(5000).at(0, 1).granted(10, 1),
            ann.at(10, 90).granted(30, 1),
            acquire("bob").block().at(20, 60).granted(20, 1),
            release("cat").at(50, 51).left(0),
            release("bob").at(80, 81).left(0),
        ])
        .sees(30, &[ANN, BOB])
    }

    /// Session 1 polls before ann waits and after bob was granted the lock.
    fn polls_on(self) -> Self {
        self.polls(1, 5, 6, 0).polls(1, 70, 71, 0)
    }

    /// A grant of ann's in session 1, and what then happened. Her lease is one of a second.
    fn renewed<const COUNT: usize>(self, then: [Call; COUNT]) -> Self {
        self.calls(then)
            .calls([acquire("ann").session(1).at(0, 1).granted(10, 1)])
            .renews("ann", 0, 4000)
    }

    /// The same, and a POLL that promises 900 ms from 1000 on.
    fn promised<const COUNT: usize>(self, then: [Call; COUNT]) -> Self {
        self.renewed(then).polls(1, 1000, 1010, 900)
    }
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
        wrong("overtaken in line while its program polls", [QueueOrder])
            .overtaken(acquire("ann").queue(1))
            .polls_on(),
        wrong("and polls anew before the old one closes", [QueueOrder])
            .overtaken(acquire("ann").queue(1))
            .polls(1, 5, 6, 0)
            .polls(2, 30, 31, 0)
            .polls(1, 35, 36, 0)
            .polls(2, 70, 71, 0),
        wrong("a blocked call of a session is overtaken", [QueueOrder])
            .overtaken(acquire("ann").block().session(1))
            .polls_on(),
        // Ann waits for a free lock after a stall of the server, and so bob does not get it.
        wrong("a program polls, and gets a free lock late", [NoOrder])
            .calls([
                acquire("cat").at(0, 1).granted(10, 1),
                acquire("ann").queue(1).at(10, 90).granted(30, 1),
                release("cat").at(50, 51).left(0),
                look().at(55, 56).nil(),
                acquire("bob").at(60, 61).nil(),
                look().at(65, 66).nil(),
            ])
            .polls_on(),
        wrong("a call of no session is never passed over", [QueueOrder])
            .overtaken(acquire("ann").block()),
    ]
}

fn broken_promises() -> Vec<Example> {
    let broken = |name| wrong(name, [PromiseBroken]);
    vec![
        broken("somebody else gets the lock within the promise").promised([taken(1500)]),
        broken("though the loss is told later")
            .promised([taken(1500)])
            .polls(1, 1490, 1600, 0)
            .gone(10),
        broken("though another loss is told")
            .promised([taken(1500)])
            .gone(11),
        broken("an event of the reply grants it")
            .calls([
                acquire("ann").queue(1).px(30_000).at(0, 100).granted(10, 1),
                remove().at(20, 40).done(),
                taken(99),
            ])
            .polls(1, 50, 100, 900),
        broken("removed before the POLL was sent")
            .promised([remove().at(900, 901).done(), taken(1500)]),
        wrong("somebody else is seen to hold it", [PromiseBroken, NoOrder])
            .promised([look().at(1500, 1501).shows("bob", 20, 1)]),
        broken("a release that leaves a hold").promised([
            acquire("ann").at(10, 11).granted(10, 2),
            release("ann").at(400, 401).left(1),
            taken(1500),
        ]),
        broken("evicted long before")
            .evicts(500, 510)
            .promised([taken(1500)]),
        broken("the clock was set long before")
            .steps(500, 0)
            .promised([taken(1500)]),
        broken("a share is lost to somebody who wants it alone")
            .calls([
                acquire("ann").shared().session(1).at(0, 1).granted(10, 1),
                taken(1500),
            ])
            .renews("ann", 0, 4000)
            .polls(1, 1000, 1010, 900),
        // Granted while the clock is an hour ahead, perhaps renewed until the session ended, before the clock was set
        // right, and free for somebody else 3 s after that.
        wrong("a session ended by a clock set back", [Exclusion, NoOrder])
            .calls([acquire("ann").at(100, 101).granted(10, 1), taken(3301)])
            .renews("ann", 100, 250)
            .steps(50, 3_600_000)
            .steps(300, 0),
        wrong("held beyond its lease after its session's end", [NoOrder])
            .renewed([look().at(5200, 5201).shows("ann", 10, 1)]),
    ]
}
