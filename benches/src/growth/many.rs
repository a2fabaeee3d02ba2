//! The files of many held locks, and the end of their leases, beside as many keys of SET PX.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection};
use testbed::{Expect, Server, cmd};

use crate::part::Part;
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Program, cpu_of, for_each, number, started};
use crate::session::HOUR_MS;
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, call};

/// The kinds of locks that are held: the name, and the command that takes the lock of this number with this lease.
type Kind = (&'static str, Take);
type Take = fn(usize, u32) -> Cmd;

const KINDS: [Kind; 2] = [
    ("locks", |number, lease_ms| {
        call!("LOCK.ACQUIRE lock:{number:08} {OWNER} PX {lease_ms}")
    }),
    ("keys of SET PX", |number, lease_ms| {
        call!("SET lock:{number:08} {OWNER} PX {lease_ms}")
    }),
];

const COLUMNS: &[&str] = &[
    "RDB bytes",
    "AOF bytes",
    "SAVE",
    "RDB loaded",
    "AOF rewritten",
    "AOF loaded",
    "lease ended",
    "all gone, s",
    "worst PING ms",
];

pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    // How many are held at once, and how often that is measured.
    let amounts: &[(usize, usize)] = scale.of(&[(100_000, 1)], &[(100_000, 3), (1_000_000, 1)]);
    Part::of_each(programs, |program| {
        let mut table = Table::of(
            program,
            "Files and expiry of many held locks",
            "How long does a restart take, and what happens when very many leases end at once? The figures are bytes \
             and nanoseconds of CPU for each lock, with a key of 13 bytes and an owner of 36. The CPU is that of the \
             server's main thread, or for an AOF rewrite that of its child process. The AOF consists of commands \
             (aof-use-rdb-preamble no). Otherwise it is as large as the RDB file. The server spends at most a \
             quarter of its time on expired keys, so it takes a while until all are gone. The worst PING is that of \
             another client meanwhile.",
            COLUMNS,
        );
        for &(count, rounds) in amounts {
            let figures = interleave(rounds, &mut { KINDS }, |(_, take)| {
                life(program, *take, count)
            });
            table = table.rows(KINDS.map(|(name, _)| format!("{count} {name}")), figures);
        }
        Part::new(table, Vec::new())
    })
}

/// All that happens to so many of a kind, on a server of their own.
fn life(program: &Program, take: Take, count: usize) -> [f64; COLUMNS.len()] {
    let server = started(program.builder().config("aof-use-rdb-preamble", "no"));
    let mut connection = server.connection();
    let began = Instant::now();
    for_each(&mut connection, 0..count, |number| take(number, HOUR_MS));
    let filling = began.elapsed();
    let saved = cpu_of(&server, || cmd!(connection, "SAVE").okay());
    let rdb = size_of(&server.dir().join("dump.rdb"));
    cmd!(connection, "FLUSHALL", "SYNC").okay();
    let rdb_loaded = cpu_of(&server, || {
        cmd!(connection, "DEBUG", "RELOAD", "NOSAVE").okay();
    });
    assert_eq!(held(&mut connection), count, "loaded from the RDB file");

    let rewritten = rewrite(&server, &mut connection);
    let aof = size_of(&server.dir().join("appendonlydir"));
    // The FLUSHALL must not get into the file.
    cmd!(connection, "CONFIG", "SET", "appendonly", "no").okay();
    cmd!(connection, "FLUSHALL", "SYNC").okay();
    let aof_loaded = cpu_of(&server, || cmd!(connection, "DEBUG", "LOADAOF").okay());
    assert_eq!(held(&mut connection), count, "loaded from the AOF");

    let (ended, gone, ping) = expire(&server, &mut connection, take, count, filling);
    let sums = [rdb, aof, saved, rdb_loaded, rewritten, aof_loaded, ended];
    let [rdb, aof, saved, rdb_loaded, rewritten, aof_loaded, ended] =
        sums.map(|sum| sum / count as f64);
    [
        rdb, aof, saved, rdb_loaded, rewritten, aof_loaded, ended, gone, ping,
    ]
}

fn held(connection: &mut Connection) -> usize {
    usize::try_from(cmd!(*connection, "DBSIZE").int()).expect("a count")
}

/// The CPU of the child that writes the AOF, in nanoseconds.
fn rewrite(server: &Server, connection: &mut Connection) -> f64 {
    let children = || {
        let of = |field| number(server, "cpu", field);
        (of("used_cpu_user_children") + of("used_cpu_sys_children")) * 1e9
    };
    let before = children();
    cmd!(*connection, "CONFIG", "SET", "appendonly", "yes").okay();
    let runs = |field| number(server, "persistence", field) != 0.0;
    while runs("aof_rewrite_in_progress") || runs("aof_rewrite_scheduled") {
        thread::sleep(Duration::from_millis(5));
    }
    let status = server.info_field("persistence", "aof_last_bgrewrite_status");
    assert_eq!(status, "ok", "the rewrite of the AOF");
    children() - before
}

/// Takes all with leases that end at the same time. The server's CPU from then until all are gone, in
/// nanoseconds, how many seconds that takes, and the longest PING of another client meanwhile.
fn expire(
    server: &Server,
    connection: &mut Connection,
    take: Take,
    count: usize,
    filling: Duration,
) -> (f64, f64, f64) {
    // Doubled while the leases end before all are taken.
    let mut lease = 2 * filling + Duration::from_millis(300);
    loop {
        cmd!(*connection, "FLUSHALL", "SYNC").okay();
        let end = Instant::now() + lease;
        for_each(connection, 0..count, |number| {
            let left = end.saturating_duration_since(Instant::now()).as_millis();
            take(number, (left as u32).max(1))
        });
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            lease *= 2;
            continue;
        }
        thread::sleep(left);
        let longest = longest_ping_while(server, || {
            while held(connection) > 0 {
                // More queries would cost more than what is measured.
                thread::sleep(Duration::from_millis(20));
            }
        });
        return (longest.spent, end.elapsed().as_secs_f64(), longest.time);
    }
}

/// The bytes of a file, or of all in a folder.
fn size_of(path: &Path) -> f64 {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    let within: f64 = files.map(|file| size_of(&file.path())).sum();
    let own = fs::metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
    within + own as f64
}
