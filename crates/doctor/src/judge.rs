//! The checks, which turn facts into findings. `docs/doctor.md` has a row for each check, in the order of [`CHECKS`].

mod failover;
mod room;
mod server;
mod settings;
mod users;

#[cfg(test)]
mod judge_tests;

use crate::facts::{Facts, Node, Watched};
use crate::finding::{Finding, Judged, Severity, Unseen};
use Judge::{Among, Server, Unreached, Watching};
use settings::{of_cluster, of_replica, value};

/// A check: its name, what it judges, the source of its rule, and its purpose.
type Check = (&'static str, Judge, &'static str, &'static str);

/// The facts that a check judges one by one.
enum Judge {
    Server(fn(&Node) -> Judged),
    /// A server, compared with all others.
    Among(fn(&Facts, &Node) -> Judged),
    /// A Sentinel's view of a primary.
    Watching(fn(&Watched) -> Judged),
    /// A server that could not be asked, and why.
    Unreached(fn(&str) -> Judged),
}

#[rustfmt::skip]
const CHECKS: &[Check] = &[
    ("reach", Unreached(failover::reach), "docs/operations/failover.md#replicas",
        "a replica that was not checked may be the one that takes over"),
    ("module", Among(server::module), "docs/operations/failover.md#replicas",
        "without the module a primary has no locks, and a replica can neither load nor replicate them"),
    ("files", Server(server::files), "docs/install.md#loading-the-module",
        "CONFIG REWRITE copies the loadmodule line of an included file into the server's own, and a server that loads a module twice does not start"),
    ("version", Among(server::version), "docs/upgrade.md",
        "an older replica removes locks, or keeps old states of them, when it does not know what a newer primary sends"),
    ("server", Server(server::server), "README.md#supported-servers",
        "servers before Redis 7.0 lack parts of the module API"),
    ("neighbours", Server(server::neighbours), "docs/guarantees.md#how-it-is-tested",
        "other modules run in the same process, and can crash it"),
    ("commands", Server(server::commands), "docs/install.md#loading-the-module",
        "the module itself runs these commands, and programs use them"),
    ("persistence", Server(server::persistence), "docs/operations/persistence.md",
        "after a restart a lost grant is granted again while its owner still works: two owners"),
    ("save", Server(server::save), "docs/operations/persistence.md#a-failed-save-stops-renewals",
        "after a failed save the server refuses all writes: leases expire while their owners work"),
    ("aof", Server(server::aof), "docs/operations/persistence.md#a-failed-save-stops-renewals",
        "when the AOF cannot be written the server refuses all writes: leases expire while their owners work"),
    ("eviction", Server(room::eviction), "docs/operations/memory.md#eviction",
        "an evicted lock is granted to the next caller while its owner still works: two owners"),
    ("evicted", Server(room::evicted), "docs/operations/memory.md#eviction",
        "an evicted lock is granted to the next caller while its owner still works: two owners"),
    ("memory", Server(room::memory), "docs/operations/memory.md",
        "when memory is full no lock is granted; holders can still renew and release"),
    ("waiters-memory", Server(room::waiters_memory), "docs/operations/memory.md",
        "each blocked call takes 36 kB, which counts towards maxmemory"),
    ("timeout", Server(|node| value(node, "timeout")), "docs/operations/memory.md#clients-that-disappear",
        "a session whose polling connection is closed is not renewed until its program polls again"),
    ("keepalive", Server(|node| value(node, "tcp-keepalive")), "docs/operations/memory.md#clients-that-disappear",
        "a vanished host still waits in line, is granted the lock, and holds it for a lease"),
    ("clients", Server(room::clients), "docs/operations/settings.md#sizing-leases-and-waits",
        "a program that gets no connection can neither acquire nor release a lock"),
    ("waiters-connections", Server(room::waiters_connections), "docs/operations/settings.md#sizing-leases-and-waits",
        "each blocked call occupies a connection"),
    ("queued", Server(room::queued), "docs/operations/settings.md",
        "a program whose calls cannot queue gets no lock that another holds"),
    ("programs", Server(users::programs), "docs/operations/locks.md#which-program-holds-what",
        "a program that does not poll gets no lock that it waits for, and others wait for the locks that it holds"),
    ("open", Server(users::open), "docs/operations/users.md",
        "an owner is a name, not a password: every user who may run the commands can free any lock"),
    ("rights", Server(users::rights), "docs/operations/users.md",
        "a user who may acquire a lock, but not release or renew it, blocks all others for a lease, and loses the lock"),
    ("same-users", Among(users::same_users), "docs/operations/users.md",
        "users are not replicated: after a failover programs cannot log in"),
    ("link", Among(failover::link), "docs/monitoring/alerts.md#lockreplicacutoff",
        "a failover to a replica without a link loses the grants of that time"),
    ("lag", Server(failover::lag), "docs/operations/switching.md",
        "a failover loses the changes that the replica has not received"),
    ("read-only", Server(|node| of_replica(node, "replica-read-only")), "docs/commands/README.md#locks-as-keys",
        "after a failover the replica grants by its own state of the locks"),
    ("enough-replicas", Server(failover::enough), "docs/operations/failover.md#failover-and-sentinel",
        "an isolated primary and its successor grant the same lock"),
    ("writes", Server(failover::writes), "docs/operations/troubleshooting.md#nobody-is-granted-anything",
        "while writes are paused or refused, no lock is granted, and leases expire while their owners work"),
    ("token-lead", Among(failover::token_lead), "docs/operations/failover.md#failover-and-sentinel",
        "a resource that has seen a higher token refuses the new owner"),
    ("lease", Among(failover::lease), "docs/operations/failover.md#failover-and-sentinel",
        "an owner whose lease is longer than a failover keeps its grant and its token"),
    ("sentinel", Watching(failover::sentinel), "docs/operations/switching.md",
        "when the primary dies, no replica takes over, or two do"),
    ("cluster-state", Server(failover::cluster_state), "docs/operations/failover.md#cluster",
        "a lock is on the node that serves its slot: without that node the lock is unavailable"),
    ("cluster-coverage", Server(|node| of_cluster(node, "cluster-require-full-coverage")), "docs/operations/failover.md#cluster",
        "each lock is on one node, and does not need the others"),
    ("cluster-reads", Server(|node| of_cluster(node, "cluster-allow-reads-when-down")), "docs/operations/failover.md#cluster",
        "an isolated node may answer with locks that have long been released"),
    ("tls", Server(failover::tls), "docs/server-api.md",
        "traffic without TLS can be read on the network; a client that is redirected to the wrong port gets no lock"),
    ("clock-replica", Among(failover::clock_replica), "docs/operations/failover.md#clocks",
        "leases expire by the wall clock, and tokens follow it"),
    ("clock-here", Server(failover::clock_here), "docs/operations/failover.md#clocks",
        "one of the two clocks is wrong; the tokens of a lock over several servers depend on them"),
    ("settings", Server(settings::of_module), "docs/operations/settings.md",
        "the value defeats the setting's purpose"),
    ("same-settings", Among(settings::same), "docs/operations/settings.md",
        "CONFIG SET is not replicated: after a failover another value applies"),
    ("slow-commands", Server(settings::slow_commands), "docs/sessions.md#when-grants-are-renewed",
        "while a command runs no lock is granted or renewed: a lease of a second expires"),
    ("latency", Server(settings::latency), "docs/sessions.md#when-grants-are-renewed",
        "while the server stalls no lock is granted or renewed: a lease of a second expires"),
    ("scripts", Server(settings::scripts), "docs/sessions.md#when-grants-are-renewed",
        "while a script runs no lock is granted or renewed, and the script cannot be killed before that time"),
];

/// Makes all checks. Reports the same finding on several servers once.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check @ (_, judge, ..) in CHECKS {
        let mut add = |server: &str, judged| add(&mut findings, check, server, judged);
        let nodes = facts.nodes.iter();
        match judge {
            Server(judge) => nodes.for_each(|node| add(&node.address, judge(node))),
            Among(judge) => nodes.for_each(|node| add(&node.address, judge(facts, node))),
            Watching(judge) => {
                let watched = facts.watched.iter();
                watched.for_each(|watched| add(&watched.sentinel, judge(watched)));
            }
            Unreached(judge) => {
                let unreached = facts.unreached.iter();
                unreached.for_each(|(address, why)| add(address, judge(why)));
            }
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn add(findings: &mut Vec<Finding>, check: &Check, server: &str, judged: Judged) {
    let (check, _, source, why) = *check;
    let found = match judged {
        Err(Unseen::Absent) => Ok(Vec::new()),
        Err(Unseen::Refused(why, fix)) => Severity::NotChecked.says(why, fix),
        found => found,
    };
    for found in found.into_iter().flatten() {
        let same = findings.iter_mut().find(|known| {
            known.check == check
                && known.severity == found.severity
                && known.seen == found.seen
                && known.fix == found.fix
        });
        match same {
            Some(known) => known.servers.push(server.to_owned()),
            None => findings.push(Finding {
                check,
                servers: vec![server.to_owned()],
                why,
                source,
                ..found
            }),
        }
    }
}
