use super::{Faults, OMISSIONS, play};

#[test]
fn the_rules_hold() {
    for faults in [Faults::Freezes, Faults::All] {
        for seed in 0..20 {
            let played = play(seed, faults, &[]);
            assert!(played.is_ok(), "{faults:?}, seed {seed}: {played:?}");
        }
    }
}

#[test]
fn each_rule_that_is_left_out_is_found() {
    for it in &OMISSIONS {
        let (seed, faults) = (it.seed, it.faults);
        let sound = play(seed, faults, &[]);
        assert!(sound.is_ok(), "{faults:?}, seed {seed}: {sound:?}");
        let found = play(seed, faults, &[it.rule]);
        assert!(found.is_err(), "{:?} is not missed", it.rule);
    }
}
