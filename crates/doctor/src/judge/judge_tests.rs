//! Tests of the checks on handmade facts.

use super::judge;
use crate::facts::{Clock, Facts, Module, Node, Session, Watched, Write};
use crate::finding::{Finding, Severity, Unseen, unseen};
use crate::report::Report;
use redis_lock_tool::{Names, Program, pairs};

const INFO: &str = "config_file: redis_version:7.0.15 role:master cluster_enabled:0 master_replid:abc connected_slaves:0 \
    aof_enabled:1 aof_last_write_status:ok aof_last_bgrewrite_status:ok rdb_last_bgsave_status:ok \
    maxmemory:1000000000 maxmemory_policy:noeviction used_memory:1000000 evicted_keys:0 maxclients:10000 \
    connected_clients:10 rejected_connections:0 lock_held:1 lock_waiting:0 lock_queued:0 lock_longest_queue:0 \
    master_failover_state:no-failover";
const CONFIG: &str = "appendfsync:always save: timeout:0 tcp-keepalive:10 protected-mode:no tls-port:0 \
    tls-cluster:no cluster-node-timeout:15000 cluster-require-full-coverage:no \
    cluster-allow-reads-when-down:no replica-read-only:yes min-replicas-to-write:0 min-replicas-max-lag:10 \
    busy-reply-threshold:5000 slowlog-log-slower-than:10000 latency-monitor-threshold:100 \
    stop-writes-on-bgsave-error:yes dir:/data lock.default-lease-ms:30000 lock.max-lease-ms:315360000000 \
    lock.max-waiters:10000 lock.max-waiters-total:5000 lock.max-holders:10000 lock.max-token-lead-ms:5000 \
    lock.max-queued:1000 lock.max-sessions:10000 \
    lock.deadlock-detection:yes";

/// Each row is a check, its most severe finding, and the servers.
const ROWS: &[&str] = &[
    "persistence Fine: appendfsync:everysec",
    "save Warning: rdb_last_bgsave_status:err save:900 stop-writes-on-bgsave-error:no",
    "aof Warning: aof_last_bgrewrite_status:err",
    "memory Error: used_memory:1000000000",
    "memory Fine: used_memory:1000000000 mem_not_counted_for_evict:200000000",
    "memory Warning: used_memory:900000001",
    "memory Fine: used_memory:900000000",
    "waiters-memory Fine: used_memory:820000000",
    "waiters-memory Warning: used_memory:820000001",
    // Calls that wait already have their memory.
    "waiters-memory Fine: used_memory:820000001 lock_waiting:1",
    "waiters-memory Warning: maxmemory:0 total_system_memory:100000000",
    "timeout Fine: timeout:300",
    "keepalive Fine: tcp-keepalive:60",
    "keepalive Advice: tcp-keepalive:61",
    "clients Fine: connected_clients:9000",
    "clients Error: connected_clients:9001",
    "waiters-connections Fine: maxclients:6667",
    // A low value that was chosen is fine, but not one that the limit of open files has caused.
    "waiters-connections Fine: maxclients:4000",
    "waiters-connections Warning: maxclients:4064",
    "queued Fine: lock_queued:2 lock.max-queued:4",
    "queued Error: lock_queued:4 lock.max-queued:4",
    "queued Fine: lock_queued:18 lock.max-queued:20",
    "queued Warning: lock_queued:19 lock.max-queued:20",
    "queued Fine: lock_queued:900",
    "queued Warning: lock_queued:901",
    "queued Error: lock_queued:1000",
    "queued Fine: lock_longest_queue:9000",
    "queued Warning: lock_longest_queue:9001",
    "queued Error: lock_longest_queue:10000",
    "enough-replicas Fine: connected_slaves:1",
    "enough-replicas Advice: connected_slaves:2",
    "enough-replicas Fine: connected_slaves:2 min-replicas-to-write:1",
    "enough-replicas Advice: connected_slaves:2 min-replicas-to-write:1 min-replicas-max-lag:0",
    "lag Fine: slave0:ip=b,port=2,state=online,lag=1",
    "lag Warning: slave0:ip=b,port=2,state=online,lag=2",
    "lag Warning: slave0:ip=b,port=2,state=wait_bgsave,lag=0",
    "token-lead Fine: cluster_enabled:1 cluster-node-timeout:5001",
    "token-lead Warning: cluster_enabled:1 cluster-node-timeout:5000",
    "lease Warning: cluster_enabled:1 cluster-node-timeout:30000",
    "tls Fine: tls-port:6380",
    "settings Warning: lock.default-lease-ms:999",
    "settings Fine: lock.default-lease-ms:1000",
    "settings Fine: lock.default-lease-ms:600000",
    "settings Warning: lock.default-lease-ms:600001",
    "scripts Fine: busy-reply-threshold:29999",
    "scripts Warning: busy-reply-threshold:30000",
    "slow-commands Fine: slowlog-log-slower-than:1000000",
    "slow-commands Warning: slowlog-log-slower-than:1000001",
    "server Error: redis_version:6.2.14",
    "server Fine: redis_version:7.2.4 valkey_version:8.1.8",
    "version Error: ; role:slave module:100",
    "version Fine: ; role:slave",
    "version Warning: ; role:slave module:201",
    "version Warning: ; module:201 master_replid:other",
    "commands Warning: absent:config cluster_enabled:1",
    "writes Error: write:held",
    // Clocks are measured to a millisecond, so only a certain difference counts.
    "clock-replica Fine: ; role:slave ahead:335",
    "clock-replica Warning: ; role:slave ahead:336",
    "clock-replica Warning: ; role:slave ahead:-336",
    "clock-replica Warning: ; role:slave ahead:-5002",
    "clock-replica Error: ; role:slave ahead:-5003",
    "clock-replica Warning: ; role:slave ahead:60000",
    "clock-here Fine: ahead:1001",
    "clock-here Warning: ahead:-1002",
    "sentinel Fine: down-after-milliseconds:5000",
    "sentinel Warning: down-after-milliseconds:4999",
    "sentinel Error: flags:s_down,master",
    "token-lead Fine: down-after-milliseconds:5001",
    "token-lead Warning: down-after-milliseconds:5000",
    "lease Fine: down-after-milliseconds:29999",
    "lease Warning: down-after-milliseconds:30000",
    "slow-commands Fine: stall:999",
    "slow-commands Warning: stall:1000",
    "latency Fine: stall:999",
    "latency Warning: stall:1000",
];

