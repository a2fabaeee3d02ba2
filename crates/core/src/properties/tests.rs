use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::history::Operation;
use super::invariants::{
    agree_with_the_model, are_repeatable, keep_the_invariants, leave_later_grants_alone, run,
};
use super::model::{Call, LIMIT, LOWER, Reply, USED_UP, Verb};
use super::strategies::histories;
use super::system::System;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 512 }))]

    #[test]
    fn the_rules_agree_with_the_model(history in histories()) {
        agree_with_the_model(&history)?;
    }

    #[test]
    fn every_call_keeps_the_invariants(history in histories()) {
        keep_the_invariants(&history)?;
    }

    #[test]
    fn a_repeated_call_changes_nothing_more(history in histories()) {
        are_repeatable(&history)?;
    }

    #[test]
    fn a_call_with_the_token_of_an_ended_grant_does_nothing(history in histories()) {
        leave_later_grants_alone(&history)?;
    }
}

/// The properties test a rule only if the histories reach it.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_outcome() {
    let mut outcomes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        let history = histories().new_tree(&mut runner).unwrap().current();
        run(&history, |before, operation, reply, after| {
            if let (Operation::Call(call), Some(reply)) = (operation, reply) {
                let outcome = outcome(before, call, reply, after);
                *outcomes.entry(outcome).or_default() += 1;
            }
            Ok(())
        })
        .unwrap();
    }
    let refused = ["NOTHELD", "NOTOWNER", "FENCED"];
    for (verb, refused, others) in [
        (
            "acquire",
            &refused[..],
            &["new", "changed", "unchanged", "nil", LIMIT, USED_UP][..],
        ),
        ("release", &refused, &["changed", "unchanged", "free"]),
        ("renew", &refused, &["changed", "unchanged"]),
        (
            "raise",
            &refused,
            &["changed", "unchanged", "clock lifted", "AHEAD", LOWER],
        ),
        ("fence", &["FENCED"], &["unchanged"]),
    ] {
        for outcome in refused.iter().chain(others) {
            let times = outcomes.get(&(verb, outcome)).copied().unwrap_or(0);
            assert!(
                times >= 10,
                "{verb}: {outcome}: {times} times; {outcomes:#?}"
            );
        }
    }
}

/// The names of a call and of its outcome.
fn outcome(
    before: &System,
    call: Call,
    reply: Reply,
    after: &System,
) -> (&'static str, &'static str) {
    let verb = match call.verb {
        Verb::Acquire { .. } => "acquire",
        Verb::Release(_) => "release",
        Verb::Renew { raise: None, .. } => "renew",
        Verb::Renew { .. } => "raise",
        Verb::Fence => "fence",
    };
    let outcome = match reply {
        Reply::Error(error) => error,
        Reply::Nil => "nil",
        Reply::Left(0) => "free",
        _ if before.lock(call.key).is_none() => "new",
        _ if before == after => "unchanged",
        _ if after.seen() > before.seen() => "clock lifted",
        _ => "changed",
    };
    (verb, outcome)
}
