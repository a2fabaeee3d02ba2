//! The nemesis, which injects faults.

use crate::run::Run;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it looks after what it has begun.
const STEP: Duration = Duration::from_millis(5);

/// Injects faults while clients work.
pub(crate) trait Nemesis {
    /// One thing that it can do.
    type Fault: Copy;

    /// Injects a fault; whether that could be done now.
    fn inject(&mut self, fault: Self::Fault) -> bool;

    /// The work every few milliseconds between two faults.
    fn tick(&mut self) {}

    /// Whether everything that was broken for a while has been repaired.
    fn is_whole(&self) -> bool {
        true
    }
}

/// Injects each fault once, in any order, and then continues by their weights until the run is over. About
/// `calm` passes between two. In the end everything is whole.
pub(crate) fn drive<N: Nemesis>(
    nemesis: &mut N,
    run: &Run,
    random: &mut StdRng,
    faults: &[(N::Fault, u32)],
    calm: Duration,
) {
    let mut first: Vec<_> = faults.iter().map(|(fault, _)| *fault).collect();
    first.shuffle(random);
    let mut first = VecDeque::from(first);
    let mut untried = first.len();
    while untried > 0 || !run.is_over() {
        let until = Instant::now() + calm.mul_f64(random.random_range(0.2..1.8));
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            nemesis.tick();
            sleep(left.min(STEP));
        }
        untried = untried.saturating_sub(1);
        let Some(fault) = first.pop_front() else {
            let drawn = faults.choose_weighted(random, |(_, weight)| *weight);
            nemesis.inject(drawn.expect("faults with weights").0);
            continue;
        };
        if !nemesis.inject(fault) {
            // Tried again until it has happened once.
            first.push_back(fault);
        }
    }
    while !nemesis.is_whole() {
        nemesis.tick();
        sleep(STEP);
    }
}
