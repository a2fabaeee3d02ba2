//! One lock on five servers: this project's client and redsync, with servers down and with a stalled holder.

use std::thread;
use std::time::Duration;

use testbed::{Expect, Server, Signal, cmd};

use crate::contenders::{Languages, Task, Team, languages};
use crate::part::{Part, Scale};
use crate::servers::Program;
use crate::stats::{interleave, percentiles};
use crate::table::Table;

const SERVERS: usize = 5;
const COLUMNS: [&str; 4] = ["median us", "p99 us", "pairs/s", "errors"];
/// The lease of a holder that is stopped, and its lock.
const LEASE: Duration = Duration::from_millis(400);
const KEY: &str = "stall";

/// A client library that takes locks on five servers, in its own process: its language, its way, and its name.
type Way = (&'static str, &'static str, &'static str);

const WAYS: [Way; 3] = [
    ("rust", "quorum", "Rust: this project's quorum"),
    // With its defaults: it waits for every server's answer, and go-redis retries a server that is down.
    ("go", "redsync", "Go: redsync"),
    // Without either.
    ("go", "redsync-quick", "Go: redsync, set to be quick"),
];

pub(crate) fn measure(program: &Program, scale: Scale) -> Part {
    let languages = languages(&["rust", "go"]);
    let mut part = Part::default();
    if let Ok(go) = &languages["go"] {
        part.facts.push(format!("quorum: {}", go.versions));
    }
    part.tables.push(time(program, scale, &languages));
    part.tables.push(stalls(program, scale, &languages));
    part
}

fn servers(program: &Program) -> Vec<Server> {
    (0..SERVERS).map(|_| program.start()).collect()
}

/// The time of lock and unlock, with no, one and two servers down.
fn time(program: &Program, scale: Scale, languages: &Languages) -> Table {
    let mut table = Table::of(
        program,
        format!("Lock and unlock on {SERVERS} servers, of which some are down"),
        "What does a lock on several servers cost, if all of them are up or some are down? One client in its own \
         process uses one lock, without contention. A server that is down has been killed, so its port refuses \
         connections. This project's lock takes one more round than redsync's, which has no token. By default \
         redsync waits for the replies of all servers, and go-redis retries a server that is down several times, \
         with pauses. Where it is \"set to be quick\", both are turned off (WithFailFast, MaxRetries, \
         DialerRetries).",
        &COLUMNS,
    );
    let mut servers = servers(program);
    let mut started = Vec::new();
    for (language, way, name) in WAYS {
        let task = Task {
            language,
            way,
            key: way,
            ..Task::ALONE
        };
        match Team::start(languages, 1, &servers, &task) {
            Ok(team) => started.push((name, team)),
            Err(why) => table.row(name, 0, Err(why)),
        }
    }
    let seconds = scale.of(0.2, 1.0);
    for down in 0..=SERVERS / 2 {
        if down > 0 {
            servers[down - 1].kill9();
        }
        // The first round shows the clients which servers are down, and does not count.
        let figures = interleave(7, &mut started, |(_, team)| {
            pairs(team, seconds).unwrap_or_else(|why| {
                eprintln!("{why}");
                [f64::NAN; COLUMNS.len()]
            })
        });
        let names = started.iter();
        let names = names.map(|(name, _)| format!("{name}, {down} down"));
        table = table.rows(names, figures);
    }
    table
}

/// The figures of a turn. A pair lasts until the next one begins; the last one is without its release.
fn pairs(team: &mut Team, seconds: f64) -> Result<[f64; COLUMNS.len()], String> {
    team.begin(seconds)?;
    let turn = team.end(seconds)?;
    let (grants, _) = turn.times[0].as_chunks::<3>();
    let begins = grants.iter().map(|[asked, ..]| *asked);
    let last = grants.last().map(|[.., released]| *released);
    let ends = begins.clone().skip(1).chain(last);
    let pairs = begins.zip(ends);
    let mut micros: Vec<f64> = pairs
        .map(|(begin, end)| (end - begin) as f64 / 1000.0)
        .collect();
    let [median, p99, _] = percentiles(&mut micros);
    Ok([
        median,
        p99,
        micros.len() as f64 / seconds,
        turn.errors as f64,
    ])
}

/// Writes of holders that were stopped for longer than their lease.
fn stalls(program: &Program, scale: Scale, languages: &Languages) -> Table {
    let servers = servers(program);
    let register = program.start();
    let mut table = Table::of(
        program,
        "Holders that are stopped beyond their lease, on five servers",
        "Can a holder that has lost its lock still write? A holder's process is stopped (SIGSTOP). After the lease \
         another one gets the lock and writes. Then the first continues and writes too. The register accepts no \
         token lower than its last. Redsync has no token, so all its writes are accepted.",
        &["stalls", "late writes accepted", "refused", "work lost"],
    )
    .counts();
    // The quick one would make no difference here.
    for (language, way, name) in &WAYS[..2] {
        let task = Task {
            language,
            way,
            key: KEY,
            lease_ms: LEASE.as_millis() as u32,
            register: Some(&register),
            ..Task::ALONE
        };
        let times = scale.of(3, 20);
        let pair = Team::start(languages, 2, &servers, &task).map(Team::alone);
        match pair.and_then(|mut pair| taken(&mut pair, &register, times)) {
            Ok(taken) => {
                // A late write that is taken overwrites that of the next holder.
                let counts = [times, taken, times - taken, taken];
                table.once(*name, &counts.map(|count| count as f64));
            }
            Err(why) => table.row(*name, 0, Err(why)),
        }
    }
    table
}

/// How many late writes of so many stalls are taken.
fn taken(pair: &mut [Team], register: &Server, times: usize) -> Result<usize, String> {
    let mut taken = 0;
    cmd!(register.connection(), "FLUSHALL").okay();
    for _ in 0..times {
        let [first, next] = pair else {
            return Err("two contenders are needed".to_owned());
        };
        taken += usize::from(stall(first, next, register)?);
        pair.reverse();
    }
    Ok(taken)
}

/// Whether the register takes the write of the stopped holder. Each has the lock once in a turn.
fn stall(first: &mut Team, next: &mut Team, register: &Server) -> Result<bool, String> {
    let written = || cmd!(register.connection(), "HGET", "register", "text").text();
    let of = |team: &Team| team.ids().next().map(|id| id.to_string());
    first.begin(0.0)?;
    first.expect("held")?;
    first.signal(Signal::STOP);
    // It reads this when it is continued.
    first.tell("write")?;
    thread::sleep(LEASE);
    next.begin(0.0)?;
    next.expect("held")?;
    next.tell("write")?;
    next.end(0.0)?;
    let before = Some(written());
    first.signal(Signal::CONT);
    first.end(0.0)?;
    if before != of(next) {
        return Err(format!("{before:?} has written, not the next holder"));
    }
    Ok(Some(written()) == of(first))
}
