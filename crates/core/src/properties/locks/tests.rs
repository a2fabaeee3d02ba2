//! Histories of calls on locks keep the properties, and reach every case.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::sentences::{can_be_repeated, keeps_the_invariants, leaves_later_grants_alone};
use super::{Called, run};
use crate::model::errors::{FULL, LOWER, NOT_RAISABLE, SEVERAL, USED_UP};
use crate::model::lock::{NEVER, Reply, Verb};

/// Any history: the bytes of each step.
fn histories() -> impl Strategy<Value = Vec<[u8; 24]>> {
    vec(any::<[u8; 24]>(), 2..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 512 }))]

    #[test]
    fn every_call_keeps_the_invariants(history in histories()) {
        let mut highest = 0;
        run(&history, |called| keeps_the_invariants(called, &mut highest));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]

    #[test]
    fn a_repeated_call_changes_nothing_more(history in histories()) {
        run(&history, can_be_repeated);
    }

    #[test]
    fn a_call_with_the_token_of_an_ended_grant_does_nothing(history in histories()) {
        let mut bound = Vec::new();
        run(&history, |called| leaves_later_grants_alone(called, &mut bound));
    }
}

/// The sentences test a rule only if the histories reach it.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_outcome() {
    let mut times = BTreeMap::<String, usize>::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..600 {
        let history = histories().new_tree(&mut runner).expect("a history");
        run(&history.current(), |called| {
            for (verb, outcome) in outcomes(called) {
                *times.entry(format!("{verb} {outcome}")).or_default() += 1;
            }
        });
    }
    for (verb, outcomes) in [
        (
            "acquire",
            "NOTHELD NOTOWNER FENCED NOTALONE nil new room more kept narrower only",
        ),
        ("release", "NOTHELD NOTOWNER FENCED less kept last free"),
        (
            "renew",
            "NOTHELD NOTOWNER FENCED NOTALONE kept narrower only wider opened",
        ),
        ("raise", "NOTHELD NOTOWNER FENCED AHEAD kept lifted clock"),
        ("fence", "FENCED ok"),
        ("lock", "ended cut persisted many grew shrank"),
    ] {
        let errors: &[_] = match verb {
            "acquire" => &[FULL, USED_UP],
            "renew" => &[SEVERAL],
            "raise" => &[LOWER, NOT_RAISABLE],
            _ => &[],
        };
        for outcome in outcomes.split(' ').chain(errors.iter().copied()) {
            let outcome = format!("{verb} {outcome}");
            let reached = times.get(&outcome).copied().unwrap_or(0);
            assert!(reached >= 10, "{outcome}: {reached} times; {times:#?}");
        }
    }
}

/// The names of what a call and its lock are an example of.
fn outcomes(called: &Called<'_>) -> Vec<(&'static str, &'static str)> {
    let Called { call, reply, .. } = *called;
    let (before, after) = (&called.before.model, &called.after.model);
    let was = before.holder(call.key, call.owner);
    let is = after.holder(call.key, call.owner);
    let limits = was.map(|was| was.limit).zip(is.map(|is| is.limit));
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
        Reply::Ok => "ok",
        Reply::Left(0) if after.locks.contains_key(&call.key) => "last",
        Reply::Left(0) => "free",
        Reply::Left(_) if was == is => "kept",
        Reply::Left(_) => "less",
        Reply::Grant { .. } => match limits {
            None if before.holders(call.key).is_empty() => "new",
            None => "room",
            Some((was, 1)) if was > 1 => "only",
            Some((1, is)) if is > 1 => "opened",
            Some((was, is)) if was < is => "wider",
            Some((was, is)) if was > is => "narrower",
            _ if before.seen < after.seen => "clock",
            _ if was.map(|was| was.token) < is.map(|is| is.token) => "lifted",
            _ if was.map(|was| was.holds) < is.map(|is| is.holds) => "more",
            _ => "kept",
        },
    };
    let mut all = vec![(verb, outcome)];
    let counts = [before, after].map(|server| server.holders(call.key).len());
    if let Some(lock) = before.locks.get(&call.key) {
        let latest = lock.holders.iter().map(|holder| holder.end).max();
        let is_shared = !lock.is_exclusive();
        let states = [
            ("ended", is_shared && counts[0] < lock.holders.len()),
            ("cut", is_shared && Some(lock.expiry) < latest),
            ("persisted", lock.expiry == NEVER),
            ("many", counts[0] > 16),
            ("grew", counts == [16, 17]),
            ("shrank", counts == [9, 8]),
        ];
        let states = states.into_iter().filter(|(_, is_so)| *is_so);
        all.extend(states.map(|(state, _)| ("lock", state)));
    }
    all
}
