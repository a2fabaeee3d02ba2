//! Fence: a holder that is stopped beyond its lease writes nothing.

use crate::database::Database;
use crate::postgres::Postgres;
use crate::program::{Program, holder, signal};
use serde_json::{Value, json};
use testbed::{Expect, Server, cmd};

const LOCK: &str = "lock:{order}";

/// Starts a holder that works for some time before it writes.
fn start(server: &Server, name: &str, url: &str, work: &str) -> Program {
    let what = ["fence", "--name", name, "--sql", url];
    let terms = ["--lease-ms", "1500", "--work-ms", work];
    Program::start(server, &[&what[..], &terms].concat())
}

/// Waits until it holds the lock; none when it does not know this kind of database.
fn held(program: &Program) -> Option<u64> {
    let held = program.next()?;
    assert_eq!(held["event"], "held", "{held}");
    Some(held["token"].as_u64().expect("a token"))
}

/// Runs a holder that is stopped, one that takes its place, and a third one.
fn late_writes_are_refused(database: &Database) {
    let server = Server::start();
    let url = database.url();
    // It works for longer than its lease, and is renewed; but then it is stopped.
    let slow = start(&server, "slow", url, "4000");
    let Some(first) = held(&slow) else {
        let (_, status) = slow.end();
        assert!(
            status.code() == Some(2) && !url.starts_with("sqlite:"),
            "{status}"
        );
        println!("the program does not know {url}");
        return;
    };
    let stopped = holder(&server, LOCK);
    signal(&stopped, "STOP");

    let quick = start(&server, "quick", url, "50");
    let second = held(&quick).expect("it was there before");
    assert!(second > first);
    let mut results = vec![quick.result()];
    let state = || cmd!(server.connection(), "GET", "{order}:state").text();
    let token = |token: u64| i64::try_from(token).expect("a BIGINT");
    assert_eq!(state(), "quick");
    assert_eq!(database.row(), ("quick".to_owned(), token(second)));

    signal(&stopped, "CONT");
    results.push(slow.result());
    assert_eq!(state(), "quick", "the late write was refused");
    assert_eq!(database.row(), ("quick".to_owned(), token(second)));

    let last = start(&server, "last", url, "50");
    let third = held(&last).expect("it was there before");
    results.push(last.result());
    assert_eq!(state(), "last");
    assert_eq!(database.row(), ("last".to_owned(), token(third)));

    let count = |place: &str, what: &str| {
        let is = |result: &&Value| result[place] == json!(what);
        results.iter().filter(is).count()
    };
    for place in ["redis", "sql"] {
        let (written, refused) = (count(place, "written"), count(place, "refused"));
        println!("{place}: {written} written, {refused} refused as stale");
        assert_eq!((written, refused), (2, 1), "{results:?}");
    }
}

#[test]
fn late_writes_are_refused_with_sqlite() {
    late_writes_are_refused(&Database::sqlite());
}

#[test]
fn late_writes_are_refused_with_postgresql() {
    match Postgres::find() {
        Some(postgres) => late_writes_are_refused(&Database::postgres(postgres)),
        None => println!("PostgreSQL is not installed: left out"),
    }
}
