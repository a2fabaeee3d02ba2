//! Every state, and every state behind every other, with every command.

use super::arena::{Arena, Setting};
use super::case::Case;
use super::catalogue::STATES;
use super::forms::FORMS;
use super::round::Round;
use crate::invariants::check_server;
use crate::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many connections are in their state at a time.
const AT_ONCE: usize = 48;
/// After how many rounds all locks are looked at.
const ROUNDS_BETWEEN_LOOKS: usize = 16;
/// Cases of two states, of those that there are, without a number from the environment.
const PAIRS: usize = 1000;

#[test]
fn in_every_state_every_command_leaves_each_lock_with_its_owner() {
    let mut random = StdRng::seed_from_u64(seed("HOSTILE_SEED"));
    let (mut singles, mut pairs) = (singles(), pairs());
    let count = amount("HOSTILE_CASES", singles.len() + PAIRS);
    // In another order each time, so that other cases meet.
    singles.shuffle(&mut random);
    pairs.shuffle(&mut random);
    let (single, all) = (singles.len(), singles.len() + pairs.len());
    let cases: Vec<_> = singles.into_iter().chain(pairs).take(count).collect();
    println!("{} cases of {all}", cases.len());
    play(Setting::Plain, &cases);
    // Where a node asks whether a slot is its own.
    play(Setting::Cluster, &cases[..cases.len().min(single) / 2]);
}

fn singles() -> Vec<Case> {
    let plain = FORMS.iter().map(|form| Case::new(form, &[]));
    let in_a_state = STATES
        .iter()
        .flat_map(|state| FORMS.iter().map(move |form| Case::new(form, &[state])));
    plain.chain(in_a_state).collect()
}

/// Where the first of the two leaves a connection to go on with.
fn pairs() -> Vec<Case> {
    let states = || STATES.iter().enumerate();
    let pairs = states()
        .filter(|(_, first)| !first.closes)
        .flat_map(|(at, first)| {
            let others = states().filter(move |(other, _)| *other != at);
            others.map(move |(_, second)| [first, second])
        });
    pairs
        .flat_map(|pair| FORMS.iter().map(move |form| Case::new(form, &pair)))
        .collect()
}

fn play(setting: Setting, cases: &[Case]) {
    let mut arena = Arena::start(setting);
    for (number, cases) in cases.chunks(AT_ONCE).enumerate() {
        let played = catch_unwind(AssertUnwindSafe(|| {
            Round::new(&mut arena, number, cases).play();
            if number % ROUNDS_BETWEEN_LOOKS == 0 {
                check_server(&arena.server);
            }
        }));
        if played.is_err() {
            drop(arena);
            name_the_guilty(setting, cases);
        }
    }
    arena.check_end();
}

/// Plays each case of a round that failed by itself, to say which of them it was.
fn name_the_guilty(setting: Setting, cases: &[Case]) -> ! {
    let mut guilty = Vec::new();
    let mut arena = Arena::start(setting);
    for case in cases {
        let case = std::slice::from_ref(case);
        let played = catch_unwind(AssertUnwindSafe(|| Round::new(&mut arena, 0, case).play()));
        if played.is_err() {
            guilty.push(case[0].to_string());
            arena = Arena::start(setting);
        }
    }
    panic!(
        "by itself fails, of {} that failed at once: {guilty:#?}",
        cases.len()
    );
}