fn fields(text: &str) -> Names {
    pairs(text.split_whitespace(), ':')
}

fn healthy(address: &str) -> Node {
    let module = Module {
        name: "lock".to_owned(),
        version: 200,
        path: None,
    };
    Node {
        address: address.to_owned(),
        info: Ok(fields(INFO)),
        modules: Ok(vec![module]),
        config: Ok(fields(CONFIG)),
        absent: Ok([].into()),
        clock: Ok(Clock {
            ahead_ms: 0,
            inexact_ms: 1,
        }),
        slow: Ok(vec![]),
        spikes: Ok(vec![]),
        users: Ok(vec![]),
        sessions: Ok(vec![]),
        files: None,
        open: Ok(false),
        write: Ok(Write::Taken),
        cluster: Err(Unseen::Absent),
        cluster_nodes: None,
    }
}

/// A program that does not poll its session.
fn stuck(id: i64) -> Session {
    Session {
        program: Program {
            id,
            client_id: id % 2,
            idle_ms: 2000,
            grants: 1,
            name: b"checkout\x1b".to_vec(),
            ..Program::default()
        },
        holds: vec!["lock:a".to_owned()],
        waits: vec![],
    }
}

/// A healthy server with these changes: facts that are named here, settings, or else fields of `INFO`.
fn but(address: &str, changes: &str) -> Node {
    let mut node = healthy(address);
    for (name, value) in fields(changes) {
        let stall = || Ok(vec![("KEYS".to_owned(), value.parse().expect("a time"))]);
        match name.as_str() {
            "module" => {
                node.modules.as_mut().expect("modules")[0].version =
                    value.parse().expect("a number");
            }
            "ahead" => node.clock.as_mut().expect("a clock").ahead_ms = value.parse().expect("ms"),
            "stall" => (node.slow, node.spikes) = (stall(), stall()),
            "absent" => node.absent = Ok([value].into()),
            "write" => node.write = Ok(Write::Held),
            _ => {
                let is_setting = node.setting(&name).is_ok();
                let facts = if is_setting {
                    &mut node.config
                } else {
                    &mut node.info
                };
                facts.as_mut().expect("fields").insert(name, value);
            }
        }
    }
    if node.in_cluster() {
        node.cluster = Ok(fields("cluster_state:fail"));
    }
    node
}

