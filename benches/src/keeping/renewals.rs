//! A hundred thousand grants that the server renews, on one connection or in one session, and on ten thousand.

use std::thread;
use std::time::Duration;

use redis::Connection;
use testbed::Server;

use super::Keeper;
use crate::part::{Goal, Part};
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Program, Setting, cpu_of, for_each, number, open_files_allowed, settle};
use crate::stats::Spread;
use crate::table::Table;
use crate::ways::{LEASE_MS, OWNER};

const GRANTS: usize = 100_000;
/// Open files besides one for each keeper.
const OTHER_FILES: usize = 200;
/// All are renewed once in this time.
const THIRD: Duration = Duration::from_millis(LEASE_MS as u64 / 3);

/// What is measured: so many grants of so many keepers, and who reads what the server writes.
struct Kind {
    grants: usize,
    keepers: usize,
    written: bool,
}

const KINDS: [Kind; 5] = [
    Kind::new(0, 10_000, false),
    Kind::new(GRANTS, 1, false),
    Kind::new(GRANTS, 10_000, false),
    Kind::new(GRANTS, 1, true),
    Kind::new(GRANTS, 10_000, true),
];

pub(super) fn measure(program: &Program, keeper: Keeper, scale: &Scale) -> Part {
    let seconds = (THIRD * scale.renewals).as_secs();
    let mut table = Table::new(
        format!(
            "Grants of a {} with leases of 30 s: {}",
            keeper.name(),
            program.version
        ),
        &format!(
            "Each grant is renewed every 10 s. All on a connection are taken in one pipeline, so \
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
        let figures = renewals(program, keeper, &kind, scale.renewals);
        let [percent, _, _, ping, _] = figures;
        let name = kind.name(keeper);
        if kind.grants > 0 && !kind.written {
            let cpu = format!("{name}: CPU of a core");
            let longest = format!("{name}: longest PING, ms");
            goals.push(Goal::at_most(cpu, 0.05, Spread::of(percent / 100.0)));
            goals.push(Goal::at_most(longest, 5.0, Spread::of(ping)));
        }
        table.row(name, figures.map(Spread::of).to_vec());
    }
    Part {
        tables: vec![table],
        goals,
        ..Part::default()
    }
}

impl Kind {
    const fn new(grants: usize, keepers: usize, written: bool) -> Self {
        Self {
            grants,
            keepers,
            written,
        }
    }

    /// As many as connections may be open here.
    fn keepers(&self) -> usize {
        let allowed = open_files_allowed().saturating_sub(OTHER_FILES);
        self.keepers.min(allowed)
    }

    fn name(&self, keeper: Keeper) -> String {
        let written = if self.written {
            ", AOF everysec and a replica"
        } else {
            ""
        };
        let count = self.keepers();
        let plural = if count == 1 { "" } else { "s" };
        format!(
            "{} grants of {count} {}{plural}{written}",
            self.grants,
            keeper.name()
        )
    }
}

fn renewals(program: &Program, keeper: Keeper, kind: &Kind, times: u32) -> [f64; 5] {
    let count = kind.keepers();
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
    let mut keepers: Vec<(Connection, i64)> = (0..count)
        .map(|_| {
            let mut connection = server.connection();
            let session = keeper.open(&mut connection);
            (connection, session)
        })
        .collect();
    let each = kind.grants / count;
    for (index, (connection, session)) in keepers.iter_mut().enumerate() {
        for_each(connection, index * each..(index + 1) * each, |number| {
            keeper.acquire(*session, &format!("lock:{number:07}"), OWNER, LEASE_MS)
        });
    }
    // The renewals of those that were taken together fall into the middle of each third from now on.
    thread::sleep(THIRD / 2);
    let before = renewed(&server, keeper);
    let spent = cpu_of(&server, || thread::sleep(THIRD));
    let renewals = renewed(&server, keeper) - before;
    let (mut time, mut part) = (0.0_f64, 0.0_f64);
    for _ in 0..times {
        let longest = longest_ping_while(&server, || thread::sleep(THIRD));
        time = time.max(longest.time);
        part = part.max(longest.server);
        for (connection, session) in &mut keepers {
            keeper.be_heard(connection, *session);
        }
    }
    let field = match keeper {
        Keeper::Connection => "lock_kept",
        Keeper::Session => "lock_session_grants",
    };
    let kept = number(&server, "lock", field) as usize;
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

fn renewed(server: &Server, keeper: Keeper) -> f64 {
    let field = match keeper {
        Keeper::Connection => "lock_kept_renewals",
        Keeper::Session => "lock_session_renewals",
    };
    number(server, "lock", field)
}
