//! The cost of re-entry and renewal, compared with an acquire.

use redis::Cmd;

use crate::part::Limit::AtMost;
use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, call};

const BATCH: usize = 500;

/// An acquire of free locks, then a re-entry, then a renewal of the same locks. Each names another lease, so
/// that each changes the lock.
pub(crate) fn measure(program: &Program, scale: Scale) -> Part {
    let server = program.start();
    let batch = |call: fn(usize) -> Cmd| Batch::new(&server, (0..BATCH).map(call));
    let mut steps = [
        batch(|number| call!("LOCK.ACQUIRE lock:{number} {OWNER} PX 30000")),
        batch(|number| call!("LOCK.ACQUIRE lock:{number} {OWNER} PX 30001")),
        batch(|number| call!("LOCK.RENEW lock:{number} {OWNER} PX 30002")),
        batch(|number| call!("LOCK.RELEASE lock:{number} {OWNER} ALL")),
    ];
    let times = scale.pipelined_pairs() / BATCH;
    let figures = interleave(scale.rounds(), &mut [()], |()| {
        let mut spent = [0.0; 4];
        for _ in 0..times {
            for (step, spent) in steps.iter_mut().zip(&mut spent) {
                *spent += step.cost();
            }
        }
        spent.map(|spent| spent / (times * BATCH) as f64)
    });
    let names = [
        "LOCK.ACQUIRE PX of a free lock",
        "LOCK.ACQUIRE PX again: re-entry",
        "LOCK.RENEW PX",
    ];
    let table = Table::of(
        program,
        "Re-entry and renewal, pipelined",
        "What does a re-entry or a renewal cost? The figures are the server CPU of one call, and its ratio to an \
         acquire of a free lock in the same round.",
        &["ns a call", "of an acquire"],
    );
    let table = table.rows(names, figures[0].chunks(1));
    let goals = [
        "re-entry relative to an acquire",
        "renewal relative to an acquire",
    ];
    let goals = goals.into_iter().zip(1..);
    let goals = goals.map(|(what, row)| Goal::new(what, AtMost(1.0), table.over(row, 0)));
    let goals = goals.collect();
    Part::new(table, goals)
}
