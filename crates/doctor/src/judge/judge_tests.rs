//! The judging, on facts made by hand.

mod limits;

use super::judge;
use crate::facts::{Clock, Facts, Module, Node, Programs, Stuck, Watched, Write};
use crate::files::Files;
use crate::finding::{Finding, Severity, Unseen};
use crate::report::Report;
use redis_lock_tool::{Names, Program};

const INFO: &str = "config_file:/etc/redis.conf redis_version:7.0.15 role:master cluster_enabled:0 master_replid:abc connected_slaves:0 \
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

fn fields(text: &str) -> Names {
    let pairs = text
        .split_whitespace()
        .filter_map(|pair| pair.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn lock(version: u32) -> Module {
    Module {
        name: "lock".to_owned(),
        version,
        path: None,
    }
}

fn healthy(address: &str) -> Node {
    Node {
        address: address.to_owned(),
        info: Ok(fields(INFO)),
        modules: Ok(vec![lock(200)]),
        config: Ok(fields(CONFIG)),
        absent: Ok([].into()),
        clock: Ok(Clock {
            ahead_ms: 0,
            inexact_ms: 1,
        }),
        slow: Ok(vec![]),
        spikes: Ok(vec![]),
        users: Ok(vec![]),
        programs: Ok(Programs::default()),
        files: Some(Files {
            own: "/etc/redis.conf".to_owned(),
            loads: vec!["lock.so".to_owned()],
            included: vec![],
        }),
        open: Ok(false),
        write: Ok(Write::Taken),
        cluster: Ok(Names::new()),
    }
}

/// A healthy server, but for these fields: of `INFO` where that has them, else settings.
fn but(changes: &str) -> Node {
    let mut node = healthy("a:1");
    for (name, value) in fields(changes) {
        let is_setting = node
            .config
            .as_ref()
            .is_ok_and(|config| config.contains_key(&name));
        let place = if is_setting {
            &mut node.config
        } else {
            &mut node.info
        };
        place.as_mut().expect("facts").insert(name, value);
    }
    node
}

fn of(nodes: Vec<Node>) -> Vec<Finding> {
    judge(&Facts {
        nodes,
        ..Facts::default()
    })
}

/// The worst that a check says of these servers.
fn worst(nodes: Vec<Node>, check: &str) -> Option<Severity> {
    worst_of(&of(nodes), check)
}

fn worst_of(findings: &[Finding], check: &str) -> Option<Severity> {
    let own = findings.iter().filter(|one| one.check == check);
    own.map(|one| one.severity).min()
}

#[test]
fn there_is_nothing_to_say_of_a_healthy_server() {
    let findings = of(vec![healthy("a:1")]);
    let mut findings = findings.iter();
    let bad = findings.find(|one| one.severity != Severity::Ok || !one.fix.is_empty());
    assert!(bad.is_none(), "{bad:?}");
}

#[test]
fn stalls_of_a_second_count() {
    use Severity::{Ok as Fine, Warning};
    for (ms, severity) in [(999, Fine), (1000, Warning)] {
        for check in ["slow-commands", "latency"] {
            let seen = || Ok(vec![("KEYS".to_owned(), ms)]);
            let node = Node {
                slow: seen(),
                spikes: seen(),
                ..healthy("a:1")
            };
            assert_eq!(worst(vec![node], check), Some(severity));
        }
    }
}

fn replica(ahead_ms: i64, version: u32) -> Node {
    Node {
        address: "b:2".to_owned(),
        clock: Ok(Clock {
            ahead_ms,
            inexact_ms: 1,
        }),
        modules: Ok(vec![lock(version)]),
        ..but("role:slave master_link_status:up")
    }
}

#[test]
fn clocks_are_judged_by_what_is_sure() {
    use Severity::{Error, Ok, Warning};
    for (ahead, severity) in [
        (335, Ok),
        (336, Warning),
        (-336, Warning),
        (-5002, Warning),
        (-5003, Error),
        (60_000, Warning),
    ] {
        let nodes = vec![healthy("a:1"), replica(ahead, 200)];
        assert_eq!(worst(nodes, "clock-replica"), Some(severity), "{ahead}");
    }
    assert_eq!(worst(vec![replica(1001, 200)], "clock-here"), Some(Ok));
    assert_eq!(
        worst(vec![replica(-1002, 200)], "clock-here"),
        Some(Warning)
    );
    // Nothing is known of a primary that was not checked.
    assert_eq!(worst(vec![replica(60_000, 200)], "clock-replica"), None);
}

#[test]
fn versions_are_judged_by_who_follows_whom() {
    use Severity::{Error, Ok, Warning};
    let of = |theirs| worst(vec![healthy("a:1"), replica(0, theirs)], "version");
    assert_eq!(
        [of(100), of(200), of(201)],
        [Some(Error), Some(Ok), Some(Warning)]
    );
    let other = Node {
        modules: Result::Ok(vec![lock(201)]),
        ..healthy("c:3")
    };
    assert_eq!(worst(vec![healthy("a:1"), other], "version"), Some(Warning));
}

#[test]
fn a_sentinel_tells_of_the_failover() {
    use Severity::{Error, Ok, Warning};
    let waits = |ms: u32| format!("flags:master down-after-milliseconds:{ms}");
    for (fields_of, problem, check, severity) in [
        (waits(20_000), None, "sentinel", Ok),
        ("flags:s_down,master".to_owned(), None, "sentinel", Error),
        (waits(20_000), Some("NOQUORUM"), "sentinel", Error),
        (waits(4999), None, "sentinel", Warning),
        (waits(5001), None, "token-lead", Ok),
        (waits(5000), None, "token-lead", Warning),
        (waits(29_999), None, "lease", Ok),
        (waits(30_000), None, "lease", Warning),
    ] {
        let watched = Watched {
            sentinel: "s:1".to_owned(),
            name: "lock".to_owned(),
            fields: fields(&fields_of),
            quorum: Result::Ok(problem.map(str::to_owned)),
        };
        let findings = judge(&Facts {
            nodes: vec![healthy("a:1")],
            watched: vec![watched],
            ..Facts::default()
        });
        let worst = worst_of(&findings, check);
        assert_eq!(worst, Some(severity), "{check}: {fields_of}");
    }
}

#[test]
fn programs_that_do_not_poll_are_told_of_one_by_one() {
    let stuck = |id, client_id| Stuck {
        program: Program {
            id,
            client_id,
            idle_ms: 2000,
            grants: 1,
            name: b"checkout\x1b".to_vec(),
            ..Program::default()
        },
        holds: vec!["lock:a".to_owned()],
        waits: vec![],
    };
    let mut node = healthy("a:1");
    node.programs = Ok(Programs {
        all: vec![],
        stuck: (1..=12).map(|id| stuck(id, id % 2)).collect(),
    });
    let findings = of(vec![node]);
    let found = findings.iter().filter(|one| one.check == "programs");
    let seen: Vec<_> = found.map(|one| one.seen.as_str()).collect();
    assert_eq!(seen.len(), 11);
    for (number, part) in [
        (0, "checkout\\x1b (session 1,"),
        (0, "is frozen"),
        (1, "is detached"),
        (1, "holds 1 (lock:a)"),
        // Nobody may acquire locks on this server.
        (1, "lacks LOCK.ACQUIRE"),
        (10, "2 more programs"),
    ] {
        assert!(seen[number].contains(part), "{part}: {seen:?}");
    }
}

#[test]
fn clients_by_tls_go_astray_on_redis_7_0_alone() {
    for (version, astray) in [("7.0.15", true), ("7.2.4", false), ("8.2.3", false)] {
        let changes = format!("cluster_enabled:1 tls-port:6380 redis_version:{version}");
        let findings = of(vec![but(&changes)]);
        let mut tls = findings.iter().filter(|one| one.check == "tls");
        let says_so = tls.any(|one| one.seen.contains("ports without TLS"));
        assert_eq!(says_so, astray, "{version}");
    }
}

#[test]
fn what_could_not_be_seen_is_never_called_fine() {
    let mut node = healthy("a:1");
    node.config = Err(Unseen::new("refused"));
    let facts = Facts {
        nodes: vec![node],
        ..Facts::default()
    };
    let findings = judge(&facts);
    // One reason is told once, with all that it stopped.
    let text = Report::new(&facts, findings.clone()).text(false);
    for part in ["NOT CHECKED: persistence, ", "refused"] {
        assert_eq!(text.matches(part).count(), 1, "{text}");
    }
    for check in ["persistence", "timeout", "keepalive", "settings", "scripts"] {
        let worst = worst_of(&findings, check);
        assert_eq!(worst, Some(Severity::NotChecked), "{check}");
    }
    let blind = Node {
        address: "a:1".to_owned(),
        ..Node::default()
    };
    for finding in of(vec![blind]) {
        assert_eq!(finding.severity, Severity::NotChecked, "{finding:?}");
    }
}

#[test]
fn the_worst_is_first_and_decides_how_it_ends() {
    let report = |nodes: Vec<Node>| {
        let facts = Facts {
            nodes,
            ..Facts::default()
        };
        Report::new(&facts, judge(&facts))
    };
    let mut blind = healthy("b:2");
    blind.slow = Err(Unseen::new("refused"));
    let exits = [
        report(vec![healthy("a:1")]).exit,
        report(vec![but("tcp-keepalive:0")]).exit,
        report(vec![but("tcp-keepalive:0"), but("aof_enabled:0")]).exit,
        report(vec![healthy("a:1"), blind]).exit,
    ];
    assert_eq!(exits, [0, 1, 2, 3]);
    let (mut here, mut there) = (but("tcp-keepalive:0"), but("tcp-keepalive:0"));
    here.write = Ok(Write::Held);
    there.address = "b:2".to_owned();
    let text = report(vec![here, there]).text(false);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}"));
    assert!(at("ERROR: writes on a:1\n") < at("WARNING: keepalive on a:1, b:2\n"));
    at("  fix   redis-cli> CONFIG SET tcp-keepalive 10\n        redis.conf: tcp-keepalive 10\n");
    at("\nerrors: 1, warnings: 1, not checked: 0, advice: 0\n");
}
