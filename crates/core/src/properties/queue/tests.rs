//! Histories of waiting calls keep the properties, and reach every case.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{run, sentences};
use crate::model::call::End;

/// Any history: the bytes of each step.
fn histories() -> impl Strategy<Value = Vec<[u8; 16]>> {
    vec(any::<[u8; 16]>(), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]

    #[test]
    fn the_calls_wait_and_end_as_in_the_model(history in histories()) {
        run(&history, sentences::hold);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_case() {
    let mut runner = TestRunner::deterministic();
    let mut cases = BTreeSet::new();
    for _ in 0..192 {
        let history = histories()
            .new_tree(&mut runner)
            .expect("a history")
            .current();
        let model = run(&history, |_, _| {});
        cases.extend(model.cases);
        cases.extend(model.ended.iter().map(|(_, end)| match end {
            End::Answered => "answered",
            End::Told(_) => "told",
            End::SessionEnded => "session ended",
            End::Abandoned => "abandoned",
            End::TimedOut => "timed out",
            End::Cancelled => "cancelled",
            End::Disconnected => "disconnected",
            End::Refused(error) => error,
        }));
    }
    let expected = [
        "NOTALONE",
        "a call returns",
        "a call is passed over",
        "a changed grant stays",
        "a hold given back",
        "abandoned",
        "answered",
        "an unsent grant given back",
        "answered directly while pending",
        "cancelled",
        "disconnected",
        "given back too late",
        "given back whole",
        "no hold to give back",
        "queued while pending",
        "raised while pending",
        "repeated",
        "repeated on a free lock",
        "session ended",
        "several granted at once",
        "the last hold stays",
        "timed out",
        "told",
    ];
    let missing: Vec<_> = expected
        .iter()
        .filter(|case| !cases.contains(*case))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {cases:?}");
}
