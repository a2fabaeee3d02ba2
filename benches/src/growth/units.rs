//! What one more lock, queued call or session costs, by how many there are.

use redis::Connection;
use testbed::{Expect, Server, cmd};

use crate::facts::memory_kib;
use crate::part::{Bar, Panel, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program, cpu_of, for_each, number, open_files_allowed, settle};
use crate::session::{HOUR_MS, Session, open_session, queue};
use crate::stats::{Rounds, Spread};
use crate::table::Table;
use crate::ways::{OWNER, Way, command};

/// Pairs on other keys that are sent at once.
const PAIRS: usize = 5_000;
/// The memory that has to be free for each.
const FREE_BYTES_EACH: usize = 1024;
/// Each has a connection. Open files besides these.
const MOST_SESSIONS: usize = 10_000;
const OTHER_FILES: usize = 200;
/// The highest value of `lock.max-waiters`.
const MOST_WAITERS: usize = 1_000_000;

#[derive(Clone, Copy)]
enum Kind {
    Locks,
    Queued,
    Sessions,
}

const COLUMNS: [&str; 5] = [
    "us each",
    "of the fewest",
    "bytes each",
    "of the fewest",
    "us a pair beside",
];

impl Kind {
    const ALL: [Self; 3] = [Self::Locks, Self::Queued, Self::Sessions];

    const fn name(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Queued => "queued calls",
            Self::Sessions => "sessions",
        }
    }

    /// From few to very many: each ten times the one before.
    fn amounts(self, scale: &Scale) -> Vec<usize> {
        let first: usize = match self {
            Self::Locks => 1_000,
            Self::Queued => 100,
            Self::Sessions => 10,
        };
        let files = match self {
            Self::Sessions => MOST_SESSIONS.min(open_files_allowed().saturating_sub(OTHER_FILES)),
            _ => usize::MAX,
        };
        let memory = memory_kib("MemAvailable:").map_or(usize::MAX, |kib| kib as usize * 1024);
        let most = files.min(memory / FREE_BYTES_EACH);
        let powers = (0..scale.powers).map(|power| first * 10_usize.pow(power));
        powers.filter(|amount| *amount <= most).collect()
    }
}

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let mut table = Table::of(
        program,
        "The cost of one more, by how many there are",
        &format!(
            "Does a lock, a queued call or a session cost more among many? Server CPU and used_memory of each that was \
             added since the row above, and the server CPU of a pair on other keys meanwhile. Locks have keys of 13 \
             bytes and owners of {}. The calls wait for one lock in one session. A session has a connection of its \
             own, whose memory counts too.",
            OWNER.len()
        ),
        &COLUMNS,
    );
    let mut panels = ["Server CPU", "Memory"].map(|what| Panel {
        title: format!(
            "{what} of one more, {}; among the fewest = 1",
            program.version
        ),
        bars: Vec::new(),
    });
    for kind in Kind::ALL {
        let amounts = kind.amounts(scale);
        let mut figures: Vec<[Rounds; 3]> = amounts.iter().map(|_| Default::default()).collect();
        for _ in 0..scale.growths {
            for (kept, now) in figures.iter_mut().zip(grow(program, kind, &amounts)) {
                for (figure, value) in kept.iter_mut().zip(now) {
                    figure.push(value);
                }
            }
        }
        for (amount, [time, bytes, beside]) in amounts.iter().zip(&figures) {
            let name = format!("{amount} {}", kind.name());
            let ratios = [time.over(&figures[0][0]), bytes.over(&figures[0][1])];
            let ratios = ratios.map(|ratio| ratio.spread());
            for (panel, ratio) in panels.iter_mut().zip(ratios) {
                panel.bars.extend(ratio.map(|ratio: Spread| Bar {
                    name: name.clone(),
                    ratio,
                    ours: true,
                }));
            }
            let [of_time, of_bytes] = ratios;
            let (time, bytes) = (time.spread(), bytes.spread());
            table.row(name, vec![time, of_time, bytes, of_bytes, beside.spread()]);
        }
    }
    Part {
        panels: panels.into(),
        ..Part::new(table, Vec::new())
    }
}

/// Adds to a server until there are so many: the microseconds and the bytes of each, and the microseconds of a pair on
/// other keys.
fn grow(program: &Program, kind: Kind, amounts: &[usize]) -> Vec<[f64; 3]> {
    let most = amounts.last().copied().unwrap_or(0).min(MOST_WAITERS);
    let server = program
        .builder()
        .config("maxclients", &(MOST_SESSIONS + OTHER_FILES).to_string())
        .config("lock.max-waiters", &most.to_string())
        .config("lock.max-sessions", &(MOST_SESSIONS + 1).to_string()) // one is there already
        .start();
    settle(&server);
    let mut session = Session::open(&server);
    cmd!(
        session.connection,
        "LOCK.ACQUIRE",
        "line",
        "holder",
        "PX",
        HOUR_MS
    )
    .grant();
    let pairs = (0..PAIRS).flat_map(|number| Way::Module.pair(&format!("other:{number}")));
    let mut beside = Batch::new(&server, pairs);
    beside.cost();
    let mut connections = Vec::new();
    let mut before = 0;
    let memory = || number(&server, "memory", "used_memory");
    let steps = amounts.iter().map(|&amount| {
        let used = memory();
        let spent = cpu_of(&server, || {
            add(
                &server,
                kind,
                &mut session,
                &mut connections,
                before..amount,
            );
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
            let key = format!("lock:{number:08}");
            command(&["LOCK.ACQUIRE", &key, OWNER, "PX"], &[HOUR_MS])
        }),
        Kind::Queued => for_each(&mut session.connection, numbers, |number| {
            let owner = format!("{}{number:08}", &OWNER[..OWNER.len() - 8]);
            queue(id, "line", &owner)
        }),
        Kind::Sessions => connections.extend(numbers.map(|_| {
            let mut connection = server.connection();
            open_session(&mut connection);
            connection
        })),
    }
}
