//! A pair while few or many locks are held.

use redis::Connection;
use testbed::Server;

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::{Program, cpu_of, for_each, send_packed};
use crate::stats::interleave_slices;
use crate::table::Table;
use crate::ways::{OWNER, Way, command};

const HELD: [usize; 3] = [1, 1_000, 1_000_000];
const BATCH: usize = 500;
const HOUR_MS: u32 = 3_600_000;

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let servers = HELD.map(|held| (held, server_with(program, held)));
    let mut contestants: Vec<Contestant> = [Way::Module, Way::SetDel]
        .into_iter()
        .flat_map(|way| {
            let servers = servers.iter();
            servers.map(move |(_, server)| Contestant::new(way, server))
        })
        .collect();
    let slices = scale.pipelined_pairs / BATCH;
    let figures = interleave_slices(scale.rounds, slices, &mut contestants, |contestant| {
        [contestant.pair()]
    });
    let mut table = Table::new(
        format!("A pair beside held locks, pipelined: {}", program.version),
        "Server CPU of a pair on other keys while so many locks are held, and its ratio to one.",
        &["ns a pair", "of one held"],
    );
    for (index, (contestant, [cost])) in contestants.iter().zip(&figures).enumerate() {
        let few = &figures[index - index % HELD.len()][0];
        let held = HELD[index % HELD.len()];
        table.row(
            format!("{}, {held} held", contestant.way.name()),
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

struct Contestant<'a> {
    way: Way,
    server: &'a Server,
    connection: Connection,
    batch: Vec<u8>,
}

impl<'a> Contestant<'a> {
    fn new(way: Way, server: &'a Server) -> Self {
        let pairs = (0..BATCH).flat_map(|number| way.pair(&format!("lock:{number}")));
        let batch: Vec<Vec<u8>> = pairs.map(|command| command.get_packed_command()).collect();
        Self {
            way,
            server,
            connection: server.connection(),
            batch: batch.concat(),
        }
    }

    /// Server CPU of a pair.
    fn pair(&mut self) -> f64 {
        let spent = cpu_of(self.server, || {
            send_packed(&mut self.connection, &self.batch, 2 * BATCH);
        });
        spent / BATCH as f64
    }
}
