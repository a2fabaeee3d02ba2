//! A pair beside few and many held locks.

use redis::Pipeline;
use testbed::Server;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::{Program, cpu_of, for_each, send_packed};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, Way, command};

const HELD: [usize; 3] = [1, 1_000, 1_000_000];
const BATCH: usize = 500;
const HOUR_MS: u32 = 3_600_000;

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let servers = HELD.map(|held| (held, server_with(program, held)));
    let mut contestants: Vec<(Way, &Server)> = [Way::Module, Way::SetDel]
        .into_iter()
        .flat_map(|way| servers.iter().map(move |(_, server)| (way, server)))
        .collect();
    let figures = interleave(scale.rounds, &mut contestants, |(way, server)| {
        [pair(*way, server, scale.pipelined_pairs)]
    });
    let mut table = Table::new(
        format!("A pair beside held locks, pipelined: {}", program.version),
        "Server CPU of a pair on other keys while so many locks are held, and its ratio to one.",
        &["ns a pair", "of one held"],
    );
    for (place, ((way, _), [cost])) in contestants.iter().zip(&figures).enumerate() {
        let few = &figures[place - place % HELD.len()][0];
        let held = HELD[place % HELD.len()];
        table.row(
            format!("{}, {held} held", way.name()),
            vec![cost.spread(), cost.over(few).spread()],
        );
    }
    Part {
        tables: vec![table],
        ..Part::default()
    }
}

fn server_with(program: &Program, held: usize) -> Server {
    let server = program.start();
    for_each(&mut server.connection(), 0..held, |number| {
        let key = format!("held:{number}");
        command(&["LOCK.ACQUIRE", &key, OWNER, "PX"], &[HOUR_MS])
    });
    server
}

fn pair(way: Way, server: &Server, pairs: usize) -> f64 {
    let mut batch = Pipeline::new();
    for number in 0..BATCH {
        for command in way.pair(&format!("lock:{number}")) {
            batch.add_command(command);
        }
    }
    let packed = batch.get_packed_pipeline();
    let mut connection = server.connection();
    let spent = cpu_of(server, || {
        for _ in 0..pairs / BATCH {
            send_packed(&mut connection, &packed, batch.len());
        }
    });
    spent / pairs as f64
}
