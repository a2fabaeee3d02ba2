//! Fence: a holder that is stopped beyond its lease writes nothing, also before the next one has written.

use crate::database::Database;
use crate::postgres::Postgres;
use crate::program::{Program, holder, signal};
use serde_json::Value;
use testbed::{Expect, Server, cmd};

const LOCK: &str = "lock:{order}";

/// Starts a holder that works for some time before it writes.
fn start(server: &Server, name: &str, url: &str, lease: &str, work: &str) -> Program {
    let what = ["fence", "--name", name, "--sql", url];
    let terms = ["--lease-ms", lease, "--work-ms", work];
    Program::start(server, &[&what[..], &terms].concat())
}

/// Waits until it holds the lock and has read; none when it does not know this kind of database.
fn held(program: &Program) -> Option<u64> {
    let held = program.next()?;
    assert_eq!(held["event"], "held", "{held}");
    Some(held["token"].as_u64().expect("a token"))
}

/// Stops the process that holds the lock.
fn stop(server: &Server) -> String {
    let stopped = holder(server, LOCK);
    signal(&stopped, "STOP");
    stopped
}

/// The order that sells one seat twice where nobody claims it: a holder reads, and is stopped until its
/// lease has ended; the next one reads; the first writes, then the second.
fn one_seat_is_sold_once(database: &Database) {
    let server = Server::start();
    let url = database.url();
    let slow = start(&server, "slow", url, "1500", "4000");
    let Some(first) = held(&slow) else {
        let (_, status) = slow.end();
        assert!(
            status.code() == Some(2) && !url.starts_with("sqlite:"),
            "{status}"
        );
        println!("the program does not know {url}");
        return;
    };
    let slow_process = stop(&server);

    let quick = start(&server, "quick", url, "60000", "4000");
    let second = held(&quick).expect("it was there before");
    assert!(second > first);
    let quick_process = stop(&server);
    signal(&slow_process, "CONT");
    let refused = ["redis", "row", "new_row", "tables"].map(|place| (place, "refused"));
    assert_eq!(slow.result(), told(refused));
    signal(&quick_process, "CONT");
    let written = refused.map(|(place, _)| (place, "written"));
    assert_eq!(quick.result(), told(written));
    let state = || cmd!(server.connection(), "GET", "{order}:state").text();
    assert_eq!(state(), "quick");
    database.expect_sold("quick", second, second);

    let last = start(&server, "last", url, "60000", "50");
    let third = held(&last).expect("it was there before");
    let sold = written.map(|(place, outcome)| match place {
        "redis" => (place, outcome),
        _ => (place, "sold"),
    });
    assert_eq!(last.result(), told(sold));
    assert_eq!(state(), "last");
    database.expect_sold("quick", second, third);
}

fn told(outcomes: [(&str, &str); 4]) -> Value {
    outcomes.into_iter().collect()
}

#[test]
fn a_stopped_holder_sells_nothing_with_sqlite() {
    one_seat_is_sold_once(&Database::sqlite());
}

#[test]
fn a_stopped_holder_sells_nothing_with_postgresql() {
    match Postgres::find() {
        Some(postgres) => one_seat_is_sold_once(&Database::postgres(postgres)),
        None => println!("PostgreSQL is not installed: left out"),
    }
}
