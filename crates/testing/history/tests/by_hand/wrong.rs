//! Wrong behaviour of a lock, and the error that is reported.

use history::Kind::{Exclusion, NoOrder, TokenOrder, TokenShared};
use history::{History, Kind, Mode, Outcome, Refusal};

use crate::Example;
use crate::calls::{Besides, LEASE, Words, acquire, calls, fence, look, release, remove, renew};

pub(crate) fn wrong<const COUNT: usize>(
    name: &'static str,
    history: History,
    kinds: [Kind; COUNT],
) -> Example {
    (name, Mode::Strict, history, kinds.to_vec())
}

pub(crate) fn examples() -> Vec<Example> {
    [grants(), replies(), sequences(), leases()].concat()
}

fn grants() -> Vec<Example> {
    vec![
        wrong(
            "two owners at once",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(2, 3).granted(20, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        (
            "two owners at once, where only rules are asked",
            Mode::Split,
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(2, 3).granted(20, 1),
            ]),
            vec![Exclusion],
        ),
        wrong(
            "a token that is not higher",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                release("ann").at(2, 3).is(Outcome::Left(0)),
                acquire("bob").at(4, 5).granted(9, 1),
            ]),
            [TokenOrder, NoOrder],
        ),
        wrong(
            "a token that two have",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                release("ann").at(2, 3).is(Outcome::Left(0)),
                acquire("bob").at(4, 5).granted(10, 1),
            ]),
            [TokenShared, NoOrder],
        ),
        wrong(
            "a token that comes again",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                release("ann").at(2, 3).is(Outcome::Left(0)),
                acquire("ann").at(4, 5).granted(10, 1),
            ]),
            [TokenShared, NoOrder],
        ),
        wrong(
            "a re-entry with a new token",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("ann").at(2, 3).granted(11, 2),
            ]),
            [Exclusion, NoOrder],
        ),
        wrong(
            "another owner's grant",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("bob").at(2, 3).shows("ann", 10, 1),
            ]),
            [TokenShared, NoOrder],
        ),
        wrong(
            "a raise that is forgotten",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").token(10).raise(15).at(2, 3).granted(15, 1),
                renew("ann").at(4, 5).granted(10, 1),
            ]),
            [TokenOrder, NoOrder],
        ),
    ]
}

fn replies() -> Vec<Example> {
    let held = || acquire("ann").at(0, 1).granted(10, 1);
    let after = |call| calls([held(), call]);
    let replies = [
        ("a release by another", release("bob").is(Outcome::Left(0))),
        (
            "a release that leaves too much",
            release("ann").is(Outcome::Left(1)),
        ),
        (
            "a re-entry with a hold too many",
            acquire("ann").granted(10, 3),
        ),
        (
            "a repeated HOLDS with one more hold",
            acquire("ann").holds(1).granted(10, 2),
        ),
        (
            "HOLDS that counts on lost holds",
            acquire("ann").holds(3).granted(10, 2),
        ),
        (
            "a release by HOLDS below what it says",
            release("ann").holds(1).is(Outcome::Left(0)),
        ),
        (
            "NOTHELD while held",
            release("ann").refused(Refusal::NotHeld),
        ),
        (
            "NOTOWNER for the owner",
            renew("ann").refused(Refusal::NotOwner),
        ),
        (
            "NOTHELD for another",
            renew("bob").refused(Refusal::NotHeld),
        ),
        (
            "FENCED for the current token",
            fence(10).refused(Refusal::Fenced),
        ),
        (
            "FENCED for the right one",
            release("ann").token(10).refused(Refusal::Fenced),
        ),
        (
            "AHEAD without a raise",
            renew("ann").refused(Refusal::Ahead),
        ),
        ("nil for the owner", acquire("ann").is(Outcome::Nil)),
        (
            "nil for who counts on holds",
            acquire("bob").holds(2).is(Outcome::Nil),
        ),
        ("INFO of a free lock", look().is(Outcome::Nil)),
        (
            "a wait called off that nobody waits",
            release("bob").all().is(Outcome::Left(0)),
        ),
    ];
    let examples = replies.into_iter();
    examples
        .map(|(name, call)| wrong(name, after(call.at(2, 3)), [NoOrder]))
        .collect()
}

