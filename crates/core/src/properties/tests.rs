use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::history::Operation;
use super::invariants::{
    agree_with_the_model, bear_repetition, keep_the_invariants, leave_later_grants_alone, walk,
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
    fn a_call_repeated_changes_nothing_more(history in histories()) {
        bear_repetition(&history)?;
    }

    #[test]
    fn a_call_bound_to_a_grant_that_is_over_does_nothing(history in histories()) {
        leave_later_grants_alone(&history)?;
    }
}

/// The properties say little of a rule that the histories pass by.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_come_to_every_outcome() {
    let mut outcomes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        let history = histories().new_tree(&mut runner).unwrap().current();
        walk(&history, |before, operation, reply, after| {
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
            &["new", "changed", "as it was", "nil", LIMIT, USED_UP][..],
        ),
        ("release", &refused, &["changed", "as it was", "free"]),
        ("renew", &refused, &["changed", "as it was"]),
        (
            "raise",
            &refused,
            &["changed", "as it was", "clock lifted", "AHEAD", LOWER],
        ),
        ("fence", &["FENCED"], &["as it was"]),
    ] {
        for came in refused.iter().chain(others) {
            let times = outcomes.get(&(verb, came)).copied().unwrap_or(0);
            assert!(times >= 10, "{verb}: {came}: {times} times; {outcomes:#?}");
        }
    }
}

/// A call and what it came to, in a word or two.
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
    let came = match reply {
        Reply::Error(error) => error,
        Reply::Nil => "nil",
        Reply::Left(0) => "free",
        _ if before.lock(call.key).is_none() => "new",
        _ if before == after => "as it was",
        _ if after.seen() > before.seen() => "clock lifted",
        _ => "changed",
    };
    (verb, came)
}
