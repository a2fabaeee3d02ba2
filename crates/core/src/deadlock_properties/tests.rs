//! The search finds every cycle of the rule, the shortest first, and a caller that it refuses could never get the lock.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::game::{NONE, Party, can_get_in};
use super::rule::is_cycle;
use super::system::{Habits, Judged, Operation, System};

const LOCKS: usize = 4;
const OWNERS: usize = 5;

fn limits() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(1), 2 => Just(NONE), 2 => Just(2), 1 => Just(3), 1 => Just(4)]
}

/// The calls of owners that may have several tasks, under an administrator.
fn anything() -> impl Strategy<Value = Vec<Operation>> {
    let party = || (0..OWNERS, limits()).prop_map(|(owner, limit)| Party { owner, limit });
    // Often the next one's, so that some cycles are long.
    let distance = prop_oneof![Just(1), 0..LOCKS];
    let operation = prop_oneof![
        16 => (distance, party()).prop_map(|(distance, call)| {
            let lock = (call.owner + distance) % LOCKS;
            Operation::Acquire { lock, call }
        }),
        4 => (0..LOCKS, 0..OWNERS).prop_map(|(lock, owner)| Operation::Release { lock, owner }),
        1 => (0..LOCKS, 0..3_usize).prop_map(|(lock, place)| Operation::Widen { lock, place }),
        2 => (0..LOCKS, 0..4_usize).prop_map(|(lock, place)| Operation::Leave { lock, place }),
        3 => (0..LOCKS, [option::of(party()), option::of(party())])
            .prop_map(|(lock, holders)| Operation::Restore { lock, holders }),
    ];
    // At first each lock has a holder of its own, and perhaps a second one.
    let held = vec((limits(), party()), LOCKS).prop_map(|holders| {
        let calls = holders
            .into_iter()
            .enumerate()
            .flat_map(|(lock, (limit, second))| {
                let first = Party { owner: lock, limit };
                let second = (second.limit > 1).then_some(second);
                let both = [Some(first), second].into_iter().flatten();
                both.map(move |call| Operation::Acquire { lock, call })
            });
        calls.collect::<Vec<_>>()
    });
    (held, vec(operation, 1..30)).prop_map(|(held, then)| [held, then].concat())
}

fn habits() -> impl Strategy<Value = Habits> {
    any::<[bool; 2]>().prop_map(|[one_task, tells_nobody]| Habits {
        one_task,
        tells_nobody,
    })
}

/// The calls of owners of one task each, with readers' and writers' locks.
fn readers_and_writers() -> impl Strategy<Value = Vec<Operation>> {
    let limit = prop_oneof![Just(1), Just(NONE)];
    let party = (0..OWNERS, limit).prop_map(|(owner, limit)| Party { owner, limit });
    let operation = prop_oneof![
        8 => (0..LOCKS, party).prop_map(|(lock, call)| Operation::Acquire { lock, call }),
        2 => (0..LOCKS, 0..OWNERS).prop_map(|(lock, owner)| Operation::Release { lock, owner }),
    ];
    vec(operation, 1..60)
}

/// Every call that was about to wait.
fn judged(operations: &[Operation], habits: Habits) -> impl Iterator<Item = Judged> {
    let mut system = System::new(LOCKS, habits);
    let operations = operations.iter();
    operations.filter_map(move |operation| system.apply(*operation))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 1024 }))]

    #[test]
    fn whoever_is_told_of_a_cycle_could_never_get_in(
        operations in anything(),
        habits in habits(),
    ) {
        for judged in judged(&operations, habits) {
            if let Some(cycle) = &judged.cycle {
                prop_assert!(
                    !can_get_in(&judged.locks, judged.caller, judged.lock),
                    "{cycle:?} is none: {judged:?}"
                );
            }
        }
    }

    #[test]
    fn every_cycle_of_the_rule_is_found_and_the_shortest_first(
        operations in anything(),
        habits in habits(),
    ) {
        for judged in judged(&operations, habits).filter(Judged::is_settled) {
            let owners = judged.cycle.as_ref().map(Vec::len);
            prop_assert_eq!(owners, judged.shortest_cycle(), "{:?}", &judged);
            if let Some(cycle) = &judged.cycle {
                prop_assert_eq!(cycle[0], (judged.caller, judged.lock));
                prop_assert!(is_cycle(&judged.locks, cycle), "{:?}", &judged);
            }
        }
    }

    #[test]
    fn a_reader_or_writer_is_told_whenever_it_could_never_get_in(
        operations in readers_and_writers(),
    ) {
        let mut system = System::new(LOCKS, Habits { one_task: true, tells_nobody: false });
        for operation in operations {
            let (Operation::Acquire { call: Party { owner, .. }, .. }
            | Operation::Release { owner, .. }) = operation
            else {
                continue;
            };
            if system.is_waiting(owner) {
                continue;
            }
            if let Some(judged) = system.apply(operation) {
                let gets_in = can_get_in(&judged.locks, judged.caller, judged.lock);
                prop_assert_eq!(judged.cycle.is_none(), gets_in, "{:?}", judged);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_case() {
    let mut runner = TestRunner::deterministic();
    let mut cases = BTreeMap::<_, usize>::new();
    for _ in 0..2000 {
        let history = (anything(), habits()).new_tree(&mut runner);
        let (operations, habits) = history.unwrap().current();
        for judged in judged(&operations, habits) {
            let mut count = |case| *cases.entry(case).or_default() += 1;
            let Some(cycle) = &judged.cycle else {
                if !can_get_in(&judged.locks, judged.caller, judged.lock) {
                    count("no cycle, and still it never gets in");
                }
                continue;
            };
            count(match cycle.len() {
                2 => "two owners",
                3 => "three owners",
                _ => "more owners",
            });
            let line = &judged.locks[judged.lock].line;
            let own = line.iter().filter(|call| call.owner == judged.caller);
            if own.count() > 1 {
                count("the caller is in line already");
            }
            if cycle.iter().all(|(owner, lock)| {
                let mut line = judged.locks[*lock].line.iter();
                line.find(|call| call.owner == *owner).unwrap().limit > 1
            }) {
                count("nobody in the cycle wants to be alone");
            }
            if cycle
                .iter()
                .any(|(_, lock)| judged.locks[*lock].holders.len() > 1)
            {
                count("through a shared lock");
            }
            if !judged.is_settled() {
                count("beside a lock whose holder is in line");
            }
        }
    }
    assert_eq!(cases.len(), 8, "{cases:?}");
    assert!(cases.values().all(|count| *count > 2), "{cases:?}");
}
