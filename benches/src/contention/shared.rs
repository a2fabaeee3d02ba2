//! Readers and writers, and a semaphore: this project's commands beside Redisson's objects, in Java.

use super::contestant::{CPU, Contestant, GRANTS, WRITES, contest, ratio};
use crate::part::{Goal, Part};
use crate::scale::{Scale, Workload};
use crate::servers::Program;
use crate::stats::{Spread, percentiles};
use crate::table::Table;
use crate::toolchains::{self, Language};

/// A turn is so many times as long as one of the other contests: who starves does so for no longer than it.
const LONGER: f64 = 4.0;

const WORKLOAD: Workload = Workload {
    contenders: 64,
    locks: 1,
};

/// The requests of the contenders.
struct Contest {
    title: &'static str,
    /// The ways, as the program of the contenders names them, and what they are called here.
    rows: [(&'static str, &'static str); 2],
    /// What its goals are called: the grants, and the server CPU.
    goals: [&'static str; 2],
}

const COMMANDS: &str = "Jedis: this project's commands alone";

#[rustfmt::skip]
const CONTESTS: [Contest; 3] = [
    Contest {
        title: "64 Java threads for one lock, 58 that read and 6 that write",
        rows: [("commands-threads", COMMANDS), ("redisson-threads", "Redisson: RReadWriteLock")],
        goals: ["grants a second of RReadWriteLock's, 6 of 64 threads write", "server CPU a grant of it"],
    },
    Contest {
        title: "64 Java threads for one lock, every tenth call of each writes",
        rows: [("commands-calls", COMMANDS), ("redisson-calls", "Redisson: RReadWriteLock")],
        goals: ["grants a second of RReadWriteLock's, every tenth call writes", "server CPU a grant of it"],
    },
    Contest {
        title: "64 Java threads for a semaphore of 8",
        rows: [("commands-permits", COMMANDS), ("redisson-permits", "Redisson: RPermitExpirableSemaphore")],
        goals: ["grants a second of RPermitExpirableSemaphore's, 8 permits", "server CPU a grant of it"],
    },
];

const COLUMNS: [&str; 12] = [
    "grants/s",
    "of Redisson's",
    "CPU us/grant",
    "of Redisson's",
    "writes, % of grants",
    "writers' wait p50 us",
    "writers' p99 us",
    "writers' MAX us",
    "others' wait p50 us",
    "others' p99 us",
    "least/most",
    "errors",
];

/// Runs all contests on each server.
pub(crate) fn measure(programs: &[Program], scale: &Scale) -> Part {
    let java = [("java", toolchains::build("java"))];
    let mut part = Part::of_each(programs, |program| {
        let contests = CONTESTS.iter();
        contests.fold(Part::default(), |part, contest| {
            part.and(contest.run(program, &java, scale))
        })
    });
    if let [(_, Ok(java))] = &java {
        part.facts.push(format!("shares: {}", java.versions));
    }
    part
}

impl Contest {
    fn run(
        &self,
        program: &Program,
        java: &[(&str, Result<Language, String>)],
        scale: &Scale,
    ) -> Part {
        let server = program.start();
        let start = |(way, name)| Contestant::new(("java", way), name, &server, java);
        let mut both = self.rows.map(start);
        let seconds = LONGER * scale.turn_seconds;
        contest(&mut both, &server, WORKLOAD, scale, seconds);
        let [ours, theirs] = self.rows.map(|(way, _)| way);
        let of = |figure: usize| ratio(&both, figure, ("java", ours), theirs).quartiles();
        let goals = vec![
            Goal::at_least(self.goals[0], 4.0, of(GRANTS)),
            Goal::at_most(self.goals[1], 1.0 / 3.0, of(CPU)),
        ];
        Part::new(self.table(program, &mut both), goals)
    }

    fn table(&self, program: &Program, contestants: &mut [Contestant]) -> Table {
        let mut table = Table::new(
            format!("{}: {}", self.title, program.version),
            "Medians of the turns, with the quartiles in brackets. \"Of Redisson's\" is the ratio in the turn \
             beside. A wait is the time from the call to the grant, in the clients' process; its percentiles \
             are over all turns, and over the grants after the end of a turn too, for which somebody may \
             have waited all the turn. Least/most are the grants of the contender that got fewest and of \
             the one that got most.",
            &COLUMNS,
        );
        for index in 0..contestants.len() {
            let waits = contestants[index].waits_us.each_mut().map(|all| waits(all));
            let contestant = &contestants[index];
            if let Err(why) = &contestant.runner {
                table.left_out(contestant.name, why);
                continue;
            }
            let own = |figure: usize| contestant.figures[figure].quartiles();
            let theirs = self.rows[1].0;
            let of_theirs = |figure| ratio(contestants, figure, contestant.id, theirs).quartiles();
            let [[p50, p99, most], [others_p50, others_p99, _]] = waits;
            table.row(
                contestant.name,
                vec![
                    own(GRANTS),
                    of_theirs(GRANTS),
                    own(CPU),
                    of_theirs(CPU),
                    own(WRITES),
                    p50,
                    p99,
                    most,
                    others_p50,
                    others_p99,
                    Spread::of(contestant.share()),
                    Spread::of(contestant.errors as f64),
                ],
            );
        }
        table
    }
}

/// The 50th and the 99th percentile and the longest; `None` of none.
fn waits(all: &mut [f64]) -> [Option<Spread>; 3] {
    let is_empty = all.is_empty();
    percentiles(all).map(|wait| Spread::of(wait).filter(|_| !is_empty))
}
