//! Contests for locks: this project's client in each language, its commands alone, and the locks of popular client
//! libraries. Every contestant is a team of contenders with a server of its own.

mod contestant;
mod goals;

use std::collections::BTreeMap;
use std::thread::{self, ScopedJoinHandle};

use crate::contenders::{Languages, Task, languages};
use crate::part::{Goal, Panel, Part};
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::interleave;
use crate::table::Table;
use contestant::{Contestant, FIGURES, Finished, POOL};
use goals::Wanted;

/// The language and the way, which identify a row.
type Id = (&'static str, &'static str);

/// This project's client, in each language.
const OURS: &str = "client";

/// One contest: who contends for which locks, and which figures its table shows.
struct Contest {
    title: &'static str,
    /// One sentence or two under the table: how to read its figures.
    meaning: &'static str,
    rows: &'static [(Id, &'static str)],
    processes: usize,
    /// Of each process.
    contenders: usize,
    locks: usize,
    held_ms: u32,
    /// A turn is so many times as long as usual, because waits are long.
    longer: f64,
    columns: &'static [&'static str],
    /// The way that others are compared with.
    base: &'static str,
    goals: &'static [Wanted],
}

/// The contestants of a language stand together, and take turns one right after the other.
#[rustfmt::skip]
const ALL: &[(Id, &str)] = &[
    (("rust", OURS), "Rust: this project's client"),
    (("rust", "commands"), "Rust, redis-rs: its commands alone"),
    (("rust", "baton"), "Rust, redis-rs: RPUSH + BLPOP, the floor"),
    (("java", OURS), "Java: this project's client on Jedis"),
    (("java", "commands"), "Java, Jedis: its commands alone"),
    (("java", "baton"), "Java, Jedis: RPUSH + BLPOP, the floor"),
    (("java", "rlock"), "Java, Redisson: RLock"),
    (("java", "rfair"), "Java, Redisson: RFairLock"),
    (("python", OURS), "Python: this project's client"),
    (("python", "commands"), "Python, redis-py: its commands alone"),
    (("python", "lock"), "Python, redis-py: Lock"),
    (("python", "aclient"), "Python: this project's client, asyncio"),
    (("python", "acommands"), "Python, redis-py: its commands alone, asyncio"),
    (("go", OURS), "Go: this project's client"),
    (("go", "commands"), "Go, go-redis: its commands alone"),
    (("go", "redsync"), "Go, redsync: Mutex"),
    (("node", OURS), "Node: this project's client"),
    (("node", "commands"), "Node, ioredis: its commands alone"),
    (("node", "redlock"), "Node, redlock: Redlock"),
];

/// The locks that programs use.
#[rustfmt::skip]
const LOCKS: &[(Id, &str)] = &[
    ALL[0], ALL[3], ALL[6], ALL[8], ALL[10], ALL[11], ALL[13], ALL[15], ALL[16], ALL[18],
];

#[rustfmt::skip]
const THREADS: &[(Id, &str)] = &[
    (("java", "client-threads"), "This project's client on Jedis"),
    (("java", "commands-threads"), "Jedis: its commands alone"),
    (("java", "redisson-threads"), "Redisson: RReadWriteLock"),
];
#[rustfmt::skip]
const CALLS: &[(Id, &str)] = &[
    (("java", "client-calls"), THREADS[0].1),
    (("java", "commands-calls"), THREADS[1].1),
    (("java", "redisson-calls"), THREADS[2].1),
];
#[rustfmt::skip]
const PERMITS: &[(Id, &str)] = &[
    (("java", "client-permits"), THREADS[0].1),
    (("java", "commands-permits"), THREADS[1].1),
    (("java", "redisson-permits"), "Redisson: RPermitExpirableSemaphore"),
];

const EXCLUSIVE: &[&str] = &[
    "grants/s",
    "of ours",
    "CPU us/grant",
    "of ours",
    "hand-off us",
    "p99 us",
    "longest wait ms",
    "least/most",
    "errors",
];

const TASKS: &[&str] = &[
    "connections",
    "MiB",
    "of ours",
    "grants/s",
    "of ours",
    "least/most",
    "errors",
];

