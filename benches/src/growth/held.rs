//! A pair while few or many locks are held.

use testbed::Server;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::{Batch, Program, for_each};
use crate::session::HOUR_MS;
use crate::stats::interleave_slices;
use crate::table::Table;
use crate::ways::{OWNER, Way, command};

const HELD: [usize; 3] = [1, 1_000, 1_000_000];
const BATCH: usize = 500;

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let servers = HELD.map(|held| (held, server_with(program, held)));
    let ways = [Way::Module, Way::SetDel];
    let both = ways.iter().flat_map(|way| {
        servers.iter().map(move |(held, server)| {
            let pairs = (0..BATCH).flat_map(|number| way.pair(&format!("lock:{number}")));
            (way, *held, Batch::new(server, pairs))
        })
    });
    let mut contestants: Vec<_> = both.collect();
    let slices = scale.pipelined_pairs / BATCH;
    let figures = interleave_slices(scale.rounds, slices, &mut contestants, |(.., pairs)| {
        [pairs.cost() / BATCH as f64]
    });
    let names = contestants.iter();
    let names = names.map(|(way, held, _)| format!("{}, {held} held", way.name()));
    let table = Table::new(
        format!("A pair beside held locks, pipelined: {}", program.version),
        "Server CPU of a pair on other keys while so many locks are held, and its ratio to one.",
        &["ns a pair", "of one held"],
    );
    let table = table.rows_over(names, &figures, |index| index - index % HELD.len());
    Part::new(table, vec![])
}

fn server_with(program: &Program, held: usize) -> Server {
    let server = program.start();
    for_each(&mut server.connection(), 0..held, |number| {
        let key = format!("held:{number}");
        command(&["LOCK.ACQUIRE", &key, OWNER, "PX"], &[HOUR_MS])
    });
    server
}
