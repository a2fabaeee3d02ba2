//! Random histories for the tests.

use proptest::prelude::*;

use super::history::{History, Step};
use super::model::{NAMES, Name, OWNERS, Operation};

fn names() -> impl Strategy<Value = Name> {
    prop_oneof![
        3 => Just(NAMES[0]),
        1 => prop::sample::select(&NAMES[..]),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let holds = prop_oneof![
        4 => Just(None),
        4 => Just(Some(1)),
        2 => (2..4_u32).prop_map(Some),
    ];
    let block = prop_oneof![
        2 => Just(None),
        3 => Just(Some(0)),
        5 => (1..60_u64).prop_map(Some),
    ];
    let owners = || 0..OWNERS.len();
    prop_oneof![
        14 => (names(), owners(), holds, block).prop_map(|(name, owner, holds, block)| {
            Step::Operation(Operation::Acquire { name, owner, holds, block })
        }),
        5 => (names(), owners(), any::<bool>())
            .prop_map(|(name, owner, all)| Step::Operation(Operation::Release { name, owner, all })),
        1 => names().prop_map(|name| Step::Operation(Operation::Raise(name))),
        2 => any::<usize>().prop_map(Step::Disconnect),
        4 => any::<usize>().prop_map(Step::Write),
        4 => Just(Step::Operation(Operation::Send)),
        1 => any::<usize>().prop_map(Step::Confirm),
        6 => any::<usize>().prop_map(Step::Unsent),
        3 => any::<usize>().prop_map(Step::Abandon),
        3 => (1..15_u64).prop_map(|millis| Step::Operation(Operation::Pass(millis))),
        2 => names().prop_map(|name| Step::Operation(Operation::Del(name))),
        1 => (0..2).prop_map(|database| Step::Operation(Operation::Flush(database))),
        1 => Just(Step::Operation(Operation::Swap)),
        5 => Just(Step::Operation(Operation::Tick)),
    ]
}

pub(super) fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(steps(), 1..150).prop_map(History)
}
