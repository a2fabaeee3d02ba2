use super::{Faults, Rule, first_break, play};

#[test]
fn the_rules_hold() {
    for faults in [Faults::Freezes, Faults::All] {
        for seed in 0..20 {
            let played = play(seed, faults, None);
            assert!(played.is_ok(), "{faults:?}, seed {seed}: {played:?}");
        }
    }
}

#[test]
fn each_rule_that_is_left_out_is_found() {
    for rule in Rule::ALL {
        let found = first_break(rule);
        assert!(found.is_some(), "{rule} is left out, and nothing breaks");
    }
}
