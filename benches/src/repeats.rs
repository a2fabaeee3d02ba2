//! The cost of re-entry and renewal, compared with an acquire.

use redis::{Cmd, Connection, Pipeline};
use testbed::Server;

use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::{Program, cpu_of, send_packed};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER, command};

const BATCH: usize = 500;

/// An acquire of free locks, then a re-entry, then a renewal of the same locks. Each names another lease, so
/// that each changes the lock.
pub(crate) fn measure(program: &Program, scale: &Scale) -> Part {
    let server = program.start();
    let mut connection = server.connection();
    let steps = [
        batch(|key| command(&["LOCK.ACQUIRE", key, OWNER, "PX"], &[LEASE_MS])),
        batch(|key| command(&["LOCK.ACQUIRE", key, OWNER, "PX"], &[LEASE_MS + 1])),
        batch(|key| command(&["LOCK.RENEW", key, OWNER, "PX"], &[LEASE_MS + 2])),
    ];
    let release = batch(|key| command(&["LOCK.RELEASE", key, OWNER, "ALL"], &[]));
    let times = scale.pipelined_pairs / BATCH;
    let figures = interleave(scale.rounds, &mut [()], |()| {
        let mut spent = [0.0; 3];
        for _ in 0..times {
            for (step, spent) in steps.iter().zip(&mut spent) {
                *spent += send(&server, &mut connection, step);
            }
            send(&server, &mut connection, &release);
        }
        spent.map(|spent| spent / (times * BATCH) as f64)
    });
    let [[acquire, again, renewal]] = figures.as_slice() else {
        return Part::default();
    };
    let mut table = Table::new(
        format!("Re-entry and renewal, pipelined: {}", program.version),
        "Server CPU of one call, and its ratio to an acquire of a free lock in the same round.",
        &["ns a call", "of an acquire"],
    );
    for (name, cost) in [
        ("LOCK.ACQUIRE PX of a free lock", acquire),
        ("LOCK.ACQUIRE PX again: re-entry", again),
        ("LOCK.RENEW PX", renewal),
    ] {
        table.row(name, vec![cost.spread(), cost.over(acquire).spread()]);
    }
    Part {
        tables: vec![table],
        goals: vec![
            Goal::at_most("re-entry of an acquire", 1.0, again.over(acquire).spread()),
            Goal::at_most("renewal of an acquire", 1.0, renewal.over(acquire).spread()),
        ],
        ..Part::default()
    }
}

fn batch(call: impl Fn(&str) -> Cmd) -> Vec<u8> {
    let mut batch = Pipeline::new();
    for number in 0..BATCH {
        batch.add_command(call(&format!("lock:{number}")));
    }
    batch.get_packed_pipeline()
}

fn send(server: &Server, connection: &mut Connection, packed: &[u8]) -> f64 {
    cpu_of(server, || send_packed(connection, packed, BATCH))
}
