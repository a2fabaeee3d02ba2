//! Wrong behaviour of a lock, and the error that is reported.

use history::Kind::{Exclusion, NoOrder, TokenOrder, TokenShared};
use history::Mode;
use history::Refusal::{Ahead, Fenced, NotHeld, NotOwner};

use crate::calls::{Example, LEASE, acquire, fence, look, release, remove, renew, wrong};

pub(crate) fn examples() -> impl Iterator<Item = Example> {
    let all = [grants(), replies(), sequences(), leases()];
    all.into_iter().flatten()
}

fn grants() -> Vec<Example> {
    vec![
        wrong("two owners at once", [Exclusion, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").at(2, 3).granted(20, 1),
        ]),
        wrong("two owners at once where only rules are asked", [Exclusion])
            .mode(Mode::Split)
            .calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(2, 3).granted(20, 1),
            ]),
        wrong("a token that is not higher", [TokenOrder, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            release("ann").at(2, 3).left(0),
            acquire("bob").at(4, 5).granted(9, 1),
        ]),
        wrong("a token that two have", [TokenShared, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            release("ann").at(2, 3).left(0),
            acquire("bob").at(4, 5).granted(10, 1),
        ]),
        wrong("a token that comes again", [TokenShared, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            release("ann").at(2, 3).left(0),
            acquire("ann").at(4, 5).granted(10, 1),
        ]),
        wrong("a re-entry with a new token", [Exclusion, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("ann").at(2, 3).granted(11, 2),
        ]),
        wrong("another owner's grant", [TokenShared, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            renew("bob").at(2, 3).shows("ann", 10, 1),
        ]),
        wrong("a raise that is forgotten", [TokenOrder, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            renew("ann").token(10).raise(15).at(2, 3).granted(15, 1),
            renew("ann").at(4, 5).granted(10, 1),
        ]),
    ]
}

fn replies() -> Vec<Example> {
    let held = || acquire("ann").at(0, 1).granted(10, 1);
    let replies = [
        ("a release by another", release("bob").left(0)),
        ("a release that leaves too much", release("ann").left(1)),
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
            release("ann").holds(1).left(0),
        ),
        ("NOTHELD while held", release("ann").refused(NotHeld)),
        ("NOTOWNER for the owner", renew("ann").refused(NotOwner)),
        ("NOTHELD for another", renew("bob").refused(NotHeld)),
        ("FENCED for the current token", fence(10).refused(Fenced)),
        (
            "FENCED for the right one",
            release("ann").token(10).refused(Fenced),
        ),
        ("AHEAD without a raise", renew("ann").refused(Ahead)),
        ("nil for the owner", acquire("ann").nil()),
        ("nil for who counts on holds", acquire("bob").holds(2).nil()),
        ("INFO of a free lock", look().nil()),
        (
            "a wait called off that nobody waits",
            release("bob").all().left(0),
        ),
    ];
    let examples = replies.into_iter();
    examples
        .map(|(name, call)| wrong(name, [NoOrder]).calls([held(), call.at(2, 3)]))
        .collect()
}

fn sequences() -> Vec<Example> {
    let held = || acquire("ann").at(0, 1).granted(10, 1);
    vec![
        wrong("a re-entry without its hold", [TokenShared, NoOrder])
            .calls([held(), acquire("ann").at(2, 3).granted(10, 1)]),
        wrong("a release of an older grant", [TokenOrder, NoOrder])
            .calls([held(), release("ann").token(9).at(2, 3).left(0)]),
        wrong("INFO of another", [TokenShared, NoOrder])
            .calls([held(), look().at(2, 3).shows("bob", 10, 1)]),
        wrong("nil while free", [NoOrder]).calls([acquire("ann").at(0, 1).nil()]),
        wrong("nil after a wait for a free lock", [NoOrder])
            .calls([acquire("ann").block().at(0, 90).nil()]),
        wrong("a renewal that takes", [NoOrder]).calls([renew("ann").at(0, 1).granted(10, 1)]),
        wrong("a re-entry by TOKEN that takes", [NoOrder])
            .calls([acquire("ann").token(10).at(0, 1).granted(11, 1)]),
        wrong("OK for a stale token", [NoOrder]).calls([
            held(),
            release("ann").at(2, 3).left(0),
            fence(10).at(4, 5).done(),
        ]),
        wrong("ALL that leaves a hold", [NoOrder]).calls([
            held(),
            acquire("ann").at(2, 3).granted(10, 2),
            release("ann").all().at(4, 5).left(0),
            acquire("bob").at(6, 7).nil(),
        ]),
        wrong("a lock that outlives its removal", [NoOrder]).calls([
            held(),
            remove().at(2, 3).done(),
            release("ann").at(4, 5).left(0),
        ]),
    ]
}

fn leases() -> Vec<Example> {
    vec![
        wrong("a lock that does not expire", [NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").at(LEASE + 100, LEASE + 101).nil(),
        ]),
        wrong("a renewal long after the end", [NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            renew("ann").at(LEASE + 100, LEASE + 101).granted(10, 1),
        ]),
        wrong("a lease that ends too early", [Exclusion, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").at(LEASE - 10, LEASE - 9).granted(20, 1),
        ]),
        wrong("a lease that a re-entry shortens", [Exclusion, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            // The longer lease is remembered and told.
            acquire("ann").at(2, 3).granted(10, 2).px(50),
            acquire("bob").at(500, 501).granted(20, 1),
        ]),
        wrong("a remembered lease that a re-entry shortens", [NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("ann").px(50).at(2, 3).granted(10, 2),
        ]),
        wrong("a renewal that lengthens no lease", [Exclusion, NoOrder]).calls([
            acquire("ann").at(0, 1).granted(10, 1),
            renew("ann").px(9000).at(2, 3).granted(10, 1),
            acquire("bob").at(LEASE + 5, LEASE + 6).granted(20, 1),
        ]),
        wrong("a clock set back lengthens no lease", [Exclusion, NoOrder])
            .calls([
                acquire("ann").at(0, 1).granted(10, 1),
                acquire("bob").at(LEASE + 5, LEASE + 6).granted(20, 1),
            ])
            .steps(10, -5000),
        wrong("an eviction long after the fact", [Exclusion, NoOrder])
            .calls([
                acquire("ann").at(10, 11).granted(10, 1),
                acquire("bob").at(20, 21).granted(20, 1),
            ])
            .evicts(5, 9),
    ]
}
