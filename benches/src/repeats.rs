//! The cost of re-entry and renewal, compared with an acquire.

use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER, command};

const BATCH: usize = 500;

/// An acquire of free locks, then a re-entry, then a renewal of the same locks. Each names another lease, so
/// that each changes the lock.
pub(crate) fn measure(program: &Program, scale: &Scale) -> Part {
    let server = program.start();
    let batch = |words: [&str; 2], numbers: &[u32]| {
        let call = |number| {
            let key = format!("lock:{number}");
            command(&[words[0], &key, OWNER, words[1]], numbers)
        };
        Batch::new(&server, (0..BATCH).map(call))
    };
    let mut steps = [
        batch(["LOCK.ACQUIRE", "PX"], &[LEASE_MS]),
        batch(["LOCK.ACQUIRE", "PX"], &[LEASE_MS + 1]),
        batch(["LOCK.RENEW", "PX"], &[LEASE_MS + 2]),
        batch(["LOCK.RELEASE", "ALL"], &[]),
    ];
    let times = scale.pipelined_pairs / BATCH;
    let figures = interleave(scale.rounds, &mut [()], |()| {
        let mut spent = [0.0; 4];
        for _ in 0..times {
            for (step, spent) in steps.iter_mut().zip(&mut spent) {
                *spent += step.cost();
            }
        }
        spent.map(|spent| spent / (times * BATCH) as f64)
    });
    let [figures] = figures.as_slice() else {
        return Part::default();
    };
    let [acquire, again, renewal, _] = figures;
    let calls = [acquire, again, renewal].map(|cost| [cost.clone()]);
    let names = [
        "LOCK.ACQUIRE PX of a free lock",
        "LOCK.ACQUIRE PX again: re-entry",
        "LOCK.RENEW PX",
    ];
    let table = Table::of(program, "Re-entry and renewal, pipelined",
        "The cost of a re-entry and of a renewal. Server CPU of one call, and its ratio to an acquire of a free lock in the same round.",
        &["ns a call", "of an acquire"],
    )
    .rows_over_first(names, &calls);
    let goals = vec![
        Goal::at_most("re-entry of an acquire", 1.0, again.over(acquire).spread()),
        Goal::at_most("renewal of an acquire", 1.0, renewal.over(acquire).spread()),
    ];
    Part::new(table, goals)
}