fn sequences() -> Vec<Example> {
    let held = || acquire("ann").at(0, 1).granted(10, 1);
    let after = |call| calls([held(), call]);
    vec![
        wrong(
            "a re-entry without its hold",
            after(acquire("ann").at(2, 3).granted(10, 1)),
            [TokenShared, NoOrder],
        ),
        wrong(
            "a release of an older grant",
            after(release("ann").token(9).at(2, 3).is(Outcome::Left(0))),
            [TokenOrder, NoOrder],
        ),
        wrong(
            "INFO of another",
            after(look().at(2, 3).shows("bob", 10, 1)),
            [TokenShared, NoOrder],
        ),
        wrong(
            "nil while free",
            calls([acquire("ann").at(0, 1).is(Outcome::Nil)]),
            [NoOrder],
        ),
        wrong(
            "nil after a wait for a free lock",
            calls([acquire("ann").block().at(0, 90).is(Outcome::Nil)]),
            [NoOrder],
        ),
        wrong(
            "a renewal that takes",
            calls([renew("ann").at(0, 1).granted(10, 1)]),
            [NoOrder],
        ),
        wrong(
            "a re-entry by TOKEN that takes",
            calls([acquire("ann").token(10).at(0, 1).granted(11, 1)]),
            [NoOrder],
        ),
        wrong(
            "OK for a stale token",
            calls([
                held(),
                release("ann").at(2, 3).is(Outcome::Left(0)),
                fence(10).at(4, 5).is(Outcome::Done),
            ]),
            [NoOrder],
        ),
        wrong(
            "ALL that leaves a hold",
            calls([
                held(),
                acquire("ann").at(2, 3).granted(10, 2),
                release("ann").all().at(4, 5).is(Outcome::Left(0)),
                acquire("bob").at(6, 7).is(Outcome::Nil),
            ]),
            [NoOrder],
        ),
        wrong(
            "a lock that outlives its removal",
            calls([
                held(),
                remove().at(2, 3).is(Outcome::Done),
                release("ann").at(4, 5).is(Outcome::Left(0)),
            ]),
            [NoOrder],
        ),
    ]
}

fn leases() -> Vec<Example> {
    vec![
        wrong(
            "a lock that does not expire",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(LEASE + 100, LEASE + 101).is(Outcome::Nil),
            ]),
            [NoOrder],
        ),
        wrong(
            "a renewal long after the end",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").at(LEASE + 100, LEASE + 101).granted(10, 1),
            ]),
            [NoOrder],
        ),
        wrong(
            "a lease that ends too early",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(LEASE - 10, LEASE - 9).granted(20, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        wrong(
            "a lease that a re-entry shortens",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                // The longer lease is remembered and told.
                acquire("ann").px(50).at(2, 3).is(Outcome::Grant {
                    token: 10,
                    owner: "ann".to_owned(),
                    holds: 2,
                    lease: LEASE,
                    limit: None,
                }),
                acquire("bob").at(500, 501).granted(20, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        wrong(
            "a remembered lease that a re-entry shortens",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("ann").px(50).at(2, 3).granted(10, 2),
            ]),
            [NoOrder],
        ),
        wrong(
            "a lease that a renewal does not lengthen",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                renew("ann").px(9000).at(2, 3).granted(10, 1),
                acquire("bob").at(LEASE + 5, LEASE + 6).granted(20, 1),
            ]),
            [Exclusion, NoOrder],
        ),
        wrong(
            "a lease that a clock set back does not lengthen",
            calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(LEASE + 5, LEASE + 6).granted(20, 1),
            ])
            .steps(10, -5000),
            [Exclusion, NoOrder],
        ),
        wrong(
            "an eviction long after the fact",
            calls([
                acquire("ann").at(10, 11).granted(10, 1),
                acquire("bob").at(20, 21).granted(20, 1),
            ])
            .evicts(5, 9),
            [Exclusion, NoOrder],
        ),
    ]
}
