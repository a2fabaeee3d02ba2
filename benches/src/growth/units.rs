//! The cost of one more lock, queued call or session, by how many there are.

use redis::Connection;
use testbed::{Expect, Server, Talk};

use crate::facts::memory_kib;
use crate::part::{Panel, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program, clients_allowed, cpu_of, for_each, number, started};
use crate::session::{HOUR_MS, Session, open_session, queue};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, Way, call, owner};

/// Pairs on other keys that are sent at once.
const PAIRS: usize = 5_000;
/// The memory that has to be free for each.
const FREE_BYTES_EACH: usize = 1024;
/// Each has a connection.
const MOST_SESSIONS: usize = 10_000;
/// The highest value of `lock.max-waiters`.
const MOST_WAITERS: usize = 1_000_000;

#[derive(Clone, Copy)]
enum Kind {
    Locks,
    Queued,
    Sessions,
}

/// Each kind, its name, and the fewest of them.
const KINDS: [(Kind, &str, usize); 3] = [
    (Kind::Locks, "locks", 1_000),
    (Kind::Queued, "queued calls", 100),
    (Kind::Sessions, "sessions", 10),
];

const COLUMNS: [&str; 5] = [
    "us each",
    "of the fewest",
    "bytes each",
    "of the fewest",
    "us a pair beside",
];
/// The columns that are no ratios.
const FIGURES: usize = 3;

/// From few to very many: each ten times the one before.
fn amounts(kind: Kind, fewest: usize, scale: Scale) -> Vec<usize> {
    let files = match kind {
        Kind::Sessions => MOST_SESSIONS.min(clients_allowed()),
        _ => usize::MAX,
    };
    let memory = memory_kib("MemAvailable:").map_or(usize::MAX, |kib| kib as usize * 1024);
    let most = files.min(memory / FREE_BYTES_EACH);
    let powers = (0..scale.of(3, 5)).map(|power| fewest * 10_usize.pow(power));
    powers.filter(|amount| *amount <= most).collect()
}

pub(super) fn measure(program: &Program, scale: Scale) -> Part {
    let mut table = Table::of(
        program,
        "The cost of one more, by how many there are",
        &format!(
            "Does a lock, a queued call or a session cost more if there are many? The figures are the server CPU and \
             used_memory of each one that was added since the row above, and the server CPU of a pair on other keys \
             meanwhile. Locks have keys of 13 bytes and owners of {}. The calls wait for one lock in one session. A \
             session has a connection of its own, whose memory counts too.",
            OWNER.len()
        ),
        &COLUMNS,
    );
    for (kind, name, fewest) in KINDS {
        let amounts = amounts(kind, fewest, scale);
        let figures = interleave(scale.of(1, 3), &mut [()], |()| {
            grow(program, kind, &amounts).concat()
        });
        let names = amounts.iter().map(|amount| format!("{amount} {name}"));
        table = table.rows(names, figures[0].chunks(FIGURES));
    }
    let panel = |(figure, what)| Panel {
        title: format!(
            "{what} of one more, {}; among the fewest = 1",
            program.version
        ),
        bars: table.bars(figure, None, |_| true),
    };
    Part {
        panels: [(0, "Server CPU"), (1, "Memory")].map(panel).into(),
        ..Part::new(table, Vec::new())
    }
}

/// Adds to a server until there are so many: the microseconds and the bytes of each, and the microseconds of a pair on
/// other keys.
fn grow(program: &Program, kind: Kind, amounts: &[usize]) -> Vec<[f64; FIGURES]> {
    let most = amounts.last().copied().unwrap_or(0).min(MOST_WAITERS);
    let builder = program
        .builder_for(MOST_SESSIONS)
        .config("lock.max-waiters", &most.to_string())
        .config("lock.max-sessions", &(MOST_SESSIONS + 1).to_string()); // one is there already
    let server = started(builder);
    let mut session = Session::open(&server);
    let first = call!("LOCK.ACQUIRE line holder PX {HOUR_MS}");
    session.connection.send(&first).grant();
    let pairs = (0..PAIRS).flat_map(|number| Way::Module.pair(&format!("other:{number}")));
    let mut beside = Batch::new(&server, pairs);
    beside.cost();
    let mut connections = Vec::new();
    let mut before = 0;
    let memory = || number(&server, "memory", "used_memory");
    let steps = amounts.iter().map(|&amount| {
        let used = memory();
        let numbers = before..amount;
        let spent = cpu_of(&server, || {
            add(&server, kind, &mut session, &mut connections, numbers);
        });
        let more = (amount - before) as f64;
        before = amount;
        let bytes = (memory() - used) / more;
        let pair = beside.cost() / 1000.0 / PAIRS as f64;
        [spent / 1000.0 / more, bytes, pair]
    });
    steps.collect()
}

fn add(
    server: &Server,
    kind: Kind,
    session: &mut Session,
    connections: &mut Vec<Connection>,
    numbers: std::ops::Range<usize>,
) {
    let id = session.id;
    match kind {
        Kind::Locks => for_each(&mut session.connection, numbers, |number| {
            call!("LOCK.ACQUIRE lock:{number:08} {OWNER} PX {HOUR_MS}")
        }),
        Kind::Queued => for_each(&mut session.connection, numbers, |number| {
            queue(id, "line", &owner(number))
        }),
        Kind::Sessions => connections.extend(numbers.map(|_| {
            let mut connection = server.connection();
            open_session(&mut connection);
            connection
        })),
    }
}
