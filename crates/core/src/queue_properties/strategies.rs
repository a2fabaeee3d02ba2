//! Random histories for the tests.

use proptest::prelude::*;

use super::history::{History, Step};
use super::model::{OWNERS, Operation, SPOTS, Spot};

fn spots() -> impl Strategy<Value = Spot> {
    prop_oneof![
        3 => Just(SPOTS[0]),
        1 => prop::sample::select(&SPOTS[..]),
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
        14 => (spots(), owners(), holds, block).prop_map(|(spot, owner, holds, block)| {
            Step::Operation(Operation::Acquire { spot, owner, holds, block })
        }),
        5 => (spots(), owners(), any::<bool>())
            .prop_map(|(spot, owner, all)| Step::Operation(Operation::Release { spot, owner, all })),
        1 => spots().prop_map(|spot| Step::Operation(Operation::Raise(spot))),
        2 => any::<usize>().prop_map(Step::Disconnect),
        2 => any::<usize>().prop_map(Step::Deliver),
        3 => any::<usize>().prop_map(Step::Abandon),
        3 => (1..15_u64).prop_map(|millis| Step::Operation(Operation::Pass(millis))),
        2 => spots().prop_map(|spot| Step::Operation(Operation::Del(spot))),
        1 => (0..2).prop_map(|database| Step::Operation(Operation::Flush(database))),
        1 => Just(Step::Operation(Operation::Swap)),
        5 => Just(Step::Operation(Operation::Tick)),
    ]
}

pub(super) fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(steps(), 1..150).prop_map(History)
}
