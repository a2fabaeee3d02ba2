//! The time of lock and unlock, with no, one and two servers down.

use super::{SERVERS, WAYS, servers};
use crate::contenders::{Languages, Task, Team};
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::{interleave, percentiles};
use crate::table::Table;

const COLUMNS: [&str; 4] = ["median us", "p99 us", "pairs/s", "errors"];

pub(super) fn table(program: &Program, scale: Scale, languages: &Languages) -> Table {
    let mut table = Table::of(
        program,
        format!("Lock and unlock on {SERVERS} servers, of which some are down"),
        "What does a lock on several servers cost, if all of them are up or some are down? One client in its own \
         process uses one lock, without contention. A server that is down has been killed, so its port refuses \
         connections. This project's lock takes one more round than redsync's, which has no token. By default \
         redsync waits for the replies of all servers, and go-redis retries a server that is down several times, \
         with pauses. Where it is \"set to be quick\", both are turned off (WithFailFast, MaxRetries, \
         DialerRetries).",
        &COLUMNS,
    );
    let mut servers = servers(program);
    let mut started = Vec::new();
    for (language, way, name) in WAYS {
        let task = Task {
            language,
            way,
            key: way,
            ..Task::ALONE
        };
        match Team::start(languages, 1, &servers, &task) {
            Ok(team) => started.push((name, team)),
            Err(why) => table.row(name, 0, Err(why)),
        }
    }
    let seconds = scale.of(0.2, 1.0);
    for down in 0..=SERVERS / 2 {
        if down > 0 {
            servers[down - 1].kill9();
        }
        // The first round shows the clients which servers are down, and does not count.
        let figures = interleave(7, &mut started, |(_, team)| {
            pairs(team, seconds).unwrap_or_else(|why| {
                eprintln!("{why}");
                [f64::NAN; COLUMNS.len()]
            })
        });
        let names = started.iter();
        let names = names.map(|(name, _)| format!("{name}, {down} down"));
        table = table.rows(names, figures);
    }
    table
}

/// The figures of a turn. A pair lasts until the next one begins; the last one is without its release.
fn pairs(team: &mut Team, seconds: f64) -> Result<[f64; COLUMNS.len()], String> {
    team.begin(seconds)?;
    let turn = team.end(seconds)?;
    let (grants, _) = turn.times[0].as_chunks::<3>();
    let begins = grants.iter().map(|[asked, ..]| *asked);
    let last = grants.last().map(|[.., released]| *released);
    let ends = begins.clone().skip(1).chain(last);
    let pairs = begins.zip(ends);
    let mut micros: Vec<f64> = pairs
        .map(|(begin, end)| (end - begin) as f64 / 1000.0)
        .collect();
    let [median, p99, _] = percentiles(&mut micros);
    Ok([
        median,
        p99,
        micros.len() as f64 / seconds,
        turn.errors as f64,
    ])
}
