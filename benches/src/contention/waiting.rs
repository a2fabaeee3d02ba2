//! How many connections a process needs for very many tasks that wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testbed::{Expect, Server, cmd};

use super::contestant::{Contestant, GRANTS, OURS, is_ours};
use super::rows::{ROWS, is_wanted};
use crate::part::{Goal, Part};
use crate::scale::Workload;
use crate::servers::{Program, number};
use crate::stats::Spread;
use crate::table::Table;
use crate::toolchains::Language;

const TASKS: usize = 1_000;

/// The shortest turn: so many threads need about a second to start and to queue.
const LEAST_SECONDS: f64 = 2.0;

/// The pool of go-redis, unless it is told another size, for each processor.
const GO_POOL: usize = 10;

/// Each client has a server of its own, so that the server's count of connections is the client's.
pub(super) fn measure(
    program: &Program,
    languages: &[(&str, Result<Language, String>)],
    seconds: f64,
) -> Part {
    let mut part = Part::default();
    let mut table = Table::new(
        format!(
            "{TASKS} tasks of one process wait for one lock: {}",
            program.version
        ),
        "The most connections and the most waiters that the server had at once while the tasks took turns, and \
         the grants in that time.",
        &["connections", "waiters", "grants/s", "errors"],
    );
    for (id, name) in ROWS {
        if !is_ours(id) || !is_wanted(id, languages) {
            continue;
        }
        let server = program.start();
        let mut contestant = Contestant::new(id, name, &server, languages);
        let most = most_of(&mut contestant, &server, seconds.max(LEAST_SECONDS));
        if let Err(why) = &contestant.runner {
            table.left_out(name, why);
            continue;
        }
        let grants = contestant.figures[GRANTS].quartiles();
        let cells = [most.connections, most.waiters as f64];
        let mut cells = cells.map(Spread::of).to_vec();
        cells.extend([grants, Spread::of(contestant.errors as f64)]);
        table.row(name, cells);
        if id.0 == "go" {
            part.goals.push(Goal::at_most(
                format!("connections of {TASKS} waiting goroutines, of those of the pool and one"),
                1.0,
                Spread::of(most.connections / (GO_POOL * processors() + 1) as f64),
            ));
        }
    }
    part.tables.push(table);
    part
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// The highest counts of the server.
#[derive(Default)]
struct Most {
    connections: f64,
    waiters: usize,
}

/// One turn, while the server is asked again and again.
fn most_of(contestant: &mut Contestant, server: &Server, seconds: f64) -> Most {
    let connected = || number(server, "clients", "connected_clients");
    let mut connection = server.connection();
    let own = connected();
    contestant.open(
        server,
        Workload {
            contenders: TASKS,
            locks: 1,
        },
    );
    let key = format!("contest:{OURS}:0");
    let (over, mut most) = (AtomicBool::new(false), Most::default());
    thread::scope(|scope| {
        let turn = scope.spawn(|| {
            let turn = contestant.turn(server, seconds);
            over.store(true, Ordering::Relaxed);
            contestant.count(turn);
        });
        while !over.load(Ordering::Relaxed) {
            let waiters = cmd!(connection, "LOCK.WAITERS", key).items().len();
            most.waiters = most.waiters.max(waiters);
            most.connections = most.connections.max(connected() - own);
            thread::sleep(Duration::from_millis(20));
        }
        turn.join().expect("a turn");
    });
    most
}
