//! Settings of a lone server.

use crate::support::{by_settings, doctor, gone, healthy, look, program};
use testbed::redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, post};

#[test]
fn a_healthy_server_is_fine() {
    let server = healthy().start();
    let report = look(&server);
    report.fine();
    let told = program(&["--port", &server.port().to_string()]);
    let told = String::from_utf8(told.stdout).expect("text");
    assert!(
        told.contains("errors: 0, warnings: 0, not looked at: 0, advice: 0"),
        "{told}"
    );
}

#[test]
fn a_server_with_the_default_settings_gets_advice_and_no_warning() {
    let server = Server::builder()
        .config("save", "3600 1 300 100 60 10000")
        .config("appendfsync", "everysec")
        .start();
    let report = look(&server);
    report.fine();
    for check in ["persistence", "keepalive"] {
        report
            .one(check, "advice")
            .run_first(&mut server.connection());
        gone(&server, check);
    }
}

#[test]
fn a_module_that_an_included_file_loads() {
    let mut server = healthy().start();
    let included = server.dir().join("included.conf");
    let line = format!("loadmodule {}\n", testbed::module::path().display());
    std::fs::write(&included, &line).expect("a file");
    let include = included.display().to_string();
    // A pattern finds it, too.
    for include in [include.as_str(), &include.replace("uded", "*")] {
        server
            .reconfigure(|_| {
                Server::builder()
                    .without_module()
                    .config("include", include)
            })
            .restart();
        let finding = look(&server).one("files", "warning");
        assert!(finding.seen().contains("included.conf"), "{finding:?}");
    }
    cmd!(server.connection(), "CONFIG", "REWRITE").okay();
    let finding = look(&server).one("files", "error");
    assert!(finding.seen().contains("both load"), "{finding:?}");
    std::fs::write(&included, "").expect("the file");
    gone(&server, "files");
}

#[test]
fn persistence_that_loses_locks() {
    by_settings("persistence", "error", &[("appendonly", "no")]);
    by_settings(
        "persistence",
        "advice",
        &[("appendonly", "no"), ("save", "900 1")],
    );
    by_settings("persistence", "warning", &[("appendfsync", "no")]);
    let server = healthy().config("appendfsync", "everysec").start();
    let report = look(&server);
    report.fine();
    let said = &report.of("persistence", |_| true)[0];
    assert!(said.seen().contains("about a second"), "{said:?}");
    said.run_first(&mut server.connection());
    let said = &look(&server).of("persistence", |_| true)[0];
    assert!(said.seen().contains("loses nothing"), "{said:?}");
}

#[test]
fn policies_that_evict_locks() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let full = [("maxmemory", "500mb"), ("maxmemory-policy", policy)];
        by_settings("eviction", "error", &full);
        by_settings("eviction", "warning", &full[1..]);
    }
}

#[test]
fn keys_that_were_evicted() {
    let server = healthy()
        .config("maxmemory", "8mb")
        .config("maxmemory-policy", "allkeys-lru")
        .start();
    let mut c = server.connection();
    for number in 0..40 {
        cmd!(c, "SET", format!("k{number}"), "x".repeat(500_000)).okay();
    }
    let finding = look(&server).one("evicted", "warning");
    finding.run_all(&mut c);
    gone(&server, "evicted");
    gone(&server, "eviction");
}

#[test]
fn memory_that_is_full_or_too_small_for_waiters() {
    by_settings(
        "memory",
        "error",
        &[
            ("maxmemory", "500kb"),
            ("appendonly", "no"),
            ("save", "900 1"),
        ],
    );
    by_settings("waiters-memory", "warning", &[("maxmemory", "100mb")]);
}

#[test]
fn connections_that_are_closed_too_late() {
    by_settings("keepalive", "warning", &[("tcp-keepalive", "0")]);
    by_settings("keepalive", "advice", &[("tcp-keepalive", "300")]);
}

#[test]
fn a_timeout_closes_the_connection_of_a_session_that_does_not_poll() {
    let server = healthy().config("timeout", "1").start();
    let finding = &look(&server).of("timeout", |severity| severity == "ok")[0];
    assert!(finding.seen().contains("does not poll"), "{finding:?}");
    let [mut polls, mut idles, mut waiter] = [(); 3].map(|()| server.connection());
    let open = |c: &mut Connection, key: &str, lease_ms: u32| {
        let session = cmd!(*c, "LOCK.SESSION", "OPEN", "TIMEOUT", 60_000).int();
        cmd!(
            *c,
            "LOCK.ACQUIRE",
            key,
            "a",
            "PX",
            lease_ms,
            "SESSION",
            session
        )
        .grant();
        session
    };
    let session = open(&mut polls, "polled", 60_000);
    open(&mut idles, "idle", 2000);
    post!(
        waiter,
        "LOCK.ACQUIRE",
        "idle",
        "b",
        "PX",
        60_000,
        "BLOCK",
        0
    );
    post!(polls, "LOCK.SESSION", "POLL", session, "BLOCK", 60_000);
    // The idle connection is closed, so its lease ends. The waiter and the POLL are still there.
    assert_eq!(waiter.receive().grant().owner, b"b");
    let detached = || server.info_field("lock", "lock_sessions_detached");
    assert_eq!(detached(), "1");
    cmd!(server.connection(), "DEL", "polled").int();
    assert_eq!(polls.receive().fields()["events"].clone().items().len(), 1);
}

