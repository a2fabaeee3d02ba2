//! Histories of a simulated lock: a right one is never blamed, and a wrong one is found out.

mod simulator;

use std::collections::BTreeMap;

use history::{Kind, Mode, Report, check};
use simulator::fault::Fault;
use simulator::{Troubles, Weather, simulate};

fn weather(seed: u64) -> Weather {
    Weather {
        seed,
        calls: 150,
        clients: 2 + u32::try_from(seed % 7).unwrap(),
        longest_lease: 120,
        siblings: [1, 2, 1, 3][usize::try_from(seed % 4).unwrap()],
        lost: [0, 5, 15][usize::try_from(seed / 2 % 3).unwrap()],
        raises: seed % 3 == 1,
        troubles: Troubles {
            steps: seed % 5 == 1,
            evictions: seed % 7 == 1,
            crashes: false,
        },
        fault: None,
    }
}

#[track_caller]
fn accept(weather: Weather, mode: Mode) -> Report {
    let report = check(&simulate(weather), mode);
    assert!(report.passed(), "{weather:?}\n{report}");
    report
}

#[test]
fn a_correct_lock_is_accepted() {
    let mut total = [0; 4];
    for seed in 0..3000 {
        let counts = accept(weather(seed), Mode::Strict).counts;
        for (total, count) in total.iter_mut().zip([
            counts.grants,
            counts.hand_offs,
            counts.re_entries,
            counts
                .writes
                .values()
                .map(|writes| writes.stale_refused)
                .sum(),
        ]) {
            *total += count;
        }
    }
    assert!(total.iter().all(|count| *count > 3000), "{total:?}");
}

#[test]
fn what_is_lost_in_a_crash_is_no_violation_where_that_may_be() {
    let mut lost = 0;
    for seed in 0..1500 {
        let weather = Weather {
            troubles: Troubles {
                crashes: true,
                ..weather(seed).troubles
            },
            ..weather(seed)
        };
        lost += accept(weather, Mode::Lossy).counts.lost_grants;
        accept(weather, Mode::Split);
    }
    assert!(lost > 50, "{lost}");
}

/// Each fault, how long it takes to show, and what it is found out as.
const FAULTS: [(Fault, Mode, Kind); 30] = [
    (Fault::TwoOwners, Mode::Strict, Kind::Exclusion),
    (Fault::TwoOwners, Mode::Split, Kind::Exclusion),
    (Fault::TokenLower, Mode::Strict, Kind::TokenOrder),
    (Fault::TokenLower, Mode::Split, Kind::TokenOrder),
    (Fault::TokenRepeated, Mode::Strict, Kind::TokenShared),
    (Fault::ReEntryNewToken, Mode::Strict, Kind::Exclusion),
    (Fault::ReleaseByAnyone, Mode::Strict, Kind::NoOrder),
    (Fault::TokenIgnored, Mode::Strict, Kind::NoOrder),
    (Fault::HoldsOffByOne, Mode::Strict, Kind::NoOrder),
    (Fault::HoldsRepeated, Mode::Strict, Kind::NoOrder),
    (Fault::DownTooFar, Mode::Strict, Kind::NoOrder),
    (Fault::AllKeepsOne, Mode::Strict, Kind::NoOrder),
    (Fault::RenewTakes, Mode::Strict, Kind::NoOrder),
    (Fault::RenewForgotten, Mode::Strict, Kind::NoOrder),
    (Fault::RaiseForgotten, Mode::Strict, Kind::TokenOrder),
    (Fault::NotHeldWhileHeld, Mode::Strict, Kind::NoOrder),
    (Fault::NilWhileFree, Mode::Strict, Kind::NoOrder),
    (Fault::NeverExpires, Mode::Strict, Kind::NoOrder),
    (Fault::ShortLease, Mode::Strict, Kind::Exclusion),
    (Fault::ReEntryShortens, Mode::Strict, Kind::Exclusion),
    (Fault::LastInFirstOut, Mode::Strict, Kind::QueueOrder),
    (Fault::Barging, Mode::Strict, Kind::QueueOrder),
    (Fault::GivenBackStays, Mode::Strict, Kind::NoOrder),
    (Fault::TwinTaken, Mode::Strict, Kind::Exclusion),
    (Fault::FencesCurrent, Mode::Strict, Kind::NoOrder),
    (
        Fault::FencePassesStale,
        Mode::Strict,
        Kind::RegisterTookStale,
    ),
    (Fault::Forgets, Mode::Strict, Kind::Exclusion),
    (Fault::TokensFallAfterLoss, Mode::Lossy, Kind::TokenOrder),
    (
        Fault::RegisterTakesAll,
        Mode::Strict,
        Kind::RegisterWentBack,
    ),
    (Fault::RegisterRefuses, Mode::Strict, Kind::RegisterRefused),
];

#[test]
fn a_wrong_lock_is_found_out() {
    for (fault, mode, kind) in FAULTS {
        let mut found: BTreeMap<Kind, u32> = BTreeMap::new();
        let mut caught = 0;
        for seed in 0..100 {
            let common = weather(seed);
            let about_the_dead = matches!(fault, Fault::GivenBackStays | Fault::TwinTaken);
            let weather = Weather {
                fault: Some(fault),
                siblings: if about_the_dead { 2 } else { common.siblings },
                lost: if about_the_dead { 40 } else { common.lost },
                troubles: Troubles {
                    crashes: matches!(fault, Fault::Forgets | Fault::TokensFallAfterLoss),
                    ..common.troubles
                },
                ..common
            };
            let report = check(&simulate(weather), mode);
            caught += u32::from(!report.violations.is_empty());
            let mut kinds: Vec<_> = report.violations.iter().map(|found| found.kind).collect();
            kinds.sort();
            kinds.dedup();
            for kind in kinds {
                *found.entry(kind).or_default() += 1;
            }
        }
        println!("{fault:?} {mode:?}: {caught} of 100, {found:?}");
        assert!(
            found.contains_key(&kind),
            "{fault:?} as {kind:?}: {found:?}"
        );
    }
}
