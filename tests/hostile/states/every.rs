//! Every command in every state, and in every state behind every other.

use super::arena::{Arena, Setting};
use super::batch::Batch;
use super::case::Case;
use super::catalogue::{STATES, State};
use super::forms::FORMS;
use crate::invariants::check_server;
use crate::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{iter, thread};

/// How many servers share the cases: each of them waits now and then.
const SERVERS: usize = 2;
/// How many connections are in their state at a time.
const AT_ONCE: usize = 96;
/// After how many batches all locks are looked at.
const BATCHES_BETWEEN_LOOKS: usize = 16;
/// How many cases are played without a number from the environment: half of those of one state.
const CASES: usize = 3000;

#[test]
fn in_every_state_every_command_leaves_each_lock_with_its_owner() {
    let mut random = StdRng::seed_from_u64(seed());
    let singles = every_form_in(one_state(), &mut random);
    let pairs = every_form_in(two_states(), &mut random);
    let all = singles.len() + pairs.len();
    let count = amount("HOSTILE_CASES", CASES);
    let cases: Vec<_> = singles.into_iter().chain(pairs).take(count).collect();
    println!("{} cases of {all}", cases.len());
    // In a cluster a node asks whether a slot is its own.
    let in_a_cluster = &cases[..cases.len().min(CASES / 2)];
    thread::scope(|scope| {
        let mut lanes = Vec::new();
        let shares = cases.chunks(cases.len().div_ceil(SERVERS));
        for (cases, setting) in shares.zip([Setting::Plain, Setting::Threads].into_iter().cycle()) {
            lanes.push(scope.spawn(move || play(setting, cases)));
        }
        lanes.push(scope.spawn(|| play(Setting::Cluster, in_a_cluster)));
        for lane in lanes {
            if let Err(panic) = lane.join() {
                resume_unwind(panic);
            }
        }
    });
}

fn one_state() -> Vec<Vec<&'static State>> {
    let plain = iter::once(Vec::new());
    plain
        .chain(STATES.iter().map(|state| vec![state]))
        .collect()
}

/// Where the first of the two leaves a connection to go on with.
fn two_states() -> Vec<Vec<&'static State>> {
    let others = |first: &'static State| {
        let others = STATES.iter().filter(|second| second.name != first.name);
        others.map(move |second| vec![first, second])
    };
    let first = STATES.iter().filter(|state| !state.closes);
    first.flat_map(others).collect()
}

/// All cases of these states. However few are taken from the front, each of the states is among them as
/// often as any other, give or take one.
fn every_form_in(states: Vec<Vec<&'static State>>, random: &mut StdRng) -> Vec<Case> {
    let mut states: Vec<_> = states
        .into_iter()
        .map(|states| (states, random.random_range(0..FORMS.len())))
        .collect();
    let mut cases = Vec::new();
    for turn in 0..FORMS.len() {
        states.shuffle(random);
        cases.extend(states.iter().map(|(states, first)| {
            let form = &FORMS[(first + turn) % FORMS.len()];
            Case::new(form, states)
        }));
    }
    cases
}

fn play(setting: Setting, cases: &[Case]) {
    let mut arena = Arena::start(setting);
    for (number, cases) in cases.chunks(AT_ONCE).enumerate() {
        let played = catch_unwind(AssertUnwindSafe(|| {
            Batch::new(&mut arena, number, cases).play();
            if number % BATCHES_BETWEEN_LOOKS == 0 {
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

/// Plays each case of a batch that failed by itself, to say which of them it was.
fn name_the_guilty(setting: Setting, cases: &[Case]) -> ! {
    let mut guilty = Vec::new();
    let mut arena = Arena::start(setting);
    for case in cases {
        let case = std::slice::from_ref(case);
        let played = catch_unwind(AssertUnwindSafe(|| Batch::new(&mut arena, 0, case).play()));
        if played.is_err() {
            guilty.push(case[0].to_string());
            arena = Arena::start(setting);
        }
    }
    let count = cases.len();
    panic!("by itself fails, of {count} that failed at once: {guilty:#?}");
}
