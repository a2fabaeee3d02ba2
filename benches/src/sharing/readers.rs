//! Ten thousand readers that a writer lets in.

use std::thread;
use std::time::{Duration, Instant};

use testbed::{Expect, Talk, cmd};

use super::{HOUR_MS, KEY, share};
use crate::part::Limit::AtMost;
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Crowd, Program, clients_allowed};
use crate::stats::interleave;
use crate::table::Table;
use crate::ways::OWNER;

const READERS: usize = 10_000;
/// For what the server does with so many connections in any case.
const IDLE: Duration = Duration::from_millis(200);

pub(super) fn measure(program: &Program, scale: Scale) -> Part {
    let readers = READERS.min(clients_allowed());
    let mut crowd = Crowd::of(program, readers);
    let figures = interleave(scale.rounds(), &mut [true, false], |waiting| {
        if *waiting {
            let_in(&mut crowd)
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
    Part::new(table, vec![goal])
}

fn let_in(crowd: &mut Crowd) -> [f64; 4] {
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
