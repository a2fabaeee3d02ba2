//! Seat: held over several processes, extended, lapsed, given to the next in line, paid.

use crate::program::Program;
use serde_json::{Value, json};
use std::time::Duration;
use testbed::{Expect, Server, cmd, within};

const LOCK: &str = "lock:{seat}";

fn hold(server: &Server, user: &str, lease: &str, wait: &str) -> Program {
    let what = ["seat", "--do", "hold", "--user", user];
    Program::start(
        server,
        &[&what[..], &["--lease-ms", lease, "--wait-ms", wait]].concat(),
    )
}

fn extend(server: &Server, user: &str, token: u64, lease: &str) -> Value {
    let (token, what) = (
        token.to_string(),
        ["seat", "--do", "extend", "--user", user],
    );
    let terms = ["--token", &token, "--lease-ms", lease];
    Program::start(server, &[&what[..], &terms].concat()).result()
}

fn pay(server: &Server, user: &str, token: u64) -> Value {
    let token = token.to_string();
    Program::start(
        server,
        &["seat", "--do", "pay", "--user", user, "--token", &token],
    )
    .result()
}

/// The token of a hold.
fn held(result: &Value) -> u64 {
    assert_eq!(result["seat"], "held", "{result}");
    result["token"].as_u64().expect("a token")
}

/// Who is in line, in order.
fn line(server: &Server) -> Vec<String> {
    testbed::waiters(&mut server.connection(), LOCK)
}

#[test]
fn a_seat_lapses_goes_to_the_next_and_is_paid_once() {
    const LONG: &str = "600000";
    const SHORT: &str = "3000";
    let server = Server::start();
    let first = held(&hold(&server, "ann", LONG, "0").result());
    let info = cmd!(server.connection(), "LOCK.INFO", LOCK).lock_info();
    assert_eq!(
        (info.owner.as_slice(), info.holds),
        (b"seat:ann".as_slice(), 1)
    );

    let lines = [vec!["seat:bob"], vec!["seat:bob", "seat:cleo"]];
    let [bob, cleo] = ["bob", "cleo"].map(|user| {
        let program = hold(&server, user, LONG, LONG);
        let wanted = lines
            .iter()
            .find(|line| line.last() == Some(&&*format!("seat:{user}")));
        let wanted = wanted.expect("a line");
        within(
            Duration::from_secs(60),
            || line(&server) == *wanted,
            "a user in line",
        );
        program
    });
    assert_eq!(
        hold(&server, "dan", LONG, "300").result(),
        json!({ "seat": "taken" })
    );
    // Asked twice, in another process, it is the same hold.
    assert_eq!(held(&hold(&server, "ann", LONG, "0").result()), first);
    assert_eq!(
        cmd!(server.connection(), "LOCK.INFO", LOCK)
            .lock_info()
            .holds,
        1
    );
    assert_eq!(
        extend(&server, "ann", first, SHORT),
        json!({ "seat": "extended" })
    );

    // Ann does not pay: the seat lapses, and goes to Bob, who is first in line.
    let second = held(&bob.result());
    assert!(second > first);
    assert_eq!(pay(&server, "ann", first), json!({ "seat": "lapsed" }));
    assert_eq!(
        extend(&server, "ann", first, LONG),
        json!({ "seat": "lapsed" })
    );
    assert_eq!(cmd!(server.connection(), "EXISTS", "{seat}:paid").int(), 0);
    assert_eq!(line(&server), ["seat:cleo"]);

    assert_eq!(
        extend(&server, "bob", second, LONG),
        json!({ "seat": "extended" })
    );
    assert_eq!(pay(&server, "bob", second), json!({ "seat": "paid" }));
    assert_eq!(cleo.result(), json!({ "seat": "sold" }));
    assert_eq!(pay(&server, "bob", second), json!({ "seat": "lapsed" }));
    assert_eq!(
        cmd!(server.connection(), "GET", "{seat}:paid").text(),
        "bob"
    );
    assert_eq!(cmd!(server.connection(), "EXISTS", LOCK).int(), 0);
}

#[test]
fn a_user_who_is_asked_to_leave_the_line_leaves_it() {
    let server = Server::start();
    held(&hold(&server, "ann", "600000", "0").result());
    let bob = hold(&server, "bob", "600000", "600000");
    within(
        Duration::from_secs(60),
        || line(&server) == ["seat:bob"],
        "a user in line",
    );
    bob.terminate();
    within(
        Duration::from_secs(10),
        || line(&server).is_empty(),
        "an empty line",
    );
    let (results, status) = bob.end();
    assert!(
        results.is_empty() && !status.success(),
        "{status}: {results:?}"
    );
    let info = cmd!(server.connection(), "LOCK.INFO", LOCK).lock_info();
    assert_eq!(info.owner, b"seat:ann");
}
