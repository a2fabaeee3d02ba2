//! A single server: its settings, and problems while it runs.

use crate::support::{Doctor, bare, each_is_found_and_fixed, healthy, program, starter};
use std::fs;
use testbed::redis::Connection;
use testbed::{Builder, Expect, Server, Talk, cmd, module, post, run};

#[test]
fn a_healthy_server_is_fine() {
    let server = healthy().start();
    Doctor::of(&server).looks().fine();
    let told = program(&["--port".to_owned(), server.port().to_string()]);
    let told = String::from_utf8(told.stdout).expect("text");
    let counts = "errors: 0, warnings: 0, not checked: 0, advice: 0";
    assert!(told.contains(counts), "{told}");
}

#[test]
fn a_server_with_the_default_settings_gets_advice_and_no_warning() {
    let server = Server::builder()
        .config("save", "3600 1 300 100 60 10000")
        .start();
    let report = Doctor::of(&server).looks();
    report.fine();
    for check in ["persistence", "keepalive"] {
        report.one(check, "advice");
    }
}

#[test]
fn settings_of_the_server() {
    each_is_found_and_fixed([
        "persistence error: appendonly no",
        "persistence advice: appendonly no, save 900 1",
        "persistence warning: appendfsync no",
        "eviction error: maxmemory 500mb, maxmemory-policy allkeys-lru",
        "eviction warning: maxmemory-policy volatile-ttl",
        "evicted warning: maxmemory 8mb, maxmemory-policy allkeys-lru; DEBUG POPULATE 40 k 500000; PING",
        "memory error: maxmemory 500kb, appendonly no, save 900 1",
        "waiters-memory warning: maxmemory 100mb",
        "keepalive warning: tcp-keepalive 0",
        "keepalive advice: tcp-keepalive 300",
        "cluster-coverage advice: cluster-enabled yes",
        "cluster-reads warning: cluster-enabled yes, cluster-allow-reads-when-down yes",
    ]);
}

#[test]
fn writes_and_stalls() {
    each_is_found_and_fixed([
        "writes error: ; CLIENT PAUSE 600000 WRITE",
        "writes error: min-replicas-to-write 1",
        "slow-commands warning: slowlog-log-slower-than -1",
        "slow-commands warning: ; DEBUG SLEEP 1.1",
        "latency warning: latency-monitor-threshold 100; DEBUG SLEEP 1.1",
        "scripts warning: busy-reply-threshold 0",
        "scripts warning: busy-reply-threshold 60000",
    ]);
}

#[test]
fn settings_of_the_module_that_are_mistakes() {
    each_is_found_and_fixed([
        "settings warning: lock.max-waiters 0",
        "settings warning: lock.max-waiters-total 0",
        "settings warning: lock.max-queued 0",
        "settings warning: lock.max-sessions 0",
        "settings warning: lock.default-lease-ms 200",
        "settings warning: lock.default-lease-ms 3600000",
        "settings warning: lock.max-lease-ms 20000",
        "settings warning: lock.deadlock-detection no",
        "settings warning: lock.max-holders 1",
        "settings warning: lock.max-token-lead-ms 0",
    ]);
}

#[test]
fn a_module_that_an_included_file_loads() {
    let mut server = healthy().start();
    let included = server.dir().join("included.conf");
    let line = format!("loadmodule {}\n", module::path().display());
    fs::write(&included, &line).expect("a file");
    let include = included.display().to_string();
    let doctor = Doctor::of(&server);
    // The file is also found through a pattern.
    for include in [&include, &include.replace("uded", "*")] {
        let settings = Server::builder().without_module();
        server
            .reconfigure(|_| settings.config("include", include))
            .restart();
        doctor.one("files", "warning").says("included.conf");
    }
    cmd!(server.connection(), "CONFIG", "REWRITE").okay();
    doctor.one("files", "error").says("both load");
    fs::write(&included, "").expect("the file");
    doctor.gone("files");
}

#[test]
fn a_timeout_closes_the_connection_of_a_session_that_does_not_poll() {
    let server = healthy().config("timeout", "1").start();
    let said = Doctor::of(&server).looks().said("timeout");
    assert_eq!(said.says("does not poll").0["severity"], "ok");
    let [mut polls, mut idles, mut waiter] = [(); 3].map(|()| server.connection());
    let open = |c: &mut Connection, key: &str, lease_ms: u32| {
        let session = cmd!(*c, "LOCK.SESSION", "OPEN", "TIMEOUT", 60_000).int();
        let line = format!("LOCK.ACQUIRE {key} a PX {lease_ms} SESSION {session}");
        run(c, &line).grant();
        session
    };
    let session = open(&mut polls, "polled", 60_000);
    open(&mut idles, "idle", 2000);
    waiter.post(&testbed::line("LOCK.ACQUIRE idle b PX 60000 BLOCK 0"));
    post!(polls, "LOCK.SESSION", "POLL", session, "BLOCK", 60_000);
    // The idle connection is closed, so its lease ends. The waiter and the POLL are still there.
    assert_eq!(waiter.receive().grant().owner, b"b");
    let detached = server.info_field("lock", "lock_sessions_detached");
    assert_eq!(detached, "1");
    cmd!(server.connection(), "DEL", "polled").int();
    assert_eq!(polls.receive().fields()["events"].clone().items().len(), 1);
}

