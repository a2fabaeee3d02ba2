//! Readers and writers, and a semaphore: this project's commands beside Redisson's objects, in Java.

use super::contestant::{CPU, Column, Contestant, GRANTS, WRITES, contest, ratio, table};
use crate::part::{Goal, Part};
use crate::scale::{Scale, Workload};
use crate::servers::Program;
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
    /// The ways: their names in the program of the contenders, and in the table.
    rows: [(&'static str, &'static str); 2],
    /// The names of its goals: the grants, and the server CPU.
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

const COLUMNS: [Column; 12] = [
    ("grants/s", |row| row.figure(GRANTS)),
    ("of Redisson's", |row| row.over(GRANTS)),
    ("CPU us/grant", |row| row.figure(CPU)),
    ("of Redisson's", |row| row.over(CPU)),
    ("writes, % of grants", |row| row.figure(WRITES)),
    ("writers' wait p50 us", |row| row.own.waits(0)[0]),
    ("writers' p99 us", |row| row.own.waits(0)[1]),
    ("writers' MAX us", |row| row.own.waits(0)[2]),
    ("others' wait p50 us", |row| row.own.waits(1)[0]),
    ("others' p99 us", |row| row.own.waits(1)[1]),
    ("least/most", |row| row.share()),
    ("errors", |row| row.errors()),
];

const ABOUT: &str = "\
Medians of the turns, with the quartiles in brackets. \"Of Redisson's\" is the ratio in the turn beside. A wait is the \
time from the call to the grant, in the clients' process; its percentiles are over all turns, and over the grants after \
the end of a turn too, for which somebody may have waited all the turn. Least/most are the grants of the contender that \
got fewest and of the one that got most.";

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
        let table = table(self.title, ABOUT, program, &COLUMNS, &both, theirs);
        Part::new(table, goals)
    }
}
