//! Random histories.

use proptest::prelude::*;

use super::calls::Call;
use super::world::{CLIENTS, LOCKS, Mode};
use crate::keeping::Asked;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Call(Call),
    Pass(u64),
    Stall(u64),
    SetClock(i64),
    Mode(Mode),
}

fn calls() -> impl Strategy<Value = Call> {
    let client = 0..CLIENTS;
    let lock = 0..LOCKS;
    let grant = 0..8_usize;
    let asked = prop_oneof![Just(Asked::Acquire), Just(Asked::Renew)];
    let lease = prop::sample::select(vec![1000, 1500, 3000, 9000, 30_000]);
    let silence = prop::sample::select(vec![1000, 1000, 2500, 7000, 60_000]);
    let pace = prop::sample::select(vec![0, 0, 300, 900, 2000]);
    let pexpire = prop::sample::select(vec![1, 200, 1200, 5000, 100_000]);
    prop_oneof![
        12 => (client.clone(), lock.clone(), 0..3_usize, asked.clone(), silence, lease.clone()).prop_map(
            |(client, lock, share, asked, silence, lease)| Call::Keep {
                client, lock, share, asked, silence, lease,
            }
        ),
        3 => (grant.clone(), asked, lease)
            .prop_map(|(grant, asked, lease)| Call::Renew { grant, asked, lease }),
        1 => (grant.clone(), client.clone()).prop_map(|(grant, client)| Call::End { grant, client }),
        1 => grant.clone().prop_map(|grant| Call::Release { grant }),
        1 => (grant.clone(), client.clone()).prop_map(|(grant, client)| Call::GiveBack { grant, client }),
        1 => grant.clone().prop_map(|grant| Call::Raise { grant }),
        1 => lock.prop_map(|lock| Call::Del { lock }),
        1 => grant.clone().prop_map(|grant| Call::Lose { grant }),
        1 => prop_oneof![3 => (0..2).prop_map(|database| Call::Flush { database }), 1 => Just(Call::FlushAll)],
        2 => (grant.clone(), pexpire).prop_map(|(grant, ms)| Call::Pexpire { grant, ms }),
        1 => grant.prop_map(|grant| Call::Persist { grant }),
        2 => client.clone().prop_map(|client| Call::Close { client }),
        4 => (client, pace).prop_map(|(client, ms)| Call::Pace { client, ms }),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![
        4 => Just(Mode::Free),
        1 => Just(Mode::NoWrites),
        1 => Just(Mode::Paused),
        1 => (0..LOCKS).prop_map(Mode::Down),
    ];
    prop_oneof![
        12 => calls().prop_map(Step::Call),
        6 => prop_oneof![3 => 1..1000_u64, 1 => 1000..6000_u64].prop_map(Step::Pass),
        1 => (300..12_000_u64).prop_map(Step::Stall),
        1 => prop_oneof![-5000..5000_i64, -100..100_i64].prop_map(Step::SetClock),
        2 => mode.prop_map(Step::Mode),
    ]
}

/// A length of a tick, whether the server's clock lags, and what happens.
pub(super) fn histories() -> impl Strategy<Value = (u64, bool, Vec<Step>)> {
    let tick = prop::sample::select(vec![13_000, 60_000, 95_000, 95_000]);
    (tick, any::<bool>(), prop::collection::vec(steps(), 1..60))
}
