//! The three rule sets of `docs/operations.md`: an application, a watcher, an administrator.

use crate::support::run;
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd};

const MANUAL: &str = include_str!("../../docs/operations.md");

/// The `ACL SETUSER` line of this user in the manual, run as it is written there.
#[track_caller]
fn user(server: &Server, name: &str) -> Connection {
    let start = format!("ACL SETUSER {name} ");
    let lines: Vec<_> = MANUAL
        .lines()
        .filter(|line| line.starts_with(&start))
        .collect();
    let [line] = lines.as_slice() else {
        panic!("one line for {name} expected, not {lines:?}")
    };
    let mut c = server.connection();
    cmd!(c, "ACL", "DELUSER", name).int();
    run(&mut c, line).okay();
    server.connection_as(name, "secret")
}

/// Whether the server lets the call through, whatever it then replies.
fn may(c: &mut Connection, line: &str) -> bool {
    let refusal = run(c, line).err();
    refusal.is_none_or(|refusal| refusal.code() != "NOPERM")
}

/// Calls, and which of application, watcher and administrator may make them.
const CALLS: &[(&str, [bool; 3])] = &[
    ("LOCK.ACQUIRE lock:k a PX 600000", [true, false, false]),
    ("LOCK.ACQUIRE other a", [false, false, false]),
    ("LOCK.RENEW lock:k a", [true, false, false]),
    ("LOCK.FENCE lock:k", [true, false, false]),
    ("LOCK.INFO lock:k", [true, true, true]),
    ("LOCK.INFO other", [false, false, false]),
    ("LOCK.WAITERS lock:k", [false, true, true]),
    ("LOCK.HOTKEYS", [false, true, true]),
    ("INFO lock", [false, true, true]),
    ("SCAN 0 TYPE RedisLock", [false, true, true]),
    ("PTTL lock:k", [false, true, true]),
    ("CLIENT LIST", [false, true, true]),
    ("LOCK.RELEASE lock:k nobody", [true, false, true]),
    ("CLIENT KILL ID 999999", [false, false, true]),
    ("PEXPIRE lock:k 500000", [false, false, true]),
    ("DEL lock:free", [false, false, true]),
    ("DEL other", [false, false, false]),
    ("SET lock:k v", [false, false, false]),
    ("RESTORE lock:k 0 x", [false, false, false]),
    ("LOCK._APPLY lock:k a 5 1 1000 -1", [false, false, false]),
    ("LOCK._CLOCK 5", [false, false, false]),
    ("CONFIG GET lock.*", [false, false, true]),
    ("CONFIG SET lock.max-waiters 7", [false, false, false]),
    ("FLUSHALL", [false, false, false]),
];

#[test]
fn each_user_may_do_what_the_manual_says_and_no_more() {
    let server = Server::start();
    let names = ["application", "watcher", "administrator"];
    let mut users = names.map(|name| user(&server, name));
    for (line, expected) in CALLS {
        for ((c, name), expected) in users.iter_mut().zip(names).zip(expected) {
            assert_eq!(may(c, line), *expected, "{line} by {name}");
        }
    }
}

#[test]
fn an_application_waits_and_an_administrator_frees() {
    let server = Server::start();
    let mut application = user(&server, "application");
    let mut administrator = user(&server, "administrator");
    run(&mut application, "LOCK.ACQUIRE lock:k a PX 600000").grant();
    let mut waiting = server.connection_as("application", "secret");
    testbed::post!(waiting, "LOCK.ACQUIRE", "lock:k", "b", "BLOCK", 0);
    testbed::eventually(
        || {
            !run(&mut administrator, "LOCK.WAITERS lock:k")
                .items()
                .is_empty()
        },
        "the call to wait",
    );
    assert_eq!(run(&mut administrator, "DEL lock:k").int(), 1);
    assert_eq!(waiting.receive().grant().owner, b"b");
}
