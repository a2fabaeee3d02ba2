//! A reader's pair while few or many readers hold the same lock.

use redis::{Cmd, Connection};

use super::{HOUR_MS, KEY, share};
use crate::callgrind::{need_valgrind, pair_of};
use crate::part::Limit::AtMost;
use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program, Setting, for_each};
use crate::stats::{Rounds, interleave_slices};
use crate::table::Table;
use crate::ways::{OWNER, call};

const BATCH: usize = 500;

/// A pair on a lock with so many holders, the pair's own included: its name, and the word between owner and lease.
struct Kind {
    name: &'static str,
    share: &'static str,
    holders: usize,
}

#[rustfmt::skip]
const KINDS: [Kind; 4] = [
    Kind { name: "LOCK.ACQUIRE PX + LOCK.RELEASE, 1 holder", share: "", holders: 1 },
    Kind { name: "LOCK.ACQUIRE SHARED PX + LOCK.RELEASE, 1 holder", share: "SHARED", holders: 1 },
    Kind { name: "the same, 100 holders", share: "SHARED", holders: 100 },
    Kind { name: "the same, 10000 holders", share: "SHARED", holders: 10_000 },
];

/// Of a reader's pair: the CPU and the instructions, each of those of an exclusive pair.
#[rustfmt::skip]
const GOALS: [[&str; 2]; KINDS.len() - 1] = [
    ["CPU of a reader's pair relative to an exclusive one, 1 holder", "instructions of the same, 1 holder"],
    ["CPU of a reader's pair, 100 holders", "instructions of the same, 100 holders"],
    ["CPU of a reader's pair, 10000 holders", "instructions of the same, 10000 holders"],
];

impl Kind {
    fn pairs(&self) -> impl Iterator<Item = Cmd> {
        let share = self.share;
        let pair = [
            call!("LOCK.ACQUIRE {KEY} {OWNER} {share} PX {HOUR_MS}"),
            call!("LOCK.RELEASE {KEY} {OWNER}"),
        ];
        (0..BATCH).flat_map(move |_| pair.clone())
    }

    /// The other holders come. Each lease ends later than those before it, the pair's last, so that the
    /// key's TTL changes with every one that comes or goes.
    fn prepare(&self, connection: &mut Connection) {
        for_each(connection, 1..self.holders, |number| share(KEY, number));
    }
}

pub(super) fn measure(program: &Program, scale: Scale) -> Part {
    let servers = KINDS.map(|kind| {
        let server = program.start();
        kind.prepare(&mut server.connection());
        server
    });
    let pairs = KINDS.iter().zip(&servers);
    let pairs = pairs.map(|(kind, server)| Batch::new(server, kind.pairs()));
    let mut pairs: Vec<_> = pairs.collect();
    let slices = scale.pipelined_pairs() / BATCH;
    let mut figures = interleave_slices(scale.rounds(), slices, &mut pairs, |pairs| {
        [pairs.cost() / BATCH as f64]
    });
    let counts = instructions(program);
    for (number, figures) in figures.iter_mut().enumerate() {
        let count = counts.as_ref().map_or(f64::NAN, |counts| counts[number]);
        figures.push(Rounds::from(count));
    }
    let left_out = counts
        .err()
        .map(|why| format!(" They are left out: {why}."));
    let table = Table::of(
        program,
        "A reader's pair, by the holders",
        &format!(
            "What does a share cost compared with an exclusive lock, by the number of holders? The pairs are \
             pipelined, on one lock, and the pair's own share is one of the holders. Callgrind counts the \
             instructions to read, run and answer the commands.{}",
            left_out.unwrap_or_default()
        ),
        &["ns a pair", "of exclusive", "instructions", "of exclusive"],
    );
    let table = table.rows(KINDS.map(|kind| kind.name), figures);
    let goals = (1..).zip(GOALS).flat_map(|(row, names)| {
        let goal = |(figure, what)| Goal::new(what, AtMost(1.5), table.over(row, figure));
        (0..).zip(names).map(goal).collect::<Vec<_>>()
    });
    let goals = goals.collect();
    Part::new(table, goals)
}

/// Those of each kind.
fn instructions(program: &Program) -> Result<Vec<f64>, String> {
    need_valgrind()?;
    let counts = KINDS.iter().map(|kind| {
        let count = pair_of(program, Setting::Plain, |connection| {
            kind.prepare(connection);
            Ok(kind.pairs().collect())
        });
        Ok(count? as f64)
    });
    counts.collect()
}