#[test]
fn connections_that_are_used_up() {
    let server = healthy()
        .config("maxclients", "20")
        .config("lock.max-waiters-total", "5")
        .start();
    let mut c = server.connection();
    let most: Vec<_> = (0..17).map(|_| server.connection()).collect();
    let finding = look(&server).one("clients", "error");
    drop(most);
    let few = || look(&server).bad("clients").is_empty();
    eventually(few, "the connections to close");
    let _all: Vec<_> = (0..19).map(|_| server.connection()).collect();
    let refused = doctor(&["--port", &server.port().to_string()]);
    assert_eq!(refused.exit, 3, "{:#}", refused.json);
    finding.run_first(&mut c);
    let finding = look(&server).one("clients", "warning");
    finding.run_all(&mut c);
    gone(&server, "clients");
}

#[test]
fn a_limit_of_open_files_that_lowers_maxclients() {
    let mut server = healthy().start();
    let program = server.dir().join("limited");
    let real = testbed::module::server_program();
    let script = |files: u32| {
        format!(
            "#!/bin/sh\nulimit -n {files}\nexec {} \"$@\"\n",
            real.display()
        )
    };
    write_script(&program, &script(1024));
    server
        .reconfigure(|settings| settings.program(&program))
        .restart();
    let finding = look(&server).one("waiters-connections", "warning");
    assert!(
        finding.seen().contains("maxclients 992") && finding.seen().contains("open files"),
        "{finding:?}"
    );
    let files = finding.lines("do")[0]
        .split("LimitNOFILE=")
        .nth(1)
        .expect("a number");
    let files = files
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number");
    write_script(&program, &script(files));
    let lines = finding.lines("conf");
    let most = lines
        .iter()
        .find_map(|line| line.strip_prefix("maxclients "));
    let most = most.expect("a line").to_owned();
    server
        .reconfigure(|settings| settings.config("maxclients", &most))
        .restart();
    gone(&server, "waiters-connections");
}

fn write_script(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("a script");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a program");
}

#[test]
fn settings_of_the_module_that_nobody_should_mean() {
    for (name, value) in [
        ("lock.max-waiters", "0"),
        ("lock.max-waiters-total", "0"),
        ("lock.max-queued", "0"),
        ("lock.max-sessions", "0"),
        ("lock.default-lease-ms", "200"),
        ("lock.default-lease-ms", "3600000"),
        ("lock.max-lease-ms", "20000"),
        ("lock.deadlock-detection", "no"),
        ("lock.max-holders", "1"),
        ("lock.max-token-lead-ms", "0"),
    ] {
        by_settings("settings", "warning", &[(name, value)]);
    }
}

#[test]
fn queued_calls_up_to_their_limit() {
    let server = healthy().config("lock.max-queued", "2").start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
    let session = cmd!(c, "LOCK.SESSION", "OPEN").int();
    for owner in ["a", "b"] {
        let call = cmd!(
            c,
            "LOCK.ACQUIRE",
            "k",
            owner,
            "HOLDS",
            1,
            "SESSION",
            session,
            "QUEUE",
            0
        );
        call.int();
    }
    let report = look(&server);
    assert_eq!(report.json["servers"][0]["queued"], 2, "{:#}", report.json);
    report.one("queued", "error").run_all(&mut c);
    gone(&server, "queued");
}

#[test]
fn stalls_that_are_noted_or_are_not() {
    by_settings(
        "slow-commands",
        "warning",
        &[("slowlog-log-slower-than", "-1")],
    );
    by_settings("scripts", "warning", &[("busy-reply-threshold", "0")]);
    by_settings("scripts", "warning", &[("busy-reply-threshold", "60000")]);
    let server = healthy().config("latency-monitor-threshold", "100").start();
    let mut c = server.connection();
    cmd!(c, "DEBUG", "SLEEP", "1.1").okay();
    let report = look(&server);
    let finding = report.one("slow-commands", "warning");
    assert!(finding.seen().contains("DEBUG took 1"), "{finding:?}");
    finding.run_all(&mut c);
    gone(&server, "slow-commands");
    report.one("latency", "warning").run_all(&mut c);
    gone(&server, "latency");
}

#[test]
fn a_module_that_is_not_loaded() {
    let mut server = Server::builder()
        .config("tcp-keepalive", "10")
        .config("appendonly", "yes")
        .without_module()
        .start();
    let finding = look(&server).one("module", "error");
    assert_eq!(
        finding.lines("conf"),
        ["loadmodule /usr/local/lib/redis/modules/libredis_lock.so"]
    );
    server.reconfigure(testbed::Builder::with_module).restart();
    gone(&server, "module");
}

#[test]
fn commands_that_are_renamed() {
    for (command, hurts) in [
        ("CLIENT", true),
        ("WAIT", true),
        ("RESTORE", false),
        ("CONFIG", false),
    ] {
        let other = format!("{command} OTHER");
        let mut server = healthy().config("rename-command", &other).start();
        let report = look(&server);
        assert_eq!(
            !report.bad("commands").is_empty(),
            hurts,
            "{command}: {:#}",
            report.json
        );
        if command == "CONFIG" {
            let unseen = report.unseen();
            assert!(
                unseen.iter().any(|one| one.seen().contains("CONFIG GET")),
                "{unseen:?}"
            );
        }
        let line = format!("rename-command {command}");
        assert!(!hurts || report.one("commands", "warning").lines("do")[0].contains(&line));
        server.reconfigure(|_| healthy()).restart();
        gone(&server, "commands");
    }
    let server = healthy()
        .without_module()
        .config("rename-command", "DEL OTHER");
    // Its own settings are unknown without the module.
    let server = server.try_start();
    assert!(
        server.is_err(),
        "lock.* settings without the module are refused"
    );
    let server = Server::builder()
        .without_module()
        .config("rename-command", "DEL OTHER")
        .start();
    let finding = look(&server).one("module", "error");
    assert!(finding.seen().contains("DEL is renamed"), "{finding:?}");
}
