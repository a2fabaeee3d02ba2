//! Small histories, each with one thing in it that is wrong. That nothing is found in a right one, each fault run shows.

mod calls;
mod deadlocks;
mod sessions;
mod several_servers;
mod shares;
mod wrong;
mod wrong_besides;

use std::collections::BTreeSet;

use calls::{Example, acquire, look, release, right, wrong};
use history::Kind::NoOrder;
use history::{Mode, Outcome, Refusal, Register, Written};

/// The checker finds in each example what the server did wrong, and nothing else.
#[test]
fn what_no_lock_may_do() {
    let examples = wrong::examples()
        .chain(wrong_besides::examples())
        .chain(several_servers::examples())
        .chain(shares::examples())
        .chain(deadlocks::examples())
        .chain(sessions::examples());
    let mut misjudged = Vec::new();
    for example in examples {
        let Example { name, kinds, .. } = &example;
        let report = example.check();
        let expected: BTreeSet<_> = kinds.iter().copied().collect();
        let found: BTreeSet<_> = report.violations.iter().map(|found| found.kind).collect();
        if found != expected || !report.undecided.is_empty() {
            misjudged.push(format!("{name}: expected {expected:?}, but\n{report:#?}"));
        }
    }
    assert!(misjudged.is_empty(), "{}", misjudged.join("\n"));
}

#[test]
fn counts() {
    let example = right("a hand-off, a re-entry and three writes")
        .calls([
            acquire("ann").at(0, 1).granted(10, 1),
            acquire("bob").block().at(2, 21).granted(30, 1),
            acquire("ann").at(5, 6).granted(10, 2),
            release("ann").all().at(19, 20).left(0),
        ])
        .writes(Register::Sql, 10, 7, Written::Taken)
        .writes(Register::Sql, 30, 22, Written::Taken)
        .writes(Register::Sql, 10, 24, Written::Refused);
    let report = example.check();
    assert!(report.passed(), "{report:#?}");
    let counts = &report.counts;
    assert_eq!(counts.operations, 4);
    let grants = (counts.grants, counts.hand_offs, counts.re_entries);
    assert_eq!(grants, (2, 1, 1));
    let writes = &counts.writes[&Register::Sql];
    assert_eq!((writes.taken, writes.stale_refused), (2, 1));
}

#[test]
fn who_lost_a_grant() {
    let acquired = acquire("ann").at(0, 1).granted(10, 1);
    let released = release("ann").at(2, 3).left(0);
    let back = look().at(20, 21).shows("ann", 10, 1);
    let cases = [
        (
            vec![acquire("bob").at(20, 21).granted(20, 1)],
            &["by ann"][..],
        ),
        // A grant that is back because its release was lost has not been taken from anybody.
        (
            vec![
                released.clone(),
                acquire("bob").at(4, 5).granted(20, 1),
                back.clone(),
            ],
            &["by bob"],
        ),
        (
            vec![
                released,
                acquire("bob").at(4, 30).is(Outcome::Lost),
                look().at(5, 6).shows("bob", 20, 1),
                back,
            ],
            &[],
        ),
    ];
    for (calls, losers) in cases {
        let example = right("a loss").calls([acquired.clone()]).calls(calls);
        let report = example.loses(7, 9).mode(Mode::Lossy).check();
        assert!(report.passed(), "{report:#?}");
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
    let example = wrong("NOTHELD while held", [NoOrder]).calls([
        acquire("ann").at(0, 1).granted(10, 1),
        release("ann").at(2, 3).refused(Refusal::NotHeld),
        acquire("bob").at(4, 5).nil(),
    ]);
    let text = &example.check().violations[0].text;
    let unexplained = "nothing explains [0.002000 0.003000 client 317: RELEASE by ann -> NotHeld]";
    assert!(text.contains(unexplained), "{text}");
    let held = "held by ann with holds 1, token 10";
    assert!(text.contains(held), "{text}");
    assert!(!text.contains("bob"), "{text}");
}