/// Servers with these changes, separated by semicolons, and a Sentinel that watches them.
fn facts(changes: &str) -> Facts {
    let addresses = ["a:1", "b:2"].into_iter();
    let nodes = addresses.zip(changes.split(';'));
    let fields = fields(changes);
    Facts {
        nodes: nodes
            .map(|(address, changes)| but(address, changes))
            .collect(),
        watched: vec![Watched {
            sentinel: "s:1".to_owned(),
            name: "lock".to_owned(),
            quorum: Ok(fields.get("quorum").cloned()),
            fields,
        }],
        ..Facts::default()
    }
}

/// The most severe finding of a check.
fn worst_of(findings: &[Finding], check: &str) -> Option<Severity> {
    let own = findings.iter().filter(|one| one.check == check);
    own.map(|one| one.severity).min()
}

#[test]
fn there_is_nothing_to_say_of_a_healthy_server() {
    let findings = judge(&facts(""));
    let mut findings = findings.iter();
    let bad = findings.find(|one| one.severity != Severity::Fine || !one.fix.is_empty());
    assert!(bad.is_none(), "{bad:?}");
}

#[test]
fn each_check_finds_what_the_page_says_and_from_that_limit_on() {
    for row in ROWS {
        let (verdict, changes) = row.split_once(": ").expect("a verdict");
        let (check, severity) = verdict.split_once(' ').expect("a severity");
        let found = worst_of(&judge(&facts(changes)), check);
        assert_eq!(format!("{found:?}"), format!("Some({severity})"), "{row}");
    }
    // Nothing is known of a primary that was not checked.
    let alone = judge(&facts("role:slave ahead:60000"));
    assert_eq!(worst_of(&alone, "clock-replica"), None);
}

#[test]
fn programs_that_do_not_poll_are_told_of_one_by_one() {
    let mut facts = facts("");
    facts.nodes[0].sessions = Ok((1..=12).map(stuck).collect());
    let findings = judge(&facts);
    let found = findings.iter().filter(|one| one.check == "programs");
    let seen: Vec<_> = found.map(|one| one.seen.as_str()).collect();
    assert_eq!(seen.len(), 11);
    for (number, part) in [
        (0, "checkout\\x1b (session 1,"),
        (0, "is frozen"),
        (1, "is detached"),
        (1, "holds 1 (lock:a)"),
        // No user may acquire locks on this server.
        (1, "lacks LOCK.ACQUIRE"),
        (10, "2 more programs"),
    ] {
        assert!(seen[number].contains(part), "{part}: {seen:?}");
    }
}

#[test]
fn what_could_not_be_seen_is_never_called_fine() {
    let mut facts = facts("");
    facts.nodes[0].config = Err(unseen("refused"));
    let findings = judge(&facts);
    // Each reason is reported once, with all checks that it prevented.
    let text = Report::new(&facts, findings.clone()).text(false);
    for part in ["NOT CHECKED: persistence, ", "refused"] {
        assert_eq!(text.matches(part).count(), 1, "{text}");
    }
    for check in ["persistence", "timeout", "keepalive", "settings", "scripts"] {
        let worst = worst_of(&findings, check);
        assert_eq!(worst, Some(Severity::NotChecked), "{check}");
    }
}

#[test]
fn the_worst_is_first_and_decides_how_it_ends() {
    let report = |facts: &Facts| Report::new(facts, judge(facts));
    let mut blind = facts("");
    blind.nodes[0].slow = Err(unseen("refused"));
    let exits = [
        report(&facts("")).exit,
        report(&facts("tcp-keepalive:0")).exit,
        report(&facts("tcp-keepalive:0 ; aof_enabled:0")).exit,
        report(&blind).exit,
    ];
    assert_eq!(exits, [0, 1, 2, 3]);
    let text = report(&facts("tcp-keepalive:0 write:held ; tcp-keepalive:0")).text(false);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}"));
    assert!(at("ERROR: writes on a:1\n") < at("WARNING: keepalive on a:1, b:2\n"));
    at("  fix   redis-cli> CONFIG SET tcp-keepalive 10\n        redis.conf: tcp-keepalive 10\n");
    at("\nerrors: 1, warnings: 1, not checked: 0, advice: 0\n");
}
