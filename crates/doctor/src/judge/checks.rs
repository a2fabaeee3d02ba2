//! The table of checks, in the order of `docs/doctor.md`.

use super::Judge::{Server, Unreached, Watched};
use super::{
    Check, Judge, clocks, cluster, connections, failover, loaded, memory, persistence, replication,
    rights, settings, stalls,
};
use crate::finding::{Judged, Mend, Unseen};

const fn check(name: &'static str, judge: Judge, source: &'static str, why: &'static str) -> Check {
    Check {
        name,
        why,
        source,
        judge,
    }
}

fn unreached(why: &str) -> Judged {
    let look = "look from a machine that reaches it, with a login that it knows; or start it";
    Err(Unseen::new(why).mend(Mend::Do(look.to_owned())))
}

#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    check("reach", Unreached(unreached), "docs/operations.md#replicas",
        "a server that nobody looked at may be the one that takes over"),
    check("module", Server(loaded::module), "docs/operations.md#replicas",
        "without the module a primary knows no locks, and a replica cannot load or keep them"),
    check("version", Server(loaded::version), "docs/operations.md#upgrading",
        "an older replica removes locks, or keeps old states of them, where it does not know what a newer primary sends"),
    check("server", Server(loaded::server), "README.md#supported-servers",
        "servers before Redis 7.0 lack a part of the module API"),
    check("neighbours", Server(loaded::neighbours), "docs/guarantees.md#what-shows-it",
        "other modules run in the same process, and can end it"),
    check("commands", Server(loaded::commands), "docs/operations.md#installing",
        "the module asks the server by its own commands, and programs use them"),
    check("persistence", Server(persistence::persistence), "docs/operations.md#persistence",
        "a lost grant is granted again while its owner still works: two owners"),
    check("save", Server(persistence::save), "docs/operations.md#a-failed-save-stops-renewals",
        "when a save has failed the server refuses all writes: leases end while their owners work"),
    check("aof", Server(persistence::aof), "docs/operations.md#a-failed-save-stops-renewals",
        "when the AOF cannot be written the server refuses all writes: leases end while their owners work"),
    check("eviction", Server(memory::eviction), "docs/operations.md#memory",
        "a held lock that is evicted is granted to the next one: two owners"),
    check("evicted", Server(memory::evicted), "docs/operations.md#memory",
        "a held lock that is evicted is granted to the next one: two owners"),
    check("memory", Server(memory::memory), "docs/operations.md#memory",
        "when memory is full nobody gets a lock; those who hold one can renew and release it"),
    check("waiters-memory", Server(memory::waiters), "docs/operations.md#memory",
        "each call that waits costs 36 kB, which count towards maxmemory"),
    check("timeout", Server(connections::timeout), "docs/operations.md#clients-that-are-gone",
        "a connection that keeps leases is closed between two PINGs, and its locks come free"),
    check("keepalive", Server(connections::keepalive), "docs/operations.md#clients-that-are-gone",
        "a host that has vanished still stands in line, is granted the lock, and holds it for a lease"),
    check("clients", Server(connections::clients), "docs/operations.md#sizing-leases-and-waits",
        "who gets no connection can neither take a lock nor release one"),
    check("waiters-connections", Server(connections::waiters), "docs/operations.md#sizing-leases-and-waits",
        "each call that waits keeps a connection"),
    check("open", Server(rights::open), "docs/operations.md#users",
        "an owner is a name and no password: whoever may run commands can free any lock"),
    check("rights", Server(rights::rights), "docs/operations.md#users",
        "who may take a lock and not release or renew it holds up all others for a lease, and loses it"),
    check("same-users", Server(rights::same_users), "docs/operations.md#users",
        "users are not replicated: after a failover programs are shut out"),
    check("link", Server(replication::link), "docs/monitoring/README.md#alerts",
        "a failover to a replica that is cut off loses the grants of that time"),
    check("lag", Server(replication::lag), "docs/operations.md#switching-the-primary",
        "what a replica has not got yet is lost in a failover"),
    check("read-only", Server(replication::read_only), "docs/commands/README.md#locks-as-keys",
        "locks that differ from the primary's are what the replica grants by when it takes over"),
    check("enough-replicas", Server(replication::enough), "docs/operations.md#failover-and-sentinel",
        "a primary that is cut off, and its successor, grant the same lock"),
    check("writes", Server(replication::writes), "docs/operations.md#nobody-is-granted-anything",
        "while writes are paused or refused nobody is granted a lock, and leases end while their owners work"),
    check("token-lead", Server(failover::token_lead), "docs/operations.md#failover-and-sentinel",
        "a resource that has seen a higher token refuses the new owner"),
    check("lease", Server(failover::lease), "docs/operations.md#failover-and-sentinel",
        "owners whose lease is longer than a failover takes go on with the same grant and token"),
    check("sentinel", Watched(failover::sentinel), "docs/operations.md#switching-the-primary",
        "nobody takes over when the primary dies, or two at once"),
    check("cluster-state", Server(cluster::state), "docs/operations.md#cluster",
        "a lock is on the node that serves its slot: without it there is none"),
    check("cluster-coverage", Server(cluster::coverage), "docs/operations.md#cluster",
        "each lock lives on one node, and does not need the others"),
    check("cluster-reads", Server(cluster::reads), "docs/operations.md#cluster",
        "what LOCK.INFO tells there may be over long since"),
    check("tls", Server(cluster::tls), "docs/server-api.md",
        "who may not listen can listen there; and a client that is sent to the wrong port gets no lock"),
    check("clock-replica", Server(clocks::replica), "docs/operations.md#clocks",
        "leases are points of the wall clock, and tokens follow it"),
    check("clock-here", Server(clocks::here), "docs/operations.md#clocks",
        "one of the two clocks is wrong; leases that are renewed by hand, and tokens over several servers, go by them"),
    check("settings", Server(settings::values), "docs/operations.md#settings",
        "the setting is far from what it is for"),
    check("same-settings", Server(settings::same), "docs/operations.md#settings",
        "CONFIG SET is not replicated: after a failover another value is in force"),
    check("slow-commands", Server(stalls::slow_commands), "docs/keeping.md#when-the-server-cannot-renew",
        "while a command runs nothing is granted or renewed: a lease of a second ends"),
    check("latency", Server(stalls::latency), "docs/keeping.md#when-the-server-cannot-renew",
        "while the server stalls nothing is granted or renewed: a lease of a second ends"),
    check("scripts", Server(stalls::scripts), "docs/keeping.md#when-the-server-cannot-renew",
        "while a script runs nothing is granted or renewed, and it can be killed only after that time"),
];
