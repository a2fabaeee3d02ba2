//! The cost of a share of a lock, beside a lock that one holder has alone; and of ten thousand readers that a writer lets
//! in.

use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection};
use testbed::{Expect, Talk, cmd};

use crate::callgrind::{need_valgrind, pair_of};
use crate::part::{Goal, Limit::AtMost, Part, Scale};
use crate::servers::{
    Batch, Crowd, Program, Setting, clients_allowed, for_each, longest_ping_while,
};
use crate::session::HOUR_MS;
use crate::stats::{Rounds, interleave, interleave_slices};
use crate::table::Table;
use crate::ways::{OWNER, call, owner};

const KEY: &str = "shared";
/// Pairs that are sent at once.
const BATCH: usize = 500;
const READERS: usize = 10_000;
/// For what the server does with so many connections in any case.
const IDLE: Duration = Duration::from_millis(200);

/// All parts on each server; the goals are those of the first.
pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    Part::of_each(programs, |program| {
        pair(program, scale).and(let_in(program, scale))
    })
}

/// A share for one of many owners.
pub(crate) fn share(key: &str, number: usize) -> Cmd {
    let owner = owner(number);
    call!("LOCK.ACQUIRE {key} {owner} SHARED PX {HOUR_MS}")
}

/// A pair on a lock with so many holders, the pair's own included: its name, and the word between owner and lease.
struct Kind {
    name: &'static str,
    share: &'static str,
    holders: usize,
}

#[rustfmt::skip]
const KINDS: [Kind; 4] = [
    Kind { name: "LOCK.ACQUIRE PX + LOCK.RELEASE, 1 holder", share: "", holders: 1 },
    Kind { name: "LOCK.ACQUIRE SHARED PX + LOCK.RELEASE, 1 holder", share: "SHARED", holders: 1 },
    Kind { name: "the same, 100 holders", share: "SHARED", holders: 100 },
    Kind { name: "the same, 10000 holders", share: "SHARED", holders: 10_000 },
];

/// Of a reader's pair: the CPU and the instructions, each of those of an exclusive pair.
#[rustfmt::skip]
const GOALS: [[&str; 2]; KINDS.len() - 1] = [
    ["CPU of a reader's pair relative to an exclusive one, 1 holder", "instructions of the same, 1 holder"],
    ["CPU of a reader's pair, 100 holders", "instructions of the same, 100 holders"],
    ["CPU of a reader's pair, 10000 holders", "instructions of the same, 10000 holders"],
];

impl Kind {
    fn pairs(&self) -> impl Iterator<Item = Cmd> {
        let share = self.share;
        let pair = [
            call!("LOCK.ACQUIRE {KEY} {OWNER} {share} PX {HOUR_MS}"),
            call!("LOCK.RELEASE {KEY} {OWNER}"),
        ];
        (0..BATCH).flat_map(move |_| pair.clone())
    }

    /// The other holders come. Each lease ends later than those before it, the pair's last, so that the
    /// key's TTL changes with every one that comes or goes.
    fn prepare(&self, connection: &mut Connection) {
        for_each(connection, 1..self.holders, |number| share(KEY, number));
    }
}

/// A reader's pair while few or many readers hold the same lock.
fn pair(program: &Program, scale: Scale) -> Part {
    let servers = KINDS.map(|kind| {
        let server = program.start();
        kind.prepare(&mut server.connection());
        server
    });
    let pairs = KINDS.iter().zip(&servers);
    let pairs = pairs.map(|(kind, server)| Batch::new(server, kind.pairs()));
    let mut pairs: Vec<_> = pairs.collect();
    let slices = scale.pipelined_pairs() / BATCH;
    let mut figures = interleave_slices(scale.rounds(), slices, &mut pairs, |pairs| {
        [pairs.cost() / BATCH as f64]
    });
    let counts = instructions(program);
    for (number, figures) in figures.iter_mut().enumerate() {
        let count = counts.as_ref().map_or(f64::NAN, |counts| counts[number]);
        figures.push(Rounds::from(count));
    }
    let left_out = counts
        .err()
        .map(|why| format!(" They are left out: {why}."));
    let table = Table::of(
        program,
        "A reader's pair, by the holders",
        &format!(
            "What does a share cost compared with an exclusive lock, by the number of holders? The pairs are \
             pipelined, on one lock, and the pair's own share is one of the holders. Callgrind counts the \
             instructions to read, run and answer the commands.{}",
            left_out.unwrap_or_default()
        ),
        &["ns a pair", "of exclusive", "instructions", "of exclusive"],
    );
    let table = table.rows(KINDS.map(|kind| kind.name), figures);
    let goals = (1..).zip(GOALS).flat_map(|(row, names)| {
        let goal = |(figure, what)| Goal::new(what, AtMost(1.5), table.over(row, figure));
        (0..).zip(names).map(goal).collect::<Vec<_>>()
    });
    let goals: Vec<_> = goals.collect();
    Part::new(table, goals)
}

/// Those of each kind.
fn instructions(program: &Program) -> Result<Vec<f64>, String> {
    need_valgrind()?;
    let counts = KINDS.iter().map(|kind| {
        let count = pair_of(program, Setting::Plain, |connection| {
            kind.prepare(connection);
            Ok(kind.pairs().collect())
        });
        Ok(count? as f64)
    });
    counts.collect()
}

/// Readers that a writer lets in.
fn let_in(program: &Program, scale: Scale) -> Part {
    let readers = READERS.min(clients_allowed());
    let mut crowd = Crowd::of(program, readers);
    let figures = interleave(scale.rounds(), &mut [true, false], |waiting| {
        if *waiting {
            round(&mut crowd)
        } else {
            let longest = longest_ping_while(&crowd.server, || thread::sleep(IDLE));
            [f64::NAN, longest.time, longest.server, f64::NAN]
        }
    });
    let table = Table::of(
        program,
        format!("{readers} readers let in behind a writer"),
        "Does a crowd of readers delay other clients? The figures cover the time from the writer's LOCK.RELEASE \
         until the last reader has received its grant. They are the server CPU for each reader, another client's \
         longest PING, the most CPU that the server spent between such a PING and its reply, and the length of that \
         time.",
        &[
            "us a reader",
            "longest PING ms",
            "server's part ms",
            "all in, ms",
        ],
    );
    let names = ["LOCK.ACQUIRE SHARED BLOCK", "nobody waits, for 200 ms"];
    let table = table.rows(names, figures);
    let what = "longest PING while readers are let in, ms";
    let goal = Goal::new(what, AtMost(5.0), table.figure(0, 1));
    Part::new(table, [goal])
}

fn round(crowd: &mut Crowd) -> [f64; 4] {
    cmd!(crowd.server.connection(), "FLUSHALL", "SYNC").okay();
    let mut writer = crowd.server.connection();
    cmd!(writer, "LOCK.ACQUIRE", KEY, OWNER, "PX", HOUR_MS).grant();
    for (reader, client) in crowd.clients.iter_mut().enumerate() {
        let mut call = share(KEY, reader);
        client.post(call.arg("BLOCK").arg(0));
    }
    crowd.until_blocked(crowd.clients.len());
    let start = Instant::now();
    let longest = longest_ping_while(&crowd.server, || {
        cmd!(writer, "LOCK.RELEASE", KEY, OWNER).int();
        for client in &mut crowd.clients {
            client.receive().value();
        }
    });
    let passed = start.elapsed().as_secs_f64() * 1000.0;
    let each = longest.spent / 1000.0 / crowd.clients.len() as f64;
    [each, longest.time, longest.server, passed]
}
