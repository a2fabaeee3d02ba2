//! A hundred thousand grants that the server renews, in one session and in ten thousand.

use std::thread;
use std::time::Duration;

use redis::Connection;
use testbed::Server;

use super::acquire;
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Program, Setting, cpu_of, for_each, number, open_files_allowed, settle};
use crate::session::open_session;
use crate::stats::Spread;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER};

const GRANTS: usize = 100_000;
/// Open files besides one for each session's connection.
const OTHER_FILES: usize = 200;
/// All are renewed once in this time.
const THIRD: Duration = Duration::from_millis(LEASE_MS as u64 / 3);

/// The measured settings: so many grants of so many sessions, with or without a file and a replica.
const KINDS: [(usize, usize, bool); 5] = [
    (0, 10_000, false),
    (GRANTS, 1, false),
    (GRANTS, 10_000, false),
    (GRANTS, 1, true),
    (GRANTS, 10_000, true),
];

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let seconds = (THIRD * scale.renewals).as_secs();
    let mut table = Table::of(
        program,
        "Grants of a session with leases of 30 s",
        &format!(
            "The cost of renewals by the server, which spare programs a timer. Each grant is renewed every 10 s. All of a session are taken in one pipeline, so \
             their renewals fall together. The server's main thread for 10 s in which no client says \
             anything: percent of a core. Then for {seconds} s another client's PINGs, one every 5 ms: the \
             longest, and the most CPU that the server spent between a PING and its reply."
        ),
        &[
            "% of a core",
            "renewals/s",
            "us a renewal",
            "longest PING ms",
            "server's part ms",
        ],
    );
    let mut goals = Vec::new();
    // As many sessions as connections may be open here.
    let allowed = open_files_allowed().saturating_sub(OTHER_FILES);
    for (grants, sessions, is_written) in KINDS {
        let count = sessions.min(allowed);
        let figures = renewals(program, grants, count, is_written, scale.renewals);
        let [percent, _, _, ping, _] = figures;
        let plural = if count == 1 { "" } else { "s" };
        let written = if is_written {
            ", AOF everysec and a replica"
        } else {
            ""
        };
        let name = format!("{grants} grants of {count} session{plural}{written}");
        if grants > 0 && !is_written {
            let cpu = format!("{name}: CPU of a core");
            let longest = format!("{name}: longest PING, ms");
            goals.push(Goal::at_most(cpu, 0.05, Spread::of(percent / 100.0)));
            goals.push(Goal::at_most(longest, 5.0, Spread::of(ping)));
        }
        table.row(name, figures.map(Spread::of).to_vec());
    }
    Part::new(table, goals)
}

fn renewals(
    program: &Program,
    grants: usize,
    count: usize,
    is_written: bool,
    times: u32,
) -> [f64; 5] {
    let setting = if is_written {
        Setting::AppendOnly
    } else {
        Setting::Plain
    };
    let max = (count + OTHER_FILES).to_string();
    let server = program
        .builder_of(setting)
        .config("maxclients", &max)
        .start();
    settle(&server);
    let _replica = is_written.then(|| Setting::Replica.replica_of(&server, program));
    let mut sessions: Vec<(Connection, i64)> = (0..count)
        .map(|_| {
            let mut connection = server.connection();
            let session = open_session(&mut connection);
            (connection, session)
        })
        .collect();
    let each = grants / count;
    for (index, (connection, session)) in sessions.iter_mut().enumerate() {
        for_each(connection, index * each..(index + 1) * each, |number| {
            acquire(*session, &format!("lock:{number:07}"), OWNER, LEASE_MS)
        });
    }
    // The renewals of those that were taken together fall into the middle of each third from now on.
    thread::sleep(THIRD / 2);
    let before = renewed(&server);
    let spent = cpu_of(&server, || thread::sleep(THIRD));
    let renewals = renewed(&server) - before;
    let (mut time, mut part) = (0.0_f64, 0.0_f64);
    for _ in 0..times {
        let longest = longest_ping_while(&server, || thread::sleep(THIRD));
        time = time.max(longest.time);
        part = part.max(longest.server);
    }
    let held = number(&server, "lock", "lock_session_grants") as usize;
    assert_eq!(held, count * each, "held to the end");
    let seconds = THIRD.as_secs_f64();
    [
        spent / 1e9 / seconds * 100.0,
        renewals / seconds,
        spent / 1000.0 / renewals,
        time,
        part,
    ]
}

fn renewed(server: &Server) -> f64 {
    number(server, "lock", "lock_session_renewals")
}
