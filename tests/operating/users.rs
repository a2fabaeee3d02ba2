//! The users of `docs/operations/users.md`: what each may do, where, and for how long. That the client
//! libraries can live with the rules is tried in `clients/`, with each of them.

use redis::Connection;
use std::fs;
use std::time::Duration;
use testbed::redis::Value;
use testbed::sentinels::NAME;
use testbed::{
    Expect, Sentinels, Server, Talk, cmd, eventually, line, run, started, users, waiters, within,
};

/// The first `ACL SETUSER` line of this user in the manual. What a second one adds is told there.
#[track_caller]
fn rule(name: &str) -> &'static str {
    users::rules(name)[0]
}

/// A connection of a user who was made as the manual says.
#[track_caller]
fn user(server: &Server, name: &str) -> Connection {
    let mut c = server.connection();
    cmd!(c, "ACL", "DELUSER", name).int();
    run(&mut c, rule(name)).okay();
    server.connection_as(name, "secret")
}

/// Whether the server lets the call through, whatever it then replies.
fn may(c: &mut Connection, line: &str) -> bool {
    let refusal = run(c, line).err();
    refusal.is_none_or(|refusal| refusal.code() != "NOPERM")
}

/// Calls, and which of application, watcher and administrator may make them.
const CALLS: &[(&str, [bool; 3])] = &[
    ("PING", [true, true, true]),
    ("SELECT 0", [true, true, true]),
    ("COMMAND COUNT", [true, true, true]),
    ("CLIENT SETNAME x", [true, true, true]),
    ("CLIENT PAUSE 1", [false, false, false]),
    ("CLIENT UNPAUSE", [false, false, true]),
    ("ACL LOG", [false, false, true]),
    ("ACL LIST", [false, false, false]),
    ("LOCK.ACQUIRE lock:k a PX 600000", [true, false, true]),
    ("LOCK.ACQUIRE other a", [false, false, false]),
    ("LOCK.RENEW lock:k a", [true, false, false]),
    ("LOCK.FENCE lock:k", [true, false, false]),
    ("LOCK.INFO lock:k", [true, true, true]),
    ("LOCK.INFO other", [false, false, false]),
    ("LOCK.WAITERS lock:k", [false, true, true]),
    ("LOCK.HOTKEYS", [false, true, true]),
    ("LOCK.SESSION LIST", [false, true, true]),
    ("LOCK.SESSION KILL 5", [false, false, true]),
    ("INFO lock", [true, true, true]),
    ("DBSIZE", [false, true, true]),
    ("EVAL return 0", [false, false, false]),
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
    waiting.post(&line("LOCK.ACQUIRE lock:k b BLOCK 0"));
    let mut waits = || waiters(&mut administrator, "lock:k") == ["b"];
    eventually(&mut waits, "the call to wait");
    assert_eq!(run(&mut administrator, "DEL lock:k").int(), 1);
    assert_eq!(waiting.receive().grant().owner, b"b");
}

#[test]
fn a_client_that_says_hello_needs_no_right_to() {
    let (server, mut c) = started();
    run(&mut c, "ACL SETUSER nobody on >secret -@all").okay();
    let mut nobody = server.connection_as("nobody", "secret");
    cmd!(nobody, "HELLO", 2).value();
    cmd!(c, "ACL", "LOG", "RESET").okay();
    cmd!(nobody, "HELLO", 2).value();
    run(&mut nobody, "PING").refused("NOPERM");
    assert_eq!(cmd!(c, "ACL", "LOG").items().len(), 1);
}

/// Whether the application's user is there.
fn knows_the_application(server: &Server) -> bool {
    let mut c = server.connection();
    let reply = cmd!(c, "AUTH", "application", "secret");
    reply.is_ok() && may(&mut c, "LOCK.FENCE lock:k")
}

#[test]
fn without_an_aclfile_config_rewrite_keeps_the_users() {
    let mut server = Server::start();
    run(&mut server.connection(), rule("application")).okay();
    assert!(knows_the_application(&server));
    server.restart();
    assert!(!knows_the_application(&server));

    let mut c = server.connection();
    run(&mut c, rule("application")).okay();
    run(&mut c, "ACL SAVE").refused("ERR");
    run(&mut c, "CONFIG REWRITE").okay();
    server.restart();
    assert!(knows_the_application(&server));

    // The users before the module.
    let conf = server.dir().join("redis.conf");
    let text = fs::read_to_string(&conf).expect("redis.conf");
    let (users, rest): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("user "));
    assert!(!users.is_empty());
    fs::write(&conf, users.join("\n") + "\n" + &rest.join("\n") + "\n").expect("written");
    server.restart();
    assert!(knows_the_application(&server));
}

