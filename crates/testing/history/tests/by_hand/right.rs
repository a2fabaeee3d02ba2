//! Correct behaviour of a lock: none of it may be reported.

use history::{History, Mode, Outcome, Refusal, Register, Written};

use crate::Example;
use crate::calls::{Besides, LEASE, Words, acquire, calls, fence, look, release, remove, renew};

fn right(name: &'static str, history: History) -> Example {
    (name, Mode::Strict, history, Vec::new())
}

fn lossy(name: &'static str, history: History) -> Example {
    (name, Mode::Lossy, history, Vec::new())
}

pub(crate) fn examples() -> Vec<Example> {
    [plain(), times(), unanswered(), losses()].concat()
}

fn plain() -> Vec<Example> {
    vec![
        right("nothing happened", History::default()),
        right(
            "one after the other",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(2, 3).is(Outcome::Nil),
                release("ann").at(4, 5).is(Outcome::Left(0)),
                acquire("bob").at(6, 7).granted(20, 1),
                fence(20).at(8, 9).is(Outcome::Done),
                fence(10).at(8, 9).refused(Refusal::Fenced),
            ]),
        ),
        right(
            "a hand-off",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 50).granted(40, 1),
                release("ann").at(40, 51).is(Outcome::Left(0)),
            ])
            .sees(10, &[307]),
        ),
        right(
            "a waiting twin is granted with its owner's first call, though others came before it",
            calls([
                acquire("cat").at(0, 1).granted(10, 1),
                acquire("ann").by_client(1).block().at(2, 50).granted(40, 1),
                acquire("bob").by_client(2).block().at(4, 90).granted(60, 1),
                acquire("ann").by_client(3).block().at(6, 50).granted(40, 2),
                release("cat").at(40, 51).is(Outcome::Left(0)),
                release("ann").all().at(80, 90).is(Outcome::Left(0)),
            ])
            .sees(10, &[1, 2, 3]),
        ),
        right(
            "a wait is called off",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 20).is(Outcome::Nil),
                release("bob").all().at(18, 19).is(Outcome::Left(0)),
                look().at(21, 22).shows("ann", 10, 1),
            ]),
        ),
        right(
            "a raise",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").token(10).raise(15).at(2, 3).granted(15, 1),
                renew("ann").token(10).raise(15).at(4, 5).granted(15, 1),
                fence(10).at(6, 7).refused(Refusal::Fenced),
                release("ann").token(15).at(8, 9).is(Outcome::Left(0)),
                acquire("bob").at(10, 11).granted(16, 1),
            ]),
        ),
        right(
            "a raise that is too far ahead",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann")
                    .token(10)
                    .raise(99)
                    .at(2, 3)
                    .refused(Refusal::Ahead),
                fence(10).at(4, 5).is(Outcome::Done),
            ]),
        ),
        right(
            "holds, counted",
            calls([
                acquire("ann").holds(1).at(0, 1).granted(10, 1),
                acquire("ann").holds(2).at(2, 3).granted(10, 2),
                acquire("ann").holds(2).at(4, 5).granted(10, 2),
                acquire("ann").holds(4).at(6, 7).refused(Refusal::NotHeld),
                acquire("bob")
                    .holds(2)
                    .block()
                    .at(6, 7)
                    .refused(Refusal::NotOwner),
                release("ann").holds(1).at(8, 9).is(Outcome::Left(1)),
                release("ann").holds(1).at(10, 11).is(Outcome::Left(1)),
                release("ann").holds(0).at(12, 13).is(Outcome::Left(0)),
                acquire("ann")
                    .token(10)
                    .at(14, 15)
                    .refused(Refusal::NotHeld),
            ]),
        ),
        right(
            "a late write is refused",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                remove().at(2, 3).is(Outcome::Done),
                acquire("bob").at(4, 5).granted(20, 1),
            ])
            .writes(Register::Sql, 20, 6, Written::Taken)
            .writes(Register::Sql, 10, 8, Written::Refused)
            .writes(Register::Script, 10, 8, Written::Refused)
            .writes(Register::Script, 20, 10, Written::Taken),
        ),
    ]
}

