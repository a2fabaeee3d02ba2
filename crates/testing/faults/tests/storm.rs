//! The configuration `storm` on the server of this test run. `STORM_SECONDS` is how long it lasts at least (4),
//! `SEED` repeats the choices of an earlier run, though not their timing.

use faults::{Choice, locks, play};
use std::env;

#[test]
fn no_lock_is_lost_doubled_or_forgotten_in_a_storm() {
    let seconds = env::var("STORM_SECONDS").map_or(4, |text| text.parse().expect("a number"));
    let choice = Choice {
        seconds,
        seed: testbed::traffic::seed(),
        names: vec!["storm".to_owned()],
        ..Choice::default()
    };
    assert!(play(locks(), &choice), "see above");
}