const SHARED: &[&str] = &[
    "grants/s",
    "of ours",
    "CPU us/grant",
    "of ours",
    "writes, % of grants",
    "writers' wait p50 us",
    "writers' p99 us",
    "writers' MAX us",
    "others' wait p50 us",
    "others' p99 us",
    "least/most",
    "errors",
];

/// One process with a lock that nobody else wants.
const ONE: Contest = Contest {
    title: "One client, no contention",
    meaning: "What does a free lock cost? The server records each grant of this project's client in its session, and \
              the client watches the grant to report a loss. The libraries that are faster do neither.",
    rows: ALL,
    processes: 1,
    contenders: 1,
    locks: 1,
    held_ms: 0,
    longer: 1.0,
    columns: EXCLUSIVE,
    base: OURS,
    goals: goals::ALONE,
};

const CONTESTS: [Contest; 10] = [
    ONE,
    Contest {
        title: MANY,
        meaning: "How fast does a lock pass from one contender to the next? Where redis-py's Lock, redsync or \
                  redlock are faster, the contender that has just released the lock acquires it again while the \
                  others pause. Least/most shows that some contenders hardly get the lock, and the longest wait \
                  shows for how long.",
        contenders: 64,
        goals: goals::MANY,
        ..ONE
    },
    Contest {
        title: "64 contenders for 64 locks, each its own",
        meaning: "How many locks can a process acquire if each contender has a lock of its own? Where another row is \
                  faster, its calls name no session.",
        contenders: 64,
        locks: 64,
        goals: goals::APART,
        ..ONE
    },
    Contest {
        title: "8 processes of 8 contenders for one lock",
        meaning: "How fast does a lock pass from process to process, each with a session of its own? Again, with a \
                  library that polls, most grants go to the contender that had the lock before.",
        rows: LOCKS,
        processes: 8,
        contenders: 8,
        goals: &[],
        ..ONE
    },
    held(
        "8 contenders for one lock, who hold it for 1 ms and rest for 1 ms",
        1,
        2.0,
    ),
    held(
        "8 contenders for one lock, who hold it for 10 ms and rest for 10 ms",
        10,
        5.0,
    ),
    Contest {
        title: "1000 tasks of one process for one lock",
        meaning: "What does waiting cost a process? The figures are the connections to the server and the memory of \
                  the process (VmRSS) at half-time, and the grants meanwhile.",
        rows: LOCKS,
        contenders: 1000,
        longer: 5.0,
        columns: TASKS,
        goals: goals::TASKS,
        ..ONE
    },
    shared(
        "64 Java threads for one lock, 58 that read and 6 that write",
        THREADS,
        goals::THREADS,
    ),
    shared(
        "64 Java threads for one lock, every tenth call of each writes",
        CALLS,
        goals::CALLS,
    ),
    shared(
        "64 Java threads for a semaphore of 8",
        PERMITS,
        goals::PERMITS,
    ),
];

const MANY: &str = "64 contenders for one lock";

const fn held(title: &'static str, ms: u32, longer: f64) -> Contest {
    Contest {
        title,
        meaning: "How long is a lock idle between two holders? That time is the hand-off. With this project's client and \
                  with Redisson a release wakes the next contender. With redis-py's Lock, redsync and redlock a \
                  contender finds the lock free only at its next poll.",
        rows: LOCKS,
        contenders: 8,
        held_ms: ms,
        longer,
        goals: &[],
        ..ONE
    }
}

/// Of Java threads, where the title says what each wants. A writer that starves does so for no longer than a turn.
const fn shared(
    title: &'static str,
    rows: &'static [(Id, &'static str)],
    goals: &'static [Wanted],
) -> Contest {
    Contest {
        title,
        meaning: "How are readers and writers, or the users of a semaphore, served in turn? A wait is the time from \
                  the call to the grant, in all turns. This includes grants after the end of a turn, for which a \
                  contender may have waited during the whole turn.",
        rows,
        contenders: 64,
        longer: 4.0,
        columns: SHARED,
        base: rows[0].0.1,
        goals,
        ..ONE
    }
}

