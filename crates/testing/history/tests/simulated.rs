//! Histories of a simulated lock: a right one is never blamed, and a wrong one is found out.

mod simulator;

use std::collections::BTreeMap;

use history::{Kind, Mode, Report, check};
use simulator::defect::Defect;
use simulator::{Nemesis, Settings, simulate};

fn settings(seed: u64) -> Settings {
    Settings {
        seed,
        calls: 150,
        clients: 2 + u32::try_from(seed % 7).unwrap(),
        longest_lease: 120,
        siblings: [1, 2, 1, 3][usize::try_from(seed % 4).unwrap()],
        lost: [0, 5, 15][usize::try_from(seed / 2 % 3).unwrap()],
        raises: seed % 3 == 1,
        shares: seed % 5 > 2,
        programs: seed % 4 > 1,
        nemesis: Nemesis {
            steps: seed % 5 == 1,
            evictions: seed % 7 == 1,
            crashes: false,
        },
        defect: None,
    }
}

#[track_caller]
fn accept(settings: Settings, mode: Mode) -> Report {
    let report = check(&simulate(settings), mode);
    assert!(report.passed(), "{settings:?}\n{report}");
    report
}

#[test]
fn a_correct_lock_is_accepted() {
    let mut total = [0; 4];
    for seed in 0..3000 {
        let counts = accept(settings(seed), Mode::Strict).counts;
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
        let settings = Settings {
            nemesis: Nemesis {
                crashes: true,
                ..settings(seed).nemesis
            },
            ..settings(seed)
        };
        lost += accept(settings, Mode::Lossy).counts.lost_grants;
        accept(settings, Mode::Split);
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn calls_that_are_passed_over_are_granted_out_of_turn_in_right_histories() {
    let mut passed = 0;
    for seed in (0..200).filter(|seed| settings(*seed).programs) {
        let mut history = simulate(settings(seed));
        history
            .calls
            .iter_mut()
            .for_each(|call| call.session = None);
        let violations = check(&history, Mode::Strict).violations;
        let mut kinds = violations.iter().map(|found| found.kind);
        passed += usize::from(kinds.any(|kind| kind == Kind::QueueOrder));
    }
    assert!(passed > 20, "{passed}");
}

/// Each defect, how strict the check is, and what the defect is found out as.
const DEFECTS: [(Defect, Mode, Kind); 42] = [
    (Defect::TwoOwners, Mode::Strict, Kind::Exclusion),
    (Defect::TwoOwners, Mode::Split, Kind::Exclusion),
    (Defect::TokenLower, Mode::Strict, Kind::TokenOrder),
    (Defect::TokenLower, Mode::Split, Kind::TokenOrder),
    (Defect::TokenRepeated, Mode::Strict, Kind::TokenShared),
    (Defect::ReEntryNewToken, Mode::Strict, Kind::Exclusion),
    (Defect::ReleaseByAnyone, Mode::Strict, Kind::NoOrder),
    (Defect::TokenIgnored, Mode::Strict, Kind::NoOrder),
    (Defect::HoldsOffByOne, Mode::Strict, Kind::NoOrder),
    (Defect::HoldsRepeated, Mode::Strict, Kind::NoOrder),
    (Defect::DownTooFar, Mode::Strict, Kind::NoOrder),
    (Defect::AllKeepsOne, Mode::Strict, Kind::NoOrder),
    (Defect::RenewTakes, Mode::Strict, Kind::NoOrder),
    (Defect::RenewForgotten, Mode::Strict, Kind::NoOrder),
    (Defect::RaiseForgotten, Mode::Strict, Kind::TokenOrder),
    (Defect::NotHeldWhileHeld, Mode::Strict, Kind::NoOrder),
    (Defect::NilWhileFree, Mode::Strict, Kind::NoOrder),
    (Defect::NeverExpires, Mode::Strict, Kind::NoOrder),
    (Defect::ShortLease, Mode::Strict, Kind::Exclusion),
    (Defect::ReEntryShortens, Mode::Strict, Kind::Exclusion),
    (Defect::LastInFirstOut, Mode::Strict, Kind::QueueOrder),
    (Defect::Barging, Mode::Strict, Kind::QueueOrder),
    (Defect::PassesPresent, Mode::Strict, Kind::QueueOrder),
    (Defect::SureTooLong, Mode::Strict, Kind::PromiseBroken),
    (Defect::GivenBackStays, Mode::Strict, Kind::NoOrder),
    (Defect::TwinTaken, Mode::Strict, Kind::Exclusion),
    (Defect::FencesCurrent, Mode::Strict, Kind::NoOrder),
    (
        Defect::FencePassesStale,
        Mode::Strict,
        Kind::RegisterTookStale,
    ),
    (Defect::OneTooMany, Mode::Strict, Kind::NoOrder),
    (Defect::OneTooMany, Mode::Strict, Kind::Exclusion),
    (Defect::LimitForgotten, Mode::Strict, Kind::Exclusion),
    (Defect::LimitForgotten, Mode::Split, Kind::Exclusion),
    (Defect::NotAloneLeftOut, Mode::Strict, Kind::NoOrder),
    (Defect::NarrowingForgotten, Mode::Strict, Kind::NoOrder),
    (Defect::SetLimitForgotten, Mode::Strict, Kind::NoOrder),
    (Defect::OneEndEndsAll, Mode::Strict, Kind::NoOrder),
    (Defect::OneEndEndsAll, Mode::Strict, Kind::Exclusion),
    (Defect::Forgets, Mode::Strict, Kind::Exclusion),
    (Defect::Forgets, Mode::Strict, Kind::NoOrder),
    (Defect::TokensFallAfterLoss, Mode::Lossy, Kind::TokenOrder),
    (
        Defect::RegisterTakesAll,
        Mode::Strict,
        Kind::RegisterWentBack,
    ),
    (Defect::RegisterRefuses, Mode::Strict, Kind::RegisterRefused),
];

#[test]
fn a_wrong_lock_is_found_out() {
    for (defect, mode, kind) in DEFECTS {
        let mut found: BTreeMap<Kind, u32> = BTreeMap::new();
        let mut caught = 0;
        for seed in 0..100 {
            let common = settings(seed);
            let about_the_dead = matches!(defect, Defect::GivenBackStays | Defect::TwinTaken);
            let of_shares = matches!(
                defect,
                Defect::OneTooMany
                    | Defect::LimitForgotten
                    | Defect::NotAloneLeftOut
                    | Defect::NarrowingForgotten
                    | Defect::SetLimitForgotten
                    | Defect::OneEndEndsAll
            );
            let settings = Settings {
                defect: Some(defect),
                shares: of_shares,
                programs: common.programs || defect == Defect::SureTooLong,
                siblings: if about_the_dead { 2 } else { common.siblings },
                lost: if about_the_dead { 40 } else { common.lost },
                nemesis: Nemesis {
                    crashes: matches!(defect, Defect::Forgets | Defect::TokensFallAfterLoss),
                    ..common.nemesis
                },
                ..common
            };
            let report = check(&simulate(settings), mode);
            caught += u32::from(!report.violations.is_empty());
            let mut kinds: Vec<_> = report.violations.iter().map(|found| found.kind).collect();
            kinds.sort();
            kinds.dedup();
            for kind in kinds {
                *found.entry(kind).or_default() += 1;
            }
        }
        println!("{defect:?} {mode:?}: {caught} of 100, {found:?}");
        assert!(
            found.contains_key(&kind),
            "{defect:?} as {kind:?}: {found:?}"
        );
    }
}
