//! The server's memory for a held lock, a used name and a waiter.

use redis::Cmd;
use testbed::{Expect, Server, cmd, eventually, post};

use crate::part::Limit::AtMost;
use crate::part::{Goal, Panel, Part};
use crate::scale::Scale;
use crate::servers::{Crowd, Program, for_each, number};
use crate::sharing::share;
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, Way};

const WAYS: [Way; 3] = [Way::SetDel, Way::Module, Way::HashScripts];
const WAITERS: usize = 200;
/// The holders of a lock that many share.
const HOLDERS: usize = 10_000;

/// All tables, each on its own server.
pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    let program = &programs[0];
    let mut part = Part::of_each(programs, |program| held(program, scale));
    part.add(used(program, scale));
    part.tables.push(waiting(programs, scale));
    part
}

/// A lock, or a share of one: its name, and the command that takes it.
type Kind = (&'static str, fn(usize) -> Cmd);

const KINDS: [Kind; 5] = [
    ("SET NX PX", |number| take(Way::SetDel, number)),
    ("LOCK.ACQUIRE PX", |number| take(Way::Module, number)),
    ("hash lock in Lua", |number| take(Way::HashScripts, number)),
    ("LOCK.ACQUIRE SHARED PX, a lock each", |number| {
        share(&key(number), number)
    }),
    ("LOCK.ACQUIRE SHARED PX, 10000 to a lock", |number| {
        share(&key(number / HOLDERS), number)
    }),
];

fn key(number: usize) -> String {
    format!("lock:{number:07}")
}

/// The first command of the way.
fn take(way: Way, number: usize) -> Cmd {
    way.pair(&key(number))[0].clone()
}

fn held(program: &Program, scale: Scale) -> Part {
    let server = server_for_ways(program);
    let count = scale.of(20_000, 100_000);
    let figures = interleave(scale.rounds(), &mut { KINDS }, |(_, take)| {
        cmd!(server.connection(), "FLUSHALL", "SYNC").okay();
        let before = used_memory(&server);
        for_each(&mut server.connection(), 0..count, *take);
        [(used_memory(&server) - before) / count as f64]
    });
    let table = Table::of(
        program,
        "Memory of a held lock",
        &format!(
            "How much memory does a held lock take? The figures are for {count} locks with a key of 12 bytes and an \
             owner of {} bytes. The ratio is to a plain SET.",
            OWNER.len()
        ),
        &["bytes a holder", "of SET NX PX"],
    );
    let table = table.rows(KINDS.map(|(name, _)| name), figures);
    let version = &program.version;
    let mut panel = Panel {
        title: format!("Memory of a held lock, {version}; this module = 1"),
        bars: table.bars(0, Some(1), |name| name.starts_with("LOCK.")),
    };
    panel.bars.truncate(WAYS.len());
    let goals = [
        (
            "bytes of a held lock relative to SET",
            1.2,
            table.over(1, 0),
        ),
        (
            "bytes of a lone share relative to a plain lock",
            1.3,
            table.ratio(3, 0, 1),
        ),
        (
            "bytes of one of 10000 shares relative to a plain lock",
            1.3,
            table.ratio(4, 0, 1),
        ),
    ];
    let goals = goals.map(|(what, limit, ratio)| Goal::new(what, AtMost(limit), ratio));
    let mut part = Part::new(table, goals.into());
    part.panels.push(panel);
    part
}

fn used(program: &Program, scale: Scale) -> Part {
    let names = scale.of(50_000, 200_000);
    let mut ways = WAYS.map(|way| (way, server_for_ways(program)));
    let figures = interleave(scale.rounds(), &mut ways, |(way, server)| {
        let before = used_memory(server);
        let pair = |n: usize| way.pair(&key(n / 2))[n % 2].clone();
        for_each(&mut server.connection(), 0..2 * names, pair);
        let left = used_memory(server) - before;
        [left, left / names as f64]
    });
    let table = Table::of(
        program,
        "Memory left by used names",
        &format!(
            "How much memory remains when a lock is free? The figure is the total after {names} names were locked \
             and unlocked."
        ),
        &["bytes left"],
    );
    let table = table.rows(WAYS.map(Way::name), figures);
    let goal = Goal::new(
        "bytes left by a used name",
        AtMost(0.05),
        table.figure(1, 1),
    );
    Part::new(table, vec![goal])
}

/// The server's `used_memory`, without other connections.
fn used_memory(server: &Server) -> f64 {
    // The memory of a closed connection is freed in the event loop.
    eventually(
        || server.info_field("clients", "connected_clients") == "1",
        "the other connections to be closed",
    );
    number(server, "memory", "used_memory")
}

fn waiting(programs: &[Program], scale: Scale) -> Table {
    let mut table = Table::new(
        "Memory of a waiter",
        &format!(
            "How much memory does a blocked call take? (A queued call of a session needs no connection.) The figures \
             are the additional used_memory of each of {WAITERS} connections that wait, on a server on which no call \
             has waited before. The server itself uses nearly all of this memory: a module can block a client only \
             by RedisModule_BlockClient, which creates two more clients with a reply buffer of 16 KiB each. BLPOP \
             needs no such clients. After a wait the server keeps them for the next one, and frees them slowly."
        ),
        &["bytes a waiter"],
    );
    for program in programs {
        let figures = interleave(scale.rounds(), &mut [true, false], |in_lock_queue| {
            [waiter(program, *in_lock_queue)]
        });
        let names = ["LOCK.ACQUIRE BLOCK", "BLPOP"];
        let names = names.map(|name| format!("{name}, {}", program.version));
        table = table.rows(names, figures);
    }
    table
}

/// The memory of one that waits for a lock, or for an item of a list.
fn waiter(program: &Program, in_lock_queue: bool) -> f64 {
    // A new server: one that had waiters keeps memory for the next ones.
    let mut crowd = Crowd::of(program, WAITERS);
    let mut holder = crowd.server.connection();
    cmd!(holder, "LOCK.ACQUIRE", "lock", "holder").grant();
    for client in &mut crowd.clients {
        cmd!(*client, "PING").value();
    }
    let used = |crowd: &Crowd| number(&crowd.server, "memory", "used_memory");
    let before = used(&crowd);
    for (owner, client) in crowd.clients.iter_mut().enumerate() {
        let owner = format!("{OWNER}{owner:04}");
        if in_lock_queue {
            post!(*client, "LOCK.ACQUIRE", "lock", owner, "BLOCK", 0);
        } else {
            post!(*client, "BLPOP", "baton", 0);
        }
    }
    crowd.until_blocked(WAITERS);
    (used(&crowd) - before) / WAITERS as f64
}

fn server_for_ways(program: &Program) -> Server {
    let server = program.start();
    let mut connection = server.connection();
    for way in WAYS {
        way.prepare(&mut connection).expect("a way of every server");
    }
    server
}
