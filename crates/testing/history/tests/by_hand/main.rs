//! Small histories, each with one thing in it that is wrong. That nothing is found in a right one, each fault run shows.

mod calls;
mod deadlocks;
mod sessions;
mod several_servers;
mod shares;
mod wrong;
mod wrong_besides;

use std::collections::BTreeSet;

use history::{History, Kind, Mode, check};

/// The subject of a history, how it is judged, the history, and its errors.
pub(crate) type Example = (&'static str, Mode, History, Vec<Kind>);

fn judge(examples: Vec<Example>) {
    let mut misjudged = Vec::new();
    for (name, mode, history, kinds) in examples {
        let report = check(&history, mode);
        let expected: BTreeSet<_> = kinds.into_iter().collect();
        let found: BTreeSet<_> = report.violations.iter().map(|found| found.kind).collect();
        if found != expected || !report.undecided.is_empty() {
            misjudged.push(format!("{name}: expected {expected:?}, but\n{report}"));
        }
    }
    assert!(misjudged.is_empty(), "{}", misjudged.join("\n"));
}

#[test]
fn what_no_lock_may_do() {
    judge(wrong::examples());
    judge(wrong_besides::examples());
    judge(several_servers::examples());
    judge(shares::examples());
    judge(deadlocks::examples());
    judge(sessions::examples());
}

#[test]
fn counts() {
    use calls::{Besides, Words, acquire, calls, release};
    use history::{Outcome, Register, Written};
    let history = calls([
        acquire("ann").at(0, 1).granted(10, 1),
        acquire("bob").block().at(2, 21).granted(30, 1),
        acquire("ann").at(5, 6).granted(10, 2),
        release("ann").all().at(19, 20).is(Outcome::Left(0)),
    ])
    .writes(Register::Sql, 10, 7, Written::Taken)
    .writes(Register::Sql, 30, 22, Written::Taken)
    .writes(Register::Sql, 10, 24, Written::Refused);
    let report = check(&history, Mode::Strict);
    assert!(report.passed(), "{report}");
    let counts = &report.counts;
    assert_eq!(counts.operations, 4);
    assert_eq!(
        (counts.grants, counts.hand_offs, counts.re_entries),
        (2, 1, 1)
    );
    let writes = &counts.writes[&Register::Sql];
    assert_eq!((writes.taken, writes.stale_refused), (2, 1));
}

#[test]
fn who_lost_a_grant() {
    use calls::{Besides, Words, acquire, calls, look, release};
    use history::Outcome;
    let acquired = || acquire("ann").at(0, 1).granted(10, 1);
    let released = || release("ann").at(2, 3).is(Outcome::Left(0));
    let cases = [
        (
            calls([acquired(), acquire("bob").at(20, 21).granted(20, 1)]),
            &["by ann"][..],
        ),
        // A grant that is back because its release was lost has not been taken from anybody.
        (
            calls([
                acquired(),
                released(),
                acquire("bob").at(4, 5).granted(20, 1),
                look().at(20, 21).shows("ann", 10, 1),
            ]),
            &["by bob"],
        ),
        (
            calls([
                acquired(),
                released(),
                acquire("bob").at(4, 30).is(Outcome::Lost),
                look().at(5, 6).shows("bob", 20, 1),
                look().at(20, 21).shows("ann", 10, 1),
            ]),
            &[],
        ),
    ];
    for (history, losers) in cases {
        let report = check(&history.loses(7, 9), Mode::Lossy);
        assert!(report.passed(), "{report}");
        let losses = &report.losses;
        assert_eq!(report.counts.lost_grants, losers.len(), "{losses:?}");
        let pairs = losses.iter().zip(losers);
        for (loss, loser) in pairs {
            let (lost, _) = loss.split_once("was to stand").expect("whose it was");
            assert!(lost.contains(loser), "{loss}");
        }
    }
}

#[test]
fn an_explanation_tells_the_shortest_history_that_is_wrong() {
    use calls::{Words, acquire, calls, release};
    use history::{Outcome, Refusal};
    let history = calls([
        acquire("ann").at(0, 1).granted(10, 1),
        release("ann").at(2, 3).refused(Refusal::NotHeld),
        acquire("bob").at(4, 5).is(Outcome::Nil),
    ]);
    let report = check(&history, Mode::Strict);
    let text = &report.violations[0].text;
    let wrong = "nothing explains [0.002000 0.003000 client 317: RELEASE by ann -> NotHeld]";
    assert!(text.contains(wrong), "{text}");
    assert!(
        text.contains("held by ann with holds 1, token 10"),
        "{text}"
    );
    assert!(!text.contains("bob"), "{text}");
}