#[test]
fn with_an_aclfile_acl_save_keeps_the_users() {
    let mut server = Server::start();
    let file = server.dir().join("users.acl");
    let setting = file.display().to_string();
    let refusal = server
        .reconfigure(|it| it.config("aclfile", &setting))
        .try_restart();
    assert!(refusal.is_err(), "it must exist");
    fs::write(&file, "").expect("an empty file");
    server.restart();

    let mut c = server.connection();
    run(&mut c, rule("application")).okay();
    run(&mut c, "CONFIG REWRITE").okay();
    server.restart();
    assert!(!knows_the_application(&server));

    let mut c = server.connection();
    run(&mut c, rule("application")).okay();
    run(&mut c, "ACL SAVE").okay();
    server.restart();
    assert!(knows_the_application(&server));
}

/// What the server answers the application, if it does: a Sentinel closes its connections.
fn answer(server: &Server, words: &str) -> Option<Value> {
    let url = format!("redis://application:secret@127.0.0.1:{}/", server.port());
    let client = testbed::redis::Client::open(url).expect("an address");
    line(words).query(&mut client.get_connection().ok()?).ok()
}

#[test]
fn replicas_and_sentinels_go_on_without_the_default_user() {
    let all = Sentinels::start(1, 1);
    let mut sentinel = all.sentinels()[0].connection();
    run(&mut sentinel, rule("discovery")).okay();
    for (setting, value) in [("auth-user", "sentinel"), ("auth-pass", "secret")] {
        cmd!(sentinel, "SENTINEL", "SET", NAME, setting, value).okay();
    }
    for server in all.servers() {
        let mut c = server.connection();
        for name in ["application", "administrator", "replica", "sentinel"] {
            run(&mut c, rule(name)).okay();
        }
        run(&mut c, "CONFIG SET masteruser replica").okay();
        run(&mut c, "CONFIG SET masterauth secret").okay();
        cmd!(c, "ACL", "LOG", "RESET").okay();
        run(&mut c, "ACL SETUSER default off").okay();
        // Whoever is connected already stays so: now all come again.
        for kind in ["replica", "master", "normal", "pubsub"] {
            cmd!(c, "CLIENT", "KILL", "TYPE", kind).int();
        }
    }

    let before = all.primary();
    answer(all.server(before), "LOCK.ACQUIRE lock:k a PX 600000").expect("a grant");
    let holds = |server| matches!(answer(server, "LOCK.INFO lock:k"), Some(Value::Array(_)));
    let is_free = |server| answer(server, "LOCK.INFO lock:k") == Some(Value::Nil);
    for server in all.servers() {
        eventually(|| holds(server), "the lock to be everywhere");
    }
    let mut discovery = all.sentinels()[0].connection_as("discovery", "secret");
    cmd!(discovery, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME).items();
    // Refused until the Sentinel has heard of the replica again.
    let mut begins = || cmd!(sentinel, "SENTINEL", "FAILOVER", NAME).is_ok();
    eventually(&mut begins, "a failover to begin");
    eventually(|| all.primary() != before, "another primary");
    let now = all.server(all.primary());
    let release = || answer(now, "LOCK.RELEASE lock:k a").is_some();
    eventually(release, "the new primary to take it");
    // The Sentinel leaves it alone for some ten seconds.
    let follows = || is_free(all.server(before));
    within(Duration::from_secs(60), follows, "the old one to follow it");
    for server in all.servers() {
        let mut c = server.connection_as("administrator", "secret");
        assert_eq!(run(&mut c, "ACL LOG").items(), []);
    }

    // And the Sentinel's own users over a restart.
    run(&mut sentinel, "SENTINEL FLUSHCONFIG").okay();
    let mut all = all;
    all.sentinel_mut(0).restart();
    all.sentinels()[0].connection_as("discovery", "secret");
}
