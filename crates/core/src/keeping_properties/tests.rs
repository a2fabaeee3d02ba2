use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::strategies::{Step, histories};
use super::world::{Mode, World};

fn run((tick, lags, steps): &(u64, bool, Vec<Step>)) -> World {
    let mut world = World::new(*tick, *lags);
    world.pass(100);
    for step in steps {
        match *step {
            Step::Call(call) => world.call(call),
            Step::Pass(ms) => world.pass(ms),
            Step::Stall(ms) => world.stall(ms),
            Step::SetClock(by) => world.set_clock(by),
            Step::Mode(mode) => world.set_mode(mode),
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]

    #[test]
    fn kept_leases_are_as_the_contract_has_them(history in histories()) {
        let mut world = run(&history);
        // Who closes leaves nothing behind.
        world.set_mode(Mode::Free);
        for client in world.clients.clone() {
            world.registry.client_closed(client.id);
        }
        while world.registry.sweep(1) {}
        prop_assert!(world.registry.is_idle() && world.registry.is_empty());
        world.registry.check();
    }
}

/// The properties test a rule only if the histories reach it.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_histories_reach_every_case() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    for _ in 0..200 {
        let history = histories().new_tree(&mut runner).unwrap().current();
        reached.extend(run(&history).reached);
    }
    let expected = [
        "a third left",
        "asked in vain",
        "due before a command",
        "ended by another",
        "kept, and given back",
        "lease ended",
        "lifted by hand",
        "persisted",
        "renewed",
        "several late",
        "silent",
        "stalled",
        "taken over",
        "the clock was set",
    ];
    assert_eq!(reached.into_iter().collect::<Vec<_>>(), expected);
}
