//! A reader's pair while few or many readers hold the same lock.

use redis::{Cmd, Connection};

use super::{HOUR_MS, KEY, share};
use crate::callgrind::{same_pair, valgrind_is_here};
use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program, for_each};
use crate::stats::{Spread, interleave_slices};
use crate::table::Table;
use crate::target::target_folder;
use crate::ways::{OWNER, command};

const BATCH: usize = 500;

/// A pair on a lock with so many holders, the pair's own included.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    shared: bool,
    holders: usize,
}

const fn kind(name: &'static str, shared: bool, holders: usize) -> Kind {
    Kind {
        name,
        shared,
        holders,
    }
}

#[rustfmt::skip]
const KINDS: [Kind; 4] = [
    kind("LOCK.ACQUIRE PX + LOCK.RELEASE, 1 holder", false, 1),
    kind("LOCK.ACQUIRE SHARED PX + LOCK.RELEASE, 1 holder", true, 1),
    kind("the same, 100 holders", true, 100),
    kind("the same, 10000 holders", true, 10_000),
];

/// Of a reader's pair: the CPU and the instructions, each of those of an exclusive pair.
#[rustfmt::skip]
const GOALS: [[&str; 2]; KINDS.len() - 1] = [
    ["CPU of a reader's pair, 1 holder, of an exclusive one's", "its instructions"],
    ["CPU of a reader's pair, 100 holders", "its instructions, 100 holders"],
    ["CPU of a reader's pair, 10000 holders", "its instructions, 10000 holders"],
];

impl Kind {
    fn pair(self) -> [Cmd; 2] {
        let acquire: &[&str] = if self.shared {
            &["LOCK.ACQUIRE", KEY, OWNER, "SHARED", "PX"]
        } else {
            &["LOCK.ACQUIRE", KEY, OWNER, "PX"]
        };
        [
            command(acquire, &[HOUR_MS]),
            command(&["LOCK.RELEASE", KEY, OWNER], &[]),
        ]
    }

    /// The other holders come. Each lease ends later than those before it, the pair's last, so that the
    /// key's TTL changes with every one that comes or goes.
    fn prepare(self, connection: &mut Connection) {
        for_each(connection, 1..self.holders, |number| share(KEY, number));
    }
}

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let servers = KINDS.map(|kind| {
        let server = program.start();
        kind.prepare(&mut server.connection());
        server
    });
    let pairs = KINDS.iter().zip(&servers);
    let pairs =
        pairs.map(|(kind, server)| Batch::new(server, (0..BATCH).flat_map(|_| kind.pair())));
    let mut pairs: Vec<_> = pairs.collect();
    let slices = scale.pipelined_pairs / BATCH;
    let costs = interleave_slices(scale.rounds, slices, &mut pairs, |pairs| {
        [pairs.cost() / BATCH as f64]
    });
    let counts = instructions(program);
    let count = |index: usize| Some(*counts.as_ref().ok()?.get(index)? as f64);
    let mut table = Table::of(
        program,
        "A reader's pair, by the holders",
        &format!(
            "The cost of a share beside an exclusive lock, by the number of holders. Pipelined, on one lock; the pair's own share is one of the holders. Instructions are counted by \
             callgrind, with reading, running and replying.{}",
            counts
                .as_ref()
                .err()
                .map_or_else(String::new, |why| format!(" They are left out: {why}."))
        ),
        &["ns a pair", "of exclusive", "instructions", "of exclusive"],
    );
    let base = &costs[0][0];
    let mut goals = Vec::new();
    for (index, (kind, [cost])) in KINDS.iter().zip(&costs).enumerate() {
        let counted = count(index);
        let of_base = counted.zip(count(0)).map(|(ours, base)| ours / base);
        let ratios = [cost.over(base).spread(), of_base.and_then(Spread::of)];
        let [of_cost, of_count] = ratios;
        let counted = counted.and_then(Spread::of);
        table.row(kind.name, vec![cost.spread(), of_cost, counted, of_count]);
        let names = index.checked_sub(1).and_then(|index| GOALS.get(index));
        for (what, ratio) in names.into_iter().flatten().zip(ratios) {
            goals.push(Goal::at_most(*what, 1.5, ratio));
        }
    }
    Part::new(table, goals)
}

/// Those of each kind.
fn instructions(program: &Program) -> Result<Vec<u64>, String> {
    if !valgrind_is_here() {
        return Err("valgrind is not installed".to_owned());
    }
    let folder = target_folder();
    let counts = KINDS.iter().map(|kind| {
        same_pair(program, &folder, &kind.pair(), |connection| {
            kind.prepare(connection);
        })
    });
    counts.collect()
}
