use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

use super::key::Stored;
use super::model::{Model, Reply, Verb};
use super::strategies::{Operation, Step, histories};
use super::system::System;
use crate::Deadline;

/// Runs a history on the model and the system; `check` gets each operation, the model before it, the
/// reply of a call and the system after it.
fn run(
    (start, steps): &(Model, Vec<Step>),
    mut check: impl FnMut(Operation, &Model, Option<Reply>, &System) -> TestCaseResult,
) -> TestCaseResult {
    let mut model = start.clone();
    let mut system = System::like(&model);
    for step in steps {
        let Some(operation) = step.at(&model) else {
            continue;
        };
        let before = model.clone();
        let (expected, reply) = match operation {
            Operation::Call(call) => (Some(model.call(call)), Some(system.call(call))),
            Operation::Event(event) => {
                model.apply(event);
                system.apply(event);
                (None, None)
            }
            Operation::Tick => {
                model.tick();
                system.tick();
                (None, None)
            }
        };
        prop_assert_eq!(reply, expected, "{:?} in {:?}", operation, before);
        prop_assert_eq!(&system.told, &model.told, "{:?} in {:?}", operation, before);
        prop_assert_eq!(
            system.lock.live(system.now()),
            model.live(),
            "{:?} in {:?}",
            operation,
            before
        );
        let expiry =
            (!model.holders.is_empty()).then(|| model.expiry.map_or(Deadline::Never, Deadline::At));
        prop_assert_eq!(
            system.lock.expiry(),
            expiry,
            "{:?} in {:?}",
            operation,
            before
        );
        prop_assert_eq!(system.seen(), model.seen, "{:?} in {:?}", operation, before);
        check(operation, &before, reply, &system)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 512 }))]

    #[test]
    fn the_rules_agree_with_the_model(history in histories()) {
        run(&history, |_, _, _, _| Ok(()))?;
    }

    #[test]
    fn every_call_keeps_the_invariants(history in histories()) {
        run(&history, |operation, before, reply, after| {
            prop_assert_eq!(&after.replica, &after.lock, "{:?}: the replica", operation);
            if let Stored::Shared(shares, _) = &after.lock {
                prop_assert!(shares.least_limit().allows(shares.count()), "too many");
                prop_assert!(shares.count() > 1 || shares.least_limit() != crate::Limit::ONE);
            }
            if let (Operation::Call(_), Some(Reply::Error(_) | Reply::Nil)) = (operation, reply) {
                // Only what was due before it has changed.
                let mut due = before.clone();
                due.tick();
                prop_assert_eq!(after.lock.live(after.now()), due.live());
            }
            // Whoever holds the lock or is first in line is where the contract has it.
            prop_assert!(after.seen() >= before.seen);
            Ok(())
        })?;
    }
}

/// The properties test a rule only if the histories reach it.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_outcome() {
    let mut outcomes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..1200 {
        let history = histories().new_tree(&mut runner).unwrap().current();
        run(&history, |operation, before, reply, after| {
            let mut note = |verb, outcome| *outcomes.entry((verb, outcome)).or_default() += 1;
            let told = &after.told[before.told.len()..];
            for (_, reply) in told {
                note(
                    "in line",
                    match reply {
                        Reply::Error(error) => error,
                        _ => "granted",
                    },
                );
            }
            if told.len() > 2 {
                note("in line", "several at once");
            }
            if matches!(after.lock, Stored::Shared(..))
                && before.live().len() < before.holders.len()
            {
                note("shares", "ended before the others");
            }
            if before.expiry < before.holders.iter().filter_map(|h| h.end).max()
                && before.expiry.is_some()
                && before.holders.len() > 1
            {
                note("shares", "cut");
            }
            let (Operation::Call(call), Some(reply)) = (operation, reply) else {
                return Ok(());
            };
            let mut due = before.clone();
            due.tick();
            let mine = due.live().into_iter().find(|h| h.owner == call.owner);
            let verb = match call.verb {
                Verb::Acquire { .. } => "acquire",
                Verb::Release(_) => "release",
                Verb::Renew { raise: Some(_), .. } => "raise",
                Verb::Renew { .. } => "renew",
                Verb::Fence => "fence",
            };
            note(
                verb,
                match (reply, mine) {
                    (Reply::Error(error), _) => error,
                    (Reply::Nil, _) => "nil",
                    (Reply::Waits, _) => "waits",
                    (Reply::Grant { limit, .. }, Some(mine)) if limit == mine.limit => "again",
                    (Reply::Grant { limit: 1, .. }, Some(_)) => "alone",
                    (Reply::Grant { .. }, Some(mine)) if mine.limit == 1 => "opened",
                    (Reply::Grant { .. }, Some(_)) => "another limit",
                    (Reply::Grant { .. }, None) if due.live().is_empty() => "free",
                    (Reply::Grant { .. }, None) => "room",
                    (Reply::Left(0), _) => "gone",
                    (Reply::Left(_), _) => "left",
                    (Reply::Ok, _) => "ok",
                },
            );
            Ok(())
        })
        .unwrap();
    }
    for (verb, wanted) in [
        (
            "acquire",
            "NOTHELD NOTOWNER FENCED NOTALONE nil waits again alone free room",
        ),
        ("release", "NOTHELD NOTOWNER FENCED gone left"),
        (
            "renew",
            "NOTHELD NOTOWNER FENCED NOTALONE again alone opened",
        ),
        ("raise", "NOTHELD NOTOWNER FENCED AHEAD again"),
        ("fence", "FENCED ok"),
        ("in line", "granted NOTALONE"),
    ] {
        for outcome in wanted.split(' ') {
            check_reached(&outcomes, verb, outcome);
        }
    }
    for (verb, outcome) in [
        ("acquire", super::model::FULL),
        ("acquire", super::model::USED_UP),
        ("acquire", "another limit"),
        ("renew", super::model::SEVERAL),
        ("renew", "another limit"),
        ("raise", super::model::NOT_RAISABLE),
        ("in line", "several at once"),
        ("shares", "ended before the others"),
        ("shares", "cut"),
    ] {
        check_reached(&outcomes, verb, outcome);
    }
}

fn check_reached(outcomes: &BTreeMap<(&str, &str), usize>, verb: &str, outcome: &str) {
    let times = outcomes
        .iter()
        .find(|((v, o), _)| (*v, *o) == (verb, outcome));
    let times = times.map_or(0, |(_, times)| *times);
    assert!(
        times >= 10,
        "{verb}: {outcome}: {times} times; {outcomes:#?}"
    );
}
