//! The server's memory for a share.

use redis::Cmd;

use super::{HOUR_MS, share};
use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Program, memory_of};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, command};

/// The holders of a lock that many share.
const HOLDERS: usize = 10_000;

/// A contender: it takes a lock, or a share of one.
type Kind = (&'static str, fn(usize) -> Cmd);

#[rustfmt::skip]
const KINDS: [Kind; 3] = [
    ("LOCK.ACQUIRE PX, a lock each",
        |number| command(&["LOCK.ACQUIRE", &key(number), OWNER, "PX"], &[HOUR_MS])),
    ("LOCK.ACQUIRE SHARED PX, a lock each", |number| share(&key(number), number)),
    ("LOCK.ACQUIRE SHARED PX, 10000 to a lock", |number| share(&key(number / HOLDERS), number)),
];

fn key(number: usize) -> String {
    format!("lock:{number:07}")
}

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let server = program.start();
    let count = scale.memory_locks;
    let mut kinds = KINDS;
    let figures = interleave(scale.rounds, &mut kinds, |(_, acquire)| {
        [memory_of(&server, count, *acquire)]
    });
    let table = Table::new(
        format!("Memory of a share: {}", program.version),
        &format!(
            "{count} of them, keys of 12 bytes, owners of {}; and the ratio to a lock that is not shared.",
            OWNER.len()
        ),
        &["bytes a holder", "of a plain lock"],
    );
    let base = &figures[0][0];
    let table = table.rows_over(kinds.map(|(name, _)| name), &figures, |_| 0);
    let ratio = |index: usize| {
        let [bytes] = figures.get(index)?;
        bytes.over(base).spread()
    };
    let goals = vec![
        Goal::at_most("bytes of a lone share of a plain lock's", 1.3, ratio(1)),
        Goal::at_most("bytes of one of 10000 shares", 1.3, ratio(2)),
    ];
    Part::new(table, goals)
}
