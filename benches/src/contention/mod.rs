//! Contests for locks: this project's client in each language, its commands alone, and the locks of popular client
//! libraries. Every contestant is a program of contenders (benches/ and [`contender`]) with a server of its own.

pub(crate) mod contender;
mod contestant;
mod goals;
mod turn;

use std::thread::{self, ScopedJoinHandle};

use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::order;
use crate::table::Table;
use crate::toolchains::{self, Language};
use contestant::{
    CONNECTIONS, CPU, Cell, Contestant, GRANTS, Id, Languages, MEDIAN, MEMORY, OURS, P99, Row,
    WRITES,
};
use goals::Wanted;

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
    held_ms: Option<usize>,
    /// A turn is so many times as long as in the scale, because waits are long.
    longer: f64,
    columns: &'static [Column],
    /// The way that others are compared with.
    base: &'static str,
    goals: &'static [Wanted],
}

/// A column: its title, and its cell of a row.
type Column = (&'static str, Cell);

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

const THREADS: &[(Id, &str)] = &[
    (("java", "client-threads"), CLIENT),
    (("java", "commands-threads"), COMMANDS),
    (("java", "redisson-threads"), "Redisson: RReadWriteLock"),
];
const CALLS: &[(Id, &str)] = &[
    (("java", "client-calls"), CLIENT),
    (("java", "commands-calls"), COMMANDS),
    (("java", "redisson-calls"), "Redisson: RReadWriteLock"),
];
const PERMITS: &[(Id, &str)] = &[
    (("java", "client-permits"), CLIENT),
    (("java", "commands-permits"), COMMANDS),
    (
        ("java", "redisson-permits"),
        "Redisson: RPermitExpirableSemaphore",
    ),
];
const CLIENT: &str = "This project's client on Jedis";
const COMMANDS: &str = "Jedis: its commands alone";

const EXCLUSIVE: &[Column] = &[
    ("grants/s", |row| row.figure(GRANTS)),
    ("of ours", |row| row.over(GRANTS)),
    ("CPU us/grant", |row| row.figure(CPU)),
    ("of ours", |row| row.over(CPU)),
    ("hand-off us", |row| row.figure(MEDIAN)),
    ("p99 us", |row| row.figure(P99)),
    ("longest wait ms", |row| {
        row.waits(0)[2].map(|wait| wait.scaled(1000.0))
    }),
    ("least/most", |row| row.share()),
    ("errors", |row| row.errors()),
];

const TASKS: &[Column] = &[
    ("connections", |row| row.figure(CONNECTIONS)),
    ("MiB", |row| row.figure(MEMORY)),
    ("of ours", |row| row.over(MEMORY)),
    ("grants/s", |row| row.figure(GRANTS)),
    ("of ours", |row| row.over(GRANTS)),
    ("least/most", |row| row.share()),
    ("errors", |row| row.errors()),
];

const SHARED: &[Column] = &[
    ("grants/s", |row| row.figure(GRANTS)),
    ("of ours", |row| row.over(GRANTS)),
    ("CPU us/grant", |row| row.figure(CPU)),
    ("of ours", |row| row.over(CPU)),
    ("writes, % of grants", |row| row.figure(WRITES)),
    ("writers' wait p50 us", |row| row.waits(0)[0]),
    ("writers' p99 us", |row| row.waits(0)[1]),
    ("writers' MAX us", |row| row.waits(0)[2]),
    ("others' wait p50 us", |row| row.waits(1)[0]),
    ("others' p99 us", |row| row.waits(1)[1]),
    ("least/most", |row| row.share()),
    ("errors", |row| row.errors()),
];

/// One process with a lock that nobody else wants.
const ONE: Contest = Contest {
    title: "One client, no contention",
    meaning: "The cost of a free lock. The server records each grant of this project's client in its \
              session, and the client watches it to report a loss. A peer that is faster does neither.",
    rows: ALL,
    processes: 1,
    contenders: 1,
    locks: 1,
    held_ms: None,
    longer: 1.0,
    columns: EXCLUSIVE,
    base: OURS,
    goals: goals::ALONE,
};

const CONTESTS: [Contest; 10] = [
    ONE,
    Contest {
        title: MANY,
        meaning: "How fast a lock goes from one contender to the next. Where redis-py's Lock, redsync or redlock are \
                  faster, the contender that has just released takes the lock again while the others pause: \
                  least/most shows that some hardly get it, and the longest wait for how long.",
        contenders: 64,
        goals: goals::MANY,
        ..ONE
    },
    Contest {
        title: "64 contenders for 64 locks, each its own",
        meaning: "How many locks a process can take when none is wanted twice. Where a peer is faster, its calls name \
                  no session.",
        contenders: 64,
        locks: 64,
        goals: goals::APART,
        ..ONE
    },
    Contest {
        title: "8 processes of 8 contenders for one lock",
        meaning: "The same from process to process, each with a session of its own. Again a peer that polls gives most \
                  grants to the contender that had the lock before.",
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
        meaning: "The cost of waiting for a process: the connections that its server had and the process's memory (VmRSS) \
                  at half-time, and the grants meanwhile.",
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

const fn held(title: &'static str, ms: usize, longer: f64) -> Contest {
    Contest {
        title,
        meaning: "How long a lock lies idle between two holders, which is the hand-off: a release wakes the next \
                  contender of this project's client and of Redisson, but those of redis-py's Lock, redsync and \
                  redlock find it free only at the next of their polls.",
        rows: LOCKS,
        contenders: 8,
        held_ms: Some(ms),
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
        meaning: "How readers and writers, or those that want a permit, are served in turn. A wait is the time from \
                  the call to the grant in all turns, also of the grants after the end of a turn, for which a \
                  contender may have waited all the turn.",
        rows,
        contenders: 64,
        longer: 4.0,
        columns: SHARED,
        base: rows[0].0.1,
        goals,
        ..ONE
    }
}

/// Runs the contests whose titles have `word`, of all languages or of Rust and these only.
pub(crate) fn measure(program: &Program, scale: &Scale, only: &[String], word: &str) -> Part {
    let languages = languages(only);
    let mut part = Part::default();
    let built = languages.values().flatten();
    part.facts = built
        .map(|language| format!("clients: {}", language.versions))
        .collect();
    let wanted = CONTESTS
        .iter()
        .filter(|contest| contest.title.contains(word));
    for contest in wanted {
        let contestants = contest.run(program, scale, &languages);
        part.tables.push(contest.table(program, &contestants));
        part.goals.extend(goals::goals(&contestants, contest.goals));
        if contest.title == MANY {
            part.panels = goals::panels(program, &contestants);
        }
    }
    part
}

fn languages(only: &[String]) -> Languages {
    let wanted = |name: &&str| only.is_empty() || only.iter().any(|one| one == name);
    let built = ["java", "python", "go", "node"].into_iter().filter(wanted);
    let built = built.map(|name| (name, toolchains::build(name)));
    let own = ("rust", Language::own(contender::ROLE));
    std::iter::once(own).chain(built).collect()
}

impl Contest {
    /// All contestants of a language run at once. They take turns one right after the other, and each time in another
    /// order, so that a slow spell of the machine hits all that is compared.
    fn run(&self, program: &Program, scale: &Scale, languages: &Languages) -> Vec<Contestant> {
        let mut all = Vec::new();
        let seconds = scale.turn_seconds * self.longer;
        for group in self.rows.chunk_by(|a, b| a.0.0 == b.0.0) {
            let language = group[0].0.0;
            if !languages.contains_key(language) {
                continue;
            }
            let mut contestants: Vec<_> = thread::scope(|scope| {
                let start =
                    |&row| scope.spawn(move || Contestant::start(row, self, program, languages));
                let started: Vec<_> = group.iter().map(start).collect();
                let started = started.into_iter().map(ScopedJoinHandle::join);
                started.map(|one| one.expect("a contestant")).collect()
            });
            for contestant in &mut contestants {
                // A JVM needs time to compile; the others' first turn is warm-up enough.
                let is_java = language == "java";
                let first = if is_java { scale.warm_up_seconds } else { 0.0 };
                contestant.turn(seconds.max(first), false);
            }
            for number in 0..scale.turns {
                for index in order(number, contestants.len()) {
                    contestants[index].turn(seconds, true);
                }
            }
            contestants.iter_mut().for_each(Contestant::stop);
            all.append(&mut contestants);
        }
        all
    }

    fn table(&self, program: &Program, all: &[Contestant]) -> Table {
        let titles: Vec<_> = self.columns.iter().map(|(title, _)| *title).collect();
        let title = format!("{}: {}", self.title, program.version);
        let mut table = Table::new(title, self.meaning, &titles);
        for own in all {
            if let Some(why) = &own.left_out {
                table.left_out(own.name, why);
                continue;
            }
            let base = self.base;
            let row = Row { own, all, base };
            let cells = self.columns.iter().map(|(_, cell)| cell(&row));
            table.row(own.name, cells.collect());
        }
        table
    }
}
