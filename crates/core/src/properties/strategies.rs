//! Random histories for the tests.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::history::{HOUR, History, KEYS, MAX_TOKEN, NearToken, NearVerb, Step, TODAY};
use super::model::{Event, Lock, MAX_HOLDS, Server, Settings, TOKENS_END};
use super::system::OWNERS;
use crate::Lease;

/// Any history.
pub(super) fn histories() -> impl Strategy<Value = History> {
    (starts(), vec(steps(), 1..60)).prop_map(|(start, steps)| History::new(start, steps))
}

fn starts() -> impl Strategy<Value = Server> {
    let nows = prop_oneof![8 => Just(TODAY), 1 => Just(0), 1 => Just(TOKENS_END - 5)];
    let clocks = nows.prop_flat_map(|now| {
        let near = (-HOUR..HOUR).prop_map(move |by| now.saturating_add_signed(by));
        let seen = prop_oneof![3 => Just(0), 4 => near, 1 => MAX_TOKEN - 4..=MAX_TOKEN];
        (Just(now), seen)
    });
    let settings = (
        leases(),
        prop_oneof![Just(0), Just(5_000), Just(86_400_000)],
    )
        .prop_map(|(default_lease, max_lead)| Settings {
            default_lease,
            max_lead,
        });
    let locks = vec(option::of(start_locks()), KEYS);
    (clocks, settings, locks).prop_map(|((now, seen), settings, locks)| Server {
        locks,
        seen,
        now,
        settings,
    })
}

/// A lock to start with.
fn start_locks() -> impl Strategy<Value = Lock> {
    let holds = prop_oneof![
        2 => 1..4_u64,
        1 => MAX_HOLDS - 2..=MAX_HOLDS,
    ];
    (
        0..OWNERS.len(),
        0..5_000_000_u64,
        holds,
        leases(),
        option::weighted(0.8, 0..40_000_u64),
    )
        .prop_map(|(owner, token, holds, lease, deadline)| Lock {
            owner,
            token,
            holds,
            lease,
            deadline,
        })
}

fn leases() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 1..60_000_u64,
        1 => Just(1),
        1 => Just(Lease::MAX.millis()),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let calls = (
        0..KEYS,
        option::weighted(0.3, 0..OWNERS.len()),
        option::weighted(0.4, tokens()),
        verbs(),
    )
        .prop_map(|(key, owner, token, verb)| Step::Call {
            key,
            owner,
            token,
            verb,
        });
    let clocks = prop_oneof![
        8 => (0..3_000_i64).prop_map(Step::Clock),
        2 => (0..40_000_000_i64).prop_map(Step::Clock),
        4 => (0..KEYS, -1..=1_i64).prop_map(|(key, by)| Step::Deadline(key, by)),
        2 => (-HOUR..HOUR).prop_map(Step::Clock),
        1 => prop_oneof![
            4 => Just(TODAY),
            1 => Just(0),
            1 => Just(MAX_TOKEN),
            1 => Just(2 * TOKENS_END),
        ]
        .prop_map(|now| Step::Event(Event::Clock(now))),
    ];
    let administrators = prop_oneof![
        2 => (0..KEYS, leases()).prop_map(|(key, ms)| Event::Pexpire(key, ms)),
        2 => (0..KEYS).prop_map(Event::Persist),
        1 => (0..KEYS).prop_map(Event::Del),
    ]
    .prop_map(Step::Event);
    let seens = prop_oneof![
        9 => (-2..=3_i64).prop_map(NearToken::Seen),
        3 => (-HOUR..HOUR).prop_map(NearToken::Lead),
        1 => (MAX_TOKEN - 4..=MAX_TOKEN).prop_map(NearToken::Exactly),
    ]
    .prop_map(Step::Seen);
    prop_oneof![20 => calls, 5 => clocks, 2 => administrators, 1 => seens]
}

fn tokens() -> impl Strategy<Value = NearToken> {
    prop_oneof![
        8 => Just(NearToken::Grant(0)),
        4 => (-2..=2_i64).prop_map(NearToken::Grant),
        2 => (-2..=2_i64).prop_map(NearToken::Seen),
        1 => prop_oneof![Just(1), Just(MAX_TOKEN)].prop_map(NearToken::Exactly),
    ]
}

fn raises() -> impl Strategy<Value = NearToken> {
    prop_oneof![
        6 => (-1..=3_i64).prop_map(NearToken::Grant),
        3 => (-1..=2_i64).prop_map(NearToken::Seen),
        3 => (-1..=1_i64).prop_map(NearToken::Lead),
        1 => prop_oneof![Just(1), Just(MAX_TOKEN)].prop_map(NearToken::Exactly),
    ]
}

fn verbs() -> impl Strategy<Value = NearVerb> {
    let lease = || option::weighted(0.4, leases());
    prop_oneof![
        10 => (lease(), option::of(-2..=2_i64)).prop_map(|(px, by)| NearVerb::Acquire(px, by)),
        4 => option::of(-3..=1_i64).prop_map(NearVerb::Release),
        1 => Just(NearVerb::ReleaseAll),
        6 => (lease(), option::of(raises())).prop_map(|(px, raise)| NearVerb::Renew(px, raise)),
        1 => Just(NearVerb::Fence),
    ]
}
