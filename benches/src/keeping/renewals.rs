//! A hundred thousand kept grants on one connection, and on ten thousand.

use std::thread;
use std::time::Duration;

use redis::Connection;
use testbed::{Expect, Server, cmd};

use super::SILENCE_MS;
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Program, Setting, cpu_of, for_each, number, open_files_allowed, settle};
use crate::stats::Spread;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER, command};

const GRANTS: usize = 100_000;
/// Open files besides one for each keeper.
const OTHER_FILES: usize = 200;
/// All are renewed once in this time.
const THIRD: Duration = Duration::from_millis(LEASE_MS as u64 / 3);

/// What is measured: so many grants on so many connections, and who reads what the server writes.
struct Kind {
    grants: usize,
    connections: usize,
    written: bool,
    goals: Option<[&'static str; 2]>,
}

const KINDS: [Kind; 5] = [
    Kind {
        grants: 0,
        connections: 10_000,
        written: false,
        goals: None,
    },
    Kind {
        grants: GRANTS,
        connections: 1,
        written: false,
        goals: Some([
            "100000 kept grants, 1 connection: CPU of a core",
            "longest PING, 100000 kept on 1 connection, ms",
        ]),
    },
    Kind {
        grants: GRANTS,
        connections: 10_000,
        written: false,
        goals: Some([
            "100000 kept, 10000 connections: CPU of a core",
            "longest PING, 100000 kept on 10000 connections, ms",
        ]),
    },
    Kind {
        grants: GRANTS,
        connections: 1,
        written: true,
        goals: None,
    },
    Kind {
        grants: GRANTS,
        connections: 10_000,
        written: true,
        goals: None,
    },
];

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let seconds = (THIRD * scale.renewals).as_secs();
    let mut table = Table::new(
        format!("Kept grants with leases of 30 s: {}", program.version),
        &format!(
            "KEEP {SILENCE_MS}, each grant renewed every 10 s. All on a connection are taken in one pipeline, so \
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
    for kind in KINDS {
        let figures = renewals(program, &kind, scale.renewals);
        let [percent, _, _, ping, _] = figures;
        if let Some([cpu, longest]) = kind.goals {
            goals.push(Goal::at_most(cpu, 0.05, Spread::of(percent / 100.0)));
            goals.push(Goal::at_most(longest, 5.0, Spread::of(ping)));
        }
        table.row(kind.name(), figures.map(Spread::of).to_vec());
    }
    Part {
        tables: vec![table],
        goals,
        ..Part::default()
    }
}

impl Kind {
    /// As many connections as may be open here.
    fn connections(&self) -> usize {
        let allowed = open_files_allowed().saturating_sub(OTHER_FILES);
        self.connections.min(allowed)
    }

    fn name(&self) -> String {
        let written = if self.written {
            ", AOF everysec and a replica"
        } else {
            ""
        };
        let count = self.connections();
        let plural = if count == 1 { "" } else { "s" };
        format!(
            "{} kept on {count} connection{plural}{written}",
            self.grants
        )
    }
}

fn renewals(program: &Program, kind: &Kind, times: u32) -> [f64; 5] {
    let count = kind.connections();
    let setting = if kind.written {
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
    let _replica = kind
        .written
        .then(|| Setting::Replica.replica_of(&server, program));
    let mut keepers: Vec<Connection> = (0..count).map(|_| server.connection()).collect();
    let each = kind.grants / count;
    for (index, keeper) in keepers.iter_mut().enumerate() {
        for_each(keeper, index * each..(index + 1) * each, acquire);
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
        be_heard(&mut keepers);
    }
    let kept = number(&server, "lock", "lock_kept") as usize;
    assert_eq!(kept, count * each, "kept to the end");
    let seconds = THIRD.as_secs_f64();
    [
        spent / 1e9 / seconds * 100.0,
        renewals / seconds,
        spent / 1000.0 / renewals,
        time,
        part,
    ]
}

fn acquire(number: usize) -> redis::Cmd {
    let key = format!("lock:{number:07}");
    let words = ["LOCK.ACQUIRE", &key, OWNER, "PX"];
    let mut call = command(&words, &[LEASE_MS]);
    call.arg("KEEP").arg(SILENCE_MS);
    call
}

fn renewed(server: &Server) -> f64 {
    number(server, "lock", "lock_kept_renewals")
}

/// Every keeper asks whether its grants stand.
fn be_heard(keepers: &mut [Connection]) {
    for keeper in keepers {
        cmd!(*keeper, "PING").value();
    }
}
