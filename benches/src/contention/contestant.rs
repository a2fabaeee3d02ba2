//! A contestant of a contest: its turns, and their figures.

use std::slice;
use std::thread;
use std::time::Duration;

use testbed::{Server, server_cpu};

use super::{Contest, Id};
use crate::contenders::{Languages, Team, Turn};
use crate::facts::memory_of_process;
use crate::servers::Program;
use crate::stats::{Rounds, percentiles};

/// The figures, as the columns of the tables name them. First those of each turn: writes are of shared locks;
/// connections of the server, and the MiB of all processes, are at half-time.
pub(super) const FIGURES: [&str; 16] = [
    "grants/s",
    "CPU us/grant",
    "hand-off us",
    "p99 us",
    "writes, % of grants",
    "connections",
    "MiB",
    POOL,
    // Those of all turns together. The contender that got fewest grants, of the one that got most.
    "least/most",
    "errors",
    "writers' wait p50 us",
    "writers' p99 us",
    "writers' MAX us",
    "others' wait p50 us",
    "others' p99 us",
    "longest wait ms",
];
const OF_A_TURN: usize = 8;

/// The connections, of those of a go-redis pool by default and one. It is in no table.
pub(super) const POOL: &str = "connections of a pool";
/// The connections of that pool for each processor.
const GO_POOL: usize = 10;

/// A row of a contest.
pub(super) struct Contestant {
    locks: usize,
    /// A server of its own, so that what the server counts is its, and its processes; or why it is left out.
    running: Result<(Server, Team), String>,
    /// How long its first turn takes at least; that does not count.
    warm_up: Option<f64>,
    /// Over all turns: the grants of each contender, and the errors.
    grants: Vec<u64>,
    errors: u64,
    /// How long writers waited, and others.
    waits_us: [Vec<f64>; 2],
}

impl Contestant {
    /// Starts its server and its processes.
    pub(super) fn start(
        id: Id,
        contest: &Contest,
        program: &Program,
        languages: &Languages,
        warm_up: f64,
    ) -> Self {
        let server = program.start();
        let servers = slice::from_ref(&server);
        let key = format!("{}-{}", id.0, id.1);
        let team = Team::start(
            languages,
            contest.processes,
            servers,
            &contest.task(id, &key),
        );
        Self {
            locks: contest.locks,
            running: team.map(|team| (server, team)),
            warm_up: Some(warm_up),
            grants: vec![0; contest.contenders * contest.processes],
            errors: 0,
            waits_us: Default::default(),
        }
    }

    /// Takes a turn. A contestant that fails is left out from then on.
    pub(super) fn turn(&mut self, seconds: f64) -> [f64; OF_A_TURN] {
        let warm_up = self.warm_up.take();
        if let Ok((server, team)) = &mut self.running {
            match measured(server, team, seconds.max(warm_up.unwrap_or(0.0))) {
                Ok((turn, beside)) => return self.figures(&turn, beside, warm_up.is_none()),
                Err(why) => self.running = Err(why),
            }
        }
        [f64::NAN; OF_A_TURN]
    }

    fn figures(
        &mut self,
        turn: &Turn,
        [nanos, connections, memory]: [f64; 3],
        counts: bool,
    ) -> [f64; OF_A_TURN] {
        let mut outcome = turn.outcome(self.locks);
        let [median, p99, _] = percentiles(&mut outcome.hand_offs_us);
        let grants: u64 = outcome.grants.iter().sum();
        let all = (grants + outcome.late) as f64;
        let writes = 100.0 * outcome.waits_us[0].len() as f64 / all;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if counts {
            for (sum, grants) in self.grants.iter_mut().zip(&outcome.grants) {
                *sum += grants;
            }
            self.errors += turn.errors;
            for (all, waits) in self.waits_us.iter_mut().zip(outcome.waits_us) {
                all.extend(waits);
            }
        }
        [
            grants as f64 / turn.seconds,
            nanos / 1000.0 / all,
            median,
            p99,
            writes,
            connections,
            memory,
            connections / (GO_POOL * processors + 1) as f64,
        ]
    }

    /// Ends its processes and its server. Returns all figures, or why it is left out.
    pub(super) fn finish(mut self, of_turns: Vec<Rounds>) -> Result<Vec<Rounds>, String> {
        let least = self.grants.iter().min().copied().unwrap_or(0);
        let most = self.grants.iter().max().copied().unwrap_or(0);
        let [writers, others] = self.waits_us.each_mut().map(|waits| percentiles(waits));
        let of_all = [
            least as f64 / most as f64,
            self.errors as f64,
            writers[0],
            writers[1],
            writers[2],
            others[0],
            others[1],
            writers[2] / 1000.0,
        ];
        let figures = of_turns.into_iter().chain(of_all.map(Rounds::from));
        self.running.map(|_| figures.collect())
    }
}

/// A turn; the nanoseconds of the server meanwhile, its connections, and the memory of the processes.
fn measured(server: &Server, team: &mut Team, seconds: f64) -> Result<(Turn, [f64; 3]), String> {
    let before = server_cpu(server.pid());
    team.begin(seconds)?;
    thread::sleep(Duration::from_secs_f64(seconds / 2.0));
    // Less the one that asks.
    let connections = server.number("clients", "connected_clients") - 1;
    let memory = team.ids().map(memory_of_process).sum();
    let turn = team.end(seconds)?;
    let spent = server_cpu(server.pid()).saturating_sub(before);
    Ok((turn, [spent.as_nanos() as f64, connections as f64, memory]))
}