#[test]
fn connections_that_are_used_up() {
    let server = healthy()
        .config("maxclients", "20")
        .config("lock.max-waiters-total", "5")
        .start();
    let doctor = Doctor::of(&server);
    let mut c = server.connection();
    let most: Vec<_> = (0..17).map(|_| server.connection()).collect();
    let finding = doctor.one("clients", "error");
    drop(most);
    doctor.gone("clients");
    let _all: Vec<_> = (0..19).map(|_| server.connection()).collect();
    let refused = doctor.looks();
    assert_eq!(refused.exit, 3, "{:#}", refused.json);
    run(&mut c, finding.line("run").expect("a command")).okay();
    doctor.one("clients", "warning").run_all(&server);
    doctor.gone("clients");
}

#[test]
fn a_limit_of_open_files_that_lowers_maxclients() {
    let mut server = healthy().start();
    let program = starter(&server, "ulimit -n 1024");
    server
        .reconfigure(|settings| settings.program(&program))
        .restart();
    let doctor = Doctor::of(&server);
    let finding = doctor.one("waiters-connections", "warning");
    let finding = finding.says("maxclients 992").says("open files");
    let advice = finding.line("do").expect("an instruction");
    let (_, files) = advice.rsplit_once(' ').expect("a number");
    starter(&server, &format!("ulimit -n {files}"));
    let lines = finding.lines("conf").into_iter();
    let mut most = lines.filter_map(|line| line.strip_prefix("maxclients "));
    let most = most.next().expect("a line").to_owned();
    server
        .reconfigure(|settings| settings.config("maxclients", &most))
        .restart();
    doctor.gone("waiters-connections");
}

#[test]
fn queued_calls_up_to_their_limit() {
    let server = healthy().config("lock.max-queued", "2").start();
    let mut c = server.connection();
    cmd!(c, "LOCK.ACQUIRE", "k", "holder", "EX", 60).grant();
    let session = cmd!(c, "LOCK.SESSION", "OPEN").int();
    for owner in ["a", "b"] {
        let line = format!("LOCK.ACQUIRE k {owner} HOLDS 1 SESSION {session} QUEUE 0");
        run(&mut c, &line).int();
    }
    let doctor = Doctor::of(&server);
    let report = doctor.looks();
    assert_eq!(report.servers()[0]["queued"], 2, "{:#}", report.json);
    report.one("queued", "error").run_all(&server);
    doctor.gone("queued");
}

#[test]
fn a_module_that_is_not_loaded() {
    let mut server = bare().config("appendonly", "yes").start();
    let doctor = Doctor::of(&server);
    let finding = doctor.one("module", "error");
    let line = "loadmodule /usr/local/lib/redis/modules/libredis_lock.so";
    assert_eq!(finding.lines("conf"), [line]);
    server.reconfigure(Builder::with_module).restart();
    doctor.gone("module");
    let server = bare().config("rename-command", "DEL OTHER").start();
    let finding = Doctor::of(&server).one("module", "error");
    finding.says("DEL is renamed");
}

#[test]
fn commands_that_are_renamed() {
    let renamed = |command: &str, in_cluster: &str| {
        let server = healthy().config("rename-command", &format!("{command} OTHER"));
        Doctor::of(&server.config("cluster-enabled", in_cluster).start()).looks()
    };
    for (command, in_cluster) in [
        ("CLIENT", "no"),
        ("WAIT", "no"),
        ("CONFIG", "yes"),
        ("CLUSTER", "yes"),
    ] {
        let report = renamed(command, in_cluster);
        let finding = report.one("commands", "warning").says(command);
        let line = format!("rename-command {command}");
        assert!(finding.lines("do")[0].contains(&line), "{finding:?}");
    }
    let report = renamed("CONFIG", "no");
    assert!(report.bad("commands").is_empty(), "{:#}", report.json);
    let unseen = report.unseen();
    assert!(unseen.iter().any(|one| one.seen().contains("CONFIG GET")));
}
