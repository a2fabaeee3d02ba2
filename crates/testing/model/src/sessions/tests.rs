use super::{FEW, Faults, MANY, OMISSIONS, first_break, play};

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
        let holds = it.holds_because.is_some();
        let found = first_break(it.rules, if holds { FEW } else { MANY });
        assert_eq!(found.is_none(), holds, "without {:?}: {found:?}", it.rules);
    }
}
