//! A hundred thousand grants that the server renews, in one session and in ten thousand.

use std::thread;
use std::time::Duration;

use testbed::Server;

use crate::part::Limit::AtMost;
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::servers::{Program, Setting, clients_allowed, cpu_of, for_each, number, started};
use crate::session::Session;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER, call};

const GRANTS: usize = 100_000;
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

pub(super) fn measure(program: &Program) -> Part {
    let seconds = THIRD.as_secs();
    let mut table = Table::of(
        program,
        "Grants of a session with leases of 30 s",
        &format!(
            "What do the server's renewals cost? (They save programs a timer.) Each grant is renewed every 10 s. All \
             grants of a session are acquired in one pipeline, so their renewals coincide. The percentage of a core \
             is that of the server's main thread in 10 s without any command from a client. Then for {seconds} s \
             another client sends a PING every 5 ms: the figures are the longest PING, and the most CPU that the \
             server spent between a PING and its reply."
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
    let allowed = clients_allowed();
    for (row, (grants, sessions, is_written)) in KINDS.into_iter().enumerate() {
        let count = sessions.min(allowed);
        let plural = if count == 1 { "" } else { "s" };
        let written = if is_written {
            ", AOF everysec and a replica"
        } else {
            ""
        };
        let name = format!("{grants} grants of {count} session{plural}{written}");
        table.once(&name, &renewals(program, grants, count, is_written));
        if grants > 0 && !is_written {
            let cpu = format!("{name}: CPU of a core");
            let longest = format!("{name}: longest PING, ms");
            goals.push(Goal::new(
                cpu,
                AtMost(0.05),
                table.figure(row, PART_OF_A_CORE),
            ));
            goals.push(Goal::new(longest, AtMost(5.0), table.figure(row, 3)));
        }
    }
    Part::new(table, goals)
}

/// The number of the figure that is in no column.
const PART_OF_A_CORE: usize = 5;

fn renewals(program: &Program, grants: usize, count: usize, is_written: bool) -> [f64; 6] {
    let setting = if is_written {
        Setting::AppendOnly
    } else {
        Setting::Plain
    };
    let server = started(setting.of(program.builder_for(count)));
    let _replica = is_written.then(|| Setting::Replica.replica_of(&server, program));
    let mut sessions: Vec<Session> = (0..count).map(|_| Session::open(&server)).collect();
    let each = grants / count;
    for (index, session) in sessions.iter_mut().enumerate() {
        let id = session.id;
        let numbers = index * each..(index + 1) * each;
        for_each(&mut session.connection, numbers, |number| {
            call!("LOCK.ACQUIRE lock:{number:07} {OWNER} PX {LEASE_MS} SESSION {id}")
        });
    }
    // The renewals of those that were taken together fall into the middle of each third from now on.
    thread::sleep(THIRD / 2);
    let before = renewed(&server);
    let spent = cpu_of(&server, || thread::sleep(THIRD));
    let renewals = renewed(&server) - before;
    let longest = longest_ping_while(&server, || thread::sleep(THIRD));
    let held = number(&server, "lock", "lock_session_grants") as usize;
    assert_eq!(held, count * each, "held to the end");
    let seconds = THIRD.as_secs_f64();
    let part = spent / 1e9 / seconds;
    [
        100.0 * part,
        renewals / seconds,
        spent / 1000.0 / renewals,
        longest.time,
        longest.server,
        part,
    ]
}

fn renewed(server: &Server) -> f64 {
    number(server, "lock", "lock_session_renewals")
}