fn times() -> Vec<Example> {
    vec![
        right(
            "a lease ends",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(LEASE + 1, LEASE + 2).granted(20, 1),
                release("ann")
                    .at(LEASE + 3, LEASE + 4)
                    .refused(Refusal::NotOwner),
            ]),
        ),
        right(
            "a renewal shortens a lease, answered or not",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").px(20).at(2, 3).is(Outcome::Lost),
                acquire("bob").at(30, 31).granted(20, 1),
                renew("bob").px(20).at(32, 33).granted(20, 1),
                acquire("cat").at(60, 61).granted(30, 1),
            ]),
        ),
        right(
            "a clock that is set forward ends leases",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(20, 21).granted(20, 1),
            ])
            .steps(10, 5000),
        ),
        right(
            "a clock that is set back lengthens them",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(LEASE + 500, LEASE + 501).is(Outcome::Nil),
            ])
            .steps(10, -5000),
        ),
        right(
            "an eviction",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(20, 21).granted(20, 1),
            ])
            .evicts(5, 30),
        ),
    ]
}

fn unanswered() -> Vec<Example> {
    let taken_unheard = || acquire("ann").at(0, 1).is(Outcome::Lost);
    vec![
        right(
            "an acquire without a reply took the lock",
            calls([
                taken_unheard(),
                acquire("bob").at(2, 3).is(Outcome::Nil),
                acquire("ann").holds(1).at(4, 5).granted(10, 1),
            ]),
        ),
        right(
            "or did not",
            calls([taken_unheard(), acquire("bob").at(2, 3).granted(10, 1)]),
        ),
        right(
            "a release without a reply",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                release("ann").at(2, 9).is(Outcome::Lost),
                acquire("bob").at(3, 4).is(Outcome::Nil),
                acquire("bob").at(5, 6).granted(20, 1),
            ]),
        ),
        right(
            "a raise without a reply",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").token(10).raise(15).at(2, 3).is(Outcome::Lost),
                acquire("ann").at(4, 5).granted(15, 2),
            ]),
        ),
        right(
            "a waiting call that is closed gives back what it took",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 12).is(Outcome::GivenBack),
                release("ann").at(4, 5).is(Outcome::Left(0)),
                acquire("cat").at(6, 7).is(Outcome::Nil),
                acquire("cat").at(13, 14).granted(20, 1),
            ]),
        ),
        right(
            "while INFO still shows it",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").block().at(2, 12).is(Outcome::GivenBack),
                release("ann").at(4, 5).is(Outcome::Left(0)),
                look().at(300, 301).shows("bob", 15, 1),
                acquire("cat").at(302, 303).granted(20, 1),
            ]),
        ),
        right(
            "the grant stays with the twin of a call that is closed",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob")
                    .by_client(1)
                    .block()
                    .at(2, 12)
                    .is(Outcome::GivenBack),
                acquire("bob").by_client(2).block().at(3, 6).granted(20, 2),
                release("ann").at(4, 5).is(Outcome::Left(0)),
                look().at(13, 14).shows("bob", 20, 1),
                release("bob").by_client(2).at(15, 16).is(Outcome::Left(0)),
            ]),
        ),
    ]
}

fn losses() -> Vec<Example> {
    vec![
        lossy(
            "a grant is lost",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(20, 21).granted(20, 1),
                renew("ann").at(22, 23).refused(Refusal::NotOwner),
            ])
            .loses(5, 9),
        ),
        lossy(
            "a release is lost, and a raise",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").token(10).raise(15).at(2, 3).granted(15, 1),
                release("ann").at(4, 5).is(Outcome::Left(0)),
                acquire("bob").at(10, 11).is(Outcome::Nil),
                acquire("ann").at(12, 13).granted(10, 2),
            ])
            .loses(6, 9),
        ),
        (
            "two servers at once",
            Mode::Split,
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(20, 21).granted(20, 1),
                renew("ann").at(22, 23).granted(10, 1),
                renew("bob").at(24, 25).granted(20, 1),
            ])
            .loses(5, 30),
            Vec::new(),
        ),
    ]
}
