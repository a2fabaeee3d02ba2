//! Ten thousand readers that a writer lets in.

use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually};

use super::{HOUR_MS, KEY};
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Program, number, open_files_allowed, settle};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::{OWNER, command};

const READERS: usize = 10_000;
/// For what the server does with so many connections in any case.
const IDLE: Duration = Duration::from_millis(200);
/// Open files besides one for each reader.
const OTHER_FILES: usize = 200;

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let readers = READERS.min(open_files_allowed().saturating_sub(OTHER_FILES) * 3 / 4);
    let max = (readers * 4 / 3 + OTHER_FILES).to_string();
    let server = program.builder().config("maxclients", &max).start();
    settle(&server);
    let mut clients: Vec<Connection> = (0..readers).map(|_| server.connection()).collect();
    let figures = interleave(scale.rounds, &mut [true, false], |waiting| {
        if *waiting {
            let_in(&server, &mut clients)
        } else {
            let longest = longest_ping_while(&server, || thread::sleep(IDLE));
            [f64::NAN, longest.time, longest.server, f64::NAN]
        }
    });
    let table = Table::of(
        program,
        format!("{readers} readers let in behind a writer"),
        "Whether a crowd of readers holds up other clients. From the writer's LOCK.RELEASE until the last reader has its grant: server CPU of each, the \
         longest that another client's PING took meanwhile, the most CPU that the server spent between such \
         a PING and its reply, and the time until the last grant had come.",
        &[
            "us a reader",
            "longest PING ms",
            "server's part ms",
            "all in, ms",
        ],
    );
    let names = ["LOCK.ACQUIRE SHARED BLOCK", "nobody waits, for 200 ms"];
    let table = table.rows(names, &figures);
    let what = "longest PING while readers are let in, ms";
    let goal = Goal::at_most(what, 5.0, figures[0][1].spread());
    Part::new(table, vec![goal])
}

fn let_in(server: &Server, clients: &mut [Connection]) -> [f64; 4] {
    cmd!(server.connection(), "FLUSHALL", "SYNC").okay();
    let mut writer = server.connection();
    cmd!(writer, "LOCK.ACQUIRE", KEY, OWNER, "PX", HOUR_MS).grant();
    for (reader, client) in clients.iter_mut().enumerate() {
        let owner = reader.to_string();
        let words = ["LOCK.ACQUIRE", KEY, &owner, "SHARED", "BLOCK", "0", "PX"];
        client.post(&command(&words, &[HOUR_MS]));
    }
    eventually(
        || number(server, "clients", "blocked_clients") as usize == clients.len(),
        "all to wait",
    );
    let start = Instant::now();
    let longest = longest_ping_while(server, || {
        cmd!(writer, "LOCK.RELEASE", KEY, OWNER).int();
        for client in &mut *clients {
            client.receive().value();
        }
    });
    let passed = start.elapsed().as_secs_f64() * 1000.0;
    let each = longest.spent / 1000.0 / clients.len() as f64;
    [each, longest.time, longest.server, passed]
}
