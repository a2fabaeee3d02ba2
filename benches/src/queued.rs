//! Very many queued calls: their memory, and how long another client is held up by them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use redis::Connection;
use testbed::{Expect, Server, Talk, cmd};

use crate::part::Limit::AtMost;
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Program, for_each, for_each_in, number, started};
use crate::session::{HOUR_MS, Session, queue, release};
use crate::table::Table;
use crate::ways::{OWNER, call, owner};

/// Of the calls in one line, so many are granted.
const HAND_OFFS: usize = 10_000;
/// Commands that are sent at once.
const BATCH: usize = 100;
/// The number of the figure that is in no column.
const BESIDE_NAMES: usize = 4;
const LOOK: Duration = Duration::from_millis(20);

/// The lines that the calls queue in.
#[derive(Clone, Copy)]
struct Lines {
    name: &'static str,
    /// How many locks they queue for, in turn.
    locks: usize,
    /// How many calls are granted.
    grants: usize,
}

impl Lines {
    fn key(self, number: usize) -> String {
        format!("lock:{:07}", number % self.locks)
    }
}

pub(crate) fn measure(program: &Program, scale: Scale) -> Part {
    let count = scale.of(100_000, 1_000_000);
    let mut goals = Vec::new();
    let mut table = Table::of(
        program,
        format!("{count} queued calls"),
        &format!(
            "What does a queued call cost, and do very many of them delay other clients? All calls belong to one \
             session, with a key of 12 bytes and an owner of {} bytes, sent {BATCH} at once. The figures are the \
             server's memory and CPU for each call. Meanwhile another client sends a PING every 5 ms: the figures \
             are the longest PING, and the most CPU that the server spent between a PING and its reply. The calls \
             leave when their session is closed. In one line {HAND_OFFS} calls are granted, each after the release \
             of the one before.",
            OWNER.len()
        ),
        &[
            "bytes each",
            "us each",
            "longest PING ms",
            "server's part ms",
        ],
    );
    let mut row = 0;
    let one = Lines {
        name: "in one line",
        locks: 1,
        grants: HAND_OFFS,
    };
    let many_lines = Lines {
        name: "in lines of their own",
        locks: count,
        grants: count,
    };
    for lines in [one, many_lines] {
        let rows = many(program, lines, count);
        let first = row;
        for (what, figures) in ["join", "leave", "are granted"].iter().zip(&rows) {
            let name = format!("{} {what}", lines.name);
            let longest = format!("{count} calls {name}: longest PING, ms");
            table.once(name, figures);
            goals.push(Goal::new(longest, AtMost(5.0), table.figure(row, 2)));
            row += 1;
        }
        goals.push(Goal::new(
            format!("bytes of a queued call {}, without names", lines.name),
            AtMost(700.0),
            table.figure(first, BESIDE_NAMES),
        ));
    }
    Part::new(table, goals)
}

/// Calls join and leave, then join again and are granted: the table's rows.
fn many(program: &Program, lines: Lines, count: usize) -> [[f64; 5]; 3] {
    let builder = program.builder();
    let server = started(builder.config("lock.max-waiters", "1000000"));
    let mut connection = server.connection();
    for_each(&mut connection, 0..lines.locks, |number| {
        call!("LOCK.ACQUIRE {} holder PX {HOUR_MS}", lines.key(number))
    });
    let phase = |calls: usize, work: &mut dyn FnMut()| {
        let before = number(&server, "memory", "used_memory");
        let longest = longest_ping_while(&server, work);
        let more = number(&server, "memory", "used_memory") - before;
        let calls = calls as f64;
        [
            more / calls,
            longest.spent / 1000.0 / calls,
            longest.time,
            longest.server,
            more / calls - (lines.key(0).len() + OWNER.len()) as f64,
        ]
    };
    let mut rows = [[f64::NAN; 5]; 3];
    in_session(&server, lines, |session, _| {
        rows[0] = phase(count, &mut || join(&mut connection, session, lines, count));
        rows[1] = phase(count, &mut || {
            close(&mut connection, session);
            until(|| number(&server, "lock", "lock_queued") == 0.0);
        });
    });
    in_session(&server, lines, |session, granted| {
        join(&mut connection, session, lines, count);
        rows[2] = phase(lines.grants, &mut || {
            for_each_in(&mut connection, 0..lines.locks, BATCH, |number| {
                call!("LOCK.RELEASE {} holder", lines.key(number))
            });
            until(|| granted.load(Ordering::Relaxed) >= lines.grants);
        });
        close(&mut connection, session);
    });
    for row in &mut rows[1..] {
        row[0] = f64::NAN;
    }
    rows
}

/// The calls of a session, each with an owner of its own.
fn join(connection: &mut Connection, session: i64, lines: Lines, count: usize) {
    for_each_in(connection, 0..count, BATCH, |number| {
        queue(session, &lines.key(number), &owner(number))
    });
}

fn close(connection: &mut Connection, session: i64) {
    cmd!(*connection, "LOCK.SESSION", "CLOSE", session).int();
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(LOOK);
    }
}

/// Runs `work` with a session that is polled until it is closed, and with the number of grants. In one line each grant
/// is released at once.
fn in_session(server: &Server, lines: Lines, work: impl FnOnce(i64, &AtomicUsize)) {
    let mut session = Session::open(server);
    let (id, granted) = (session.id, &AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut releases = Vec::new();
            loop {
                session.post(&releases);
                for _ in &releases {
                    // The last one may come when the session is closed.
                    let _ = session.connection.receive();
                }
                let grants = session.events();
                if grants.is_empty() {
                    return;
                }
                granted.fetch_add(grants.len(), Ordering::Relaxed);
                releases.clear();
                if lines.locks == 1 {
                    releases.extend(grants.iter().map(|grant| release(id, grant)));
                }
            }
        });
        work(id, granted);
    });
}
