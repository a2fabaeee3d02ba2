//! Renewals by the server are heard by nobody, and count for save points.

use crate::support::{Keeper, await_renewals, count, run};
use redis::{Connection, Value};
use testbed::{Expect, Server, Talk, cmd, post};

/// A primary with a replica and a kept grant of `k`.
fn kept() -> (Server, Server, Keeper) {
    let primary = Server::start();
    let replica = primary.replica();
    let keeper = Keeper::on(&primary, "k a PX 1000 KEEP 60000");
    primary.wait_for_sync(&replica);
    (primary, replica, keeper)
}

/// Lets two renewals go by, on the replica too.
fn two_renewals(primary: &Server, replica: &Server) {
    await_renewals(primary, 2);
    primary.wait_for_sync(replica);
}

#[test]
fn renewals_raise_no_event() {
    let (primary, replica, _keeper) = kept();
    let listen = |server: &Server| {
        let mut c = server.connection();
        cmd!(c, "CONFIG", "SET", "notify-keyspace-events", "KEA").okay();
        post!(c, "PSUBSCRIBE", "__key*__:*");
        c.receive().items();
        post!(c, "SUBSCRIBE", "end");
        c.receive().items();
        c
    };
    let listeners = [listen(&primary), listen(&replica)];
    two_renewals(&primary, &replica);
    for (server, mut listener) in [&primary, &replica].into_iter().zip(listeners) {
        cmd!(server.connection(), "PUBLISH", "end", "of it").int();
        let first = listener.receive().items();
        assert_eq!(first[0].clone().text(), "message", "an event: {first:?}");
    }
}

#[test]
fn renewals_wake_no_watch() {
    let (primary, replica, _keeper) = kept();
    let watchers = [&primary, &replica].map(|server| {
        let mut c = server.connection();
        run(&mut c, "WATCH k").okay();
        c
    });
    two_renewals(&primary, &replica);
    for mut c in watchers {
        run(&mut c, "MULTI").okay();
        run(&mut c, "PING").value();
        assert_eq!(run(&mut c, "EXEC").items().len(), 1);
    }
}

#[test]
fn renewals_wake_no_client_side_cache() {
    const CHANNEL: &str = "__redis__:invalidate";
    let (primary, replica, _keeper) = kept();
    let caches = [&primary, &replica].map(|server| {
        let (mut reading, mut heard) = (server.connection(), server.connection());
        let id = cmd!(heard, "CLIENT", "ID").int();
        post!(heard, "SUBSCRIBE", CHANNEL);
        heard.receive().value();
        cmd!(reading, "CLIENT", "TRACKING", "ON", "REDIRECT", id).okay();
        run(&mut reading, "LOCK.INFO k").lock_info();
        (reading, heard)
    });
    two_renewals(&primary, &replica);
    for (server, (_reading, mut heard)) in [&primary, &replica].into_iter().zip(caches) {
        cmd!(server.connection(), "PUBLISH", CHANNEL, "end").int();
        let first = heard.receive().items();
        assert!(
            !matches!(first[2], Value::Array(_)),
            "an invalidation: {first:?}"
        );
    }
}

/// Changes since the last save, and renewals, at one moment.
fn changes(c: &mut Connection) -> (i64, i64) {
    let info = run(c, "INFO everything").text();
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|n| n.strip_prefix(':')?.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {info}"))
    };
    (
        number("rdb_changes_since_last_save"),
        number("lock_kept_renewals"),
    )
}

#[test]
fn each_renewal_counts_as_one_write() {
    let (primary, _replica, mut keeper) = kept();
    let mut c = primary.connection();
    let before = changes(&mut c);
    await_renewals(&primary, 3);
    let after = changes(&mut c);
    assert_eq!(after.0 - before.0, after.1 - before.1);
    // And so a save point is reached by them.
    cmd!(c, "CONFIG", "SET", "save", "1 1").okay();
    let saved = primary.info_field("persistence", "rdb_last_save_time");
    testbed::eventually(
        || primary.info_field("persistence", "rdb_last_save_time") != saved,
        "the server to save",
    );
    keeper.is_answered();
    assert_eq!(count(&primary, "kept_closes"), 0);
}