/// Runs the contests whose titles have `word`.
pub(crate) fn measure(program: &Program, scale: Scale, word: &str) -> Part {
    let languages = languages(&["rust", "java", "python", "go", "node"]);
    let mut part = Part::default();
    let built = languages.values().flatten();
    part.facts = built
        .map(|language| format!("clients: {}", language.versions))
        .collect();
    let wanted = CONTESTS
        .iter()
        .filter(|contest| contest.title.contains(word));
    for contest in wanted {
        let all = contest.run(program, scale, &languages);
        let table = contest.table(program, &all);
        part.goals.extend(contest.goals(&all, &table));
        if contest.title == MANY {
            part.panels = contest.panels(program, &table);
        }
        part.tables.push(table);
    }
    part
}

impl Contest {
    fn task<'a>(&self, (language, way): Id, key: &'a str) -> Task<'a> {
        Task {
            language,
            way,
            key,
            contenders: self.contenders,
            locks: self.locks,
            held_ms: self.held_ms,
            ..Task::ALONE
        }
    }

    /// All contestants of a language run at once. They take turns one right after the other, and each time in another
    /// order, so that a slow spell of the machine hits all that is compared.
    fn run(&self, program: &Program, scale: Scale, languages: &Languages) -> Vec<Finished> {
        let mut all = Vec::new();
        let seconds = scale.of(0.15, 0.3) * self.longer;
        for group in self.rows.chunk_by(|a, b| a.0.0 == b.0.0) {
            let name = group[0].0.0;
            // A JVM needs time to compile; the others' first turn is warm-up enough.
            let warm_up = if name == "java" {
                scale.of(1.0, 2.0)
            } else {
                0.0
            };
            let mut contestants: Vec<_> = thread::scope(|scope| {
                let start = |&row| {
                    scope.spawn(move || Contestant::start(row, self, program, languages, warm_up))
                };
                let started: Vec<_> = group.iter().map(start).collect();
                let started = started.into_iter().map(ScopedJoinHandle::join);
                started.map(|one| one.expect("a contestant")).collect()
            });
            let figures = interleave(scale.of(5, 11), &mut contestants, |contestant| {
                contestant.turn(seconds)
            });
            let finished = contestants.into_iter().zip(figures);
            all.extend(finished.map(|(contestant, figures)| contestant.finish(figures)));
        }
        all
    }

    /// The figures that its table shows, and the one that no table shows.
    fn shown(&self) -> impl Iterator<Item = &'static str> {
        let shown = self
            .columns
            .iter()
            .filter(|title| !title.starts_with("of "));
        shown.copied().chain([POOL])
    }

    fn table(&self, program: &Program, all: &[Finished]) -> Table {
        let mut table = Table::of(program, self.title, self.meaning, self.columns).quartiles();
        for (number, own) in all.iter().enumerate() {
            let base = (own.id.0, self.base);
            let base = all.iter().position(|finished| finished.id == base);
            let figures = own.figures.clone().map(|figures| {
                let figures = FIGURES.into_iter().zip(figures);
                let figures: BTreeMap<&str, _> = figures.collect();
                self.shown().map(|title| figures[title].clone()).collect()
            });
            table.row(own.name, base.unwrap_or(number), figures);
        }
        table
    }

    fn goals(&self, all: &[Finished], table: &Table) -> Vec<Goal> {
        let row = |id| all.iter().position(|finished| finished.id == id);
        let goal = |&(what, limit, title, id, base): &Wanted| {
            let found = || {
                let (row_of, figure) = (row(id)?, self.shown().position(|shown| shown == title)?);
                match base {
                    Some(way) => table.ratio(row_of, figure, row((id.0, way))?),
                    None => table.figure(row_of, figure),
                }
            };
            Goal::new(what, limit, found())
        };
        self.goals.iter().map(goal).collect()
    }

    fn panels(&self, program: &Program, table: &Table) -> Vec<Panel> {
        let titles = [
            ("grants/s", "Grants a second, more is better"),
            ("CPU us/grant", "Server CPU of a grant, less is better"),
            ("p99 us", "p99 of a hand-off, less is better"),
        ];
        let panel = |(figure, title)| {
            let figure = self.shown().position(|shown| shown == figure);
            Panel {
                title: format!(
                    "{title}: {}, {}; this project's client, same language = 1",
                    self.title, program.version
                ),
                bars: figure.map_or_else(Vec::new, |figure| {
                    table.bars(figure, None, |name| name.contains("this project's client"))
                }),
            }
        };
        titles.map(panel).into()
    }
}
