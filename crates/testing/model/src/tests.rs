//! The model on small settings, and its simplifications against the same without them.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use stateright::Model;

use crate::action::possible;
use crate::canonical::canonical;
use crate::model::{Quorum, rule};
use crate::plan::{self, Expected};
use crate::report::verdict;
use crate::search::search;
use crate::setting::{Leases, Memory, Passed, Setting, Weakening};
use crate::state::State;
use crate::step::step;

const LONG: Duration = Duration::from_secs(300);

const WEAKENINGS: [Option<Weakening>; 8] = [
    None,
    Some(Weakening::NoRaise),
    Some(Weakening::LowRaiseCounts),
    Some(Weakening::RaiseLeavesClock),
    Some(Weakening::OwnersReused),
    Some(Weakening::TokenOfFewer),
    Some(Weakening::TokenOfFewerAndLowRaiseCounts),
    Some(Weakening::SmallerQuorum),
];

const MEMORIES: [Memory; 4] = [
    Memory::Kept,
    Memory::lost(Passed::Raised),
    Memory::lost(Passed::Granted),
    Memory::lost(Passed::Nothing),
];

fn broken(setting: &Setting) -> BTreeSet<&'static str> {
    let outcome = search(setting, &[], None, 2, LONG);
    assert!(outcome.completed, "{setting:?}");
    outcome.broken.iter().map(|(rule, _)| *rule).collect()
}

#[test]
fn a_rule_that_is_broken_is_an_error_unless_it_should_be() {
    let find = |name| plan::all().into_iter().find(|it| it.name == name).unwrap();
    let mut planned = find("no round 2");
    let outcome = search(&planned.setting, &[], None, 1, LONG);
    assert!(verdict(&planned, &outcome).is_ok());
    planned.expected = Expected::Holds;
    assert!(verdict(&planned, &outcome).is_err());

    let mut planned = find("nothing fails");
    let outcome = search(&planned.setting, &[], None, 1, LONG);
    assert!(verdict(&planned, &outcome).is_ok());
    planned.expected = Expected::Breaks(rule::HIGHER);
    assert!(verdict(&planned, &outcome).is_err());
}

/// Two servers, where both make the majority, are few enough to take every message one by one.
#[test]
fn leaving_out_messages_that_make_nothing_worse_changes_no_verdict() {
    let weakened = WEAKENINGS.map(|weakening| (Memory::Kept, weakening));
    let forgetful = [
        (Memory::lost(Passed::Raised), None),
        (Memory::lost(Passed::Nothing), None),
    ];
    let mut some_broken = 0;
    for (memory, weakening) in weakened.into_iter().chain(forgetful) {
        let full = Setting {
            memory,
            weakening,
            ..Setting::new(2, 2, 1)
        };
        let lean = full.unheard(0);
        let found = broken(&full);
        some_broken += usize::from(!found.is_empty());
        assert_eq!(found, broken(&lean), "{full:?}");
    }
    assert!(some_broken >= 2, "{some_broken}");
}

#[test]
fn the_same_where_leases_are_trusted() {
    for memory in [Memory::Kept, Memory::lost(Passed::Raised)] {
        let full = Setting::new(2, 2, 1).memory(memory).trusted();
        let lean = full.unheard(0);
        assert_eq!(broken(&full), broken(&lean), "{full:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens with clocks that show whole numbers, forward or back, the search has a step
    /// for it, from and to the states that stand for those.
    #[test]
    fn every_run_with_whole_numbers_is_in_the_search(
        choices in prop::collection::vec(any::<u16>(), 1..25),
        memory in prop::sample::select(&MEMORIES),
        weakening in prop::sample::select(&WEAKENINGS),
        trusted in any::<bool>(),
        unheard in prop::option::of(0..3_u8),
        attempts in 1..3_usize,
    ) {
        let setting = Setting {
            memory,
            weakening,
            unheard,
            leases: if trusted { Leases::AfterTrust } else { Leases::AnyMoment },
            register: !trusted,
            ..Setting::new(3, 2, attempts)
        };
        let model = Quorum::new(setting, &[]);
        let mut state = State::default();
        for choice in choices {
            let mut actions = Vec::new();
            possible(&setting, &state, 40, &mut actions);
            if actions.is_empty() {
                break;
            }
            let action = actions[usize::from(choice) % actions.len()];
            let next = step(&setting, &state, action);
            let stands_for = canonical(&setting, state);
            let mut known = Vec::new();
            model.actions(&stands_for, &mut known);
            let wanted = canonical(&setting, next.clone());
            let found = known
                .into_iter()
                .any(|action| model.next_state(&stands_for, action) == Some(wanted.clone()));
            prop_assert!(found, "{action:?} from {stands_for:?}");
            state = next;
        }
    }
}
