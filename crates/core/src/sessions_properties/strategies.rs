//! Random histories.

use proptest::collection::vec;
use proptest::prelude::*;

/// Numbers pick one of what there is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Connect,
    Disconnect(usize, bool),
    /// Its connection takes another user.
    Detach(usize),
    Open(usize, u64),
    OpenAgain(usize),
    Poll {
        session: usize,
        connection: usize,
        block: u64,
        multi: bool,
        stranger: bool,
    },
    Unblock(usize),
    Acquire {
        session: usize,
        lock: u8,
        lease: u64,
    },
    Move {
        session: usize,
        hold: usize,
        lease: u64,
    },
    Change {
        hold: usize,
        lease: u64,
    },
    TakeOut(usize),
    Raise(usize),
    Release {
        hold: usize,
        by: usize,
    },
    GiveBack(usize),
    Delete(u8),
    Flush(u8),
    Cut {
        hold: usize,
        ms: u64,
        is_told: bool,
    },
    Persist(usize),
    Report(usize),
    Close(usize),
    EndAll,
    Command(u8),
    Block(bool),
    Iterate {
        slice: usize,
        forget: bool,
    },
    Pass(u64),
    Stall(u64),
    Step(u64),
}

fn micros() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1..2_000_u64,
        6 => (1..400_u64).prop_map(|ms| ms * 1000),
        4 => (1..40_u64).prop_map(|tenths| tenths * 100_000),
        1 => (1..40_u64).prop_map(|seconds| seconds * 1_000_000),
    ]
}

fn leases() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1000..4000_u64, 2 => Just(30_000_u64), 1 => 1000..100_000_u64]
}

fn op() -> impl Strategy<Value = Op> {
    let one = 0..100_usize;
    let lock = 0..4_u8;
    let block = prop_oneof![2 => Just(0_u64), 3 => micros(), 2 => Just(u64::MAX / 4)];
    prop_oneof![
        2 => Just(Op::Connect),
        2 => (one.clone(), any::<bool>()).prop_map(|(connection, read)| Op::Disconnect(connection, read)),
        5 => (one.clone(), prop_oneof![Just(1000_u64), Just(3000), Just(60_000)])
            .prop_map(|(connection, timeout)| Op::Open(connection, timeout)),
        1 => one.clone().prop_map(Op::OpenAgain),
        16 => (one.clone(), one.clone(), block, prop::bool::weighted(0.1), prop::bool::weighted(0.05)).prop_map(
            |(session, connection, block, multi, stranger)| Op::Poll { session, connection, block, multi, stranger }
        ),
        1 => one.clone().prop_map(Op::Detach),
        1 => one.clone().prop_map(Op::Unblock),
        10 => (one.clone(), lock.clone(), leases()).prop_map(|(session, lock, lease)| Op::Acquire { session, lock, lease }),
        3 => (one.clone(), one.clone(), leases()).prop_map(|(session, hold, lease)| Op::Move { session, hold, lease }),
        3 => (one.clone(), leases()).prop_map(|(hold, lease)| Op::Change { hold, lease }),
        1 => one.clone().prop_map(Op::TakeOut),
        1 => one.clone().prop_map(Op::Raise),
        2 => (one.clone(), one.clone()).prop_map(|(hold, by)| Op::Release { hold, by }),
        1 => one.clone().prop_map(Op::GiveBack),
        1 => lock.clone().prop_map(Op::Delete),
        1 => (0..9_u8).prop_map(Op::Flush),
        2 => (one.clone(), 0..3000_u64, any::<bool>()).prop_map(|(hold, ms, is_told)| Op::Cut { hold, ms, is_told }),
        2 => one.clone().prop_map(Op::Persist),
        1 => one.clone().prop_map(Op::Report),
        2 => one.prop_map(Op::Close),
        1 => prop::bool::weighted(0.1).prop_map(|ends| if ends { Op::EndAll } else { Op::Connect }),
        3 => lock.prop_map(Op::Command),
        1 => prop::bool::weighted(0.4).prop_map(Op::Block),
        22 => (prop_oneof![3 => Just(usize::MAX), 1 => 0..3_usize], prop::bool::weighted(0.1))
            .prop_map(|(slice, forget)| Op::Iterate { slice, forget }),
        16 => micros().prop_map(Op::Pass),
        3 => micros().prop_map(Op::Stall),
        1 => (0..20_000_u64).prop_map(Op::Step),
    ]
}

pub(super) fn history() -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..120)
}
