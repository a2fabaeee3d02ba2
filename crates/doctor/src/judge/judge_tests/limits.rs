//! From which value on a check finds something.

use super::{Severity, but, worst};

#[allow(clippy::too_many_lines)] // a table
#[test]
fn each_limit_is_where_the_page_says() {
    use Severity::{Advice, Error, Ok, Warning};
    for (changes, check, severity) in [
        ("aof_enabled:0", "persistence", Error),
        ("aof_enabled:0 save:900", "persistence", Advice),
        ("appendfsync:no", "persistence", Warning),
        ("appendfsync:everysec", "persistence", Ok),
        ("rdb_last_bgsave_status:err", "save", Warning),
        ("rdb_last_bgsave_status:err save:900", "save", Error),
        (
            "rdb_last_bgsave_status:err save:900 stop-writes-on-bgsave-error:no",
            "save",
            Warning,
        ),
        ("aof_last_write_status:err", "aof", Error),
        ("aof_last_bgrewrite_status:err", "aof", Warning),
        ("maxmemory_policy:volatile-lru", "eviction", Error),
        (
            "maxmemory_policy:allkeys-lru maxmemory:0",
            "eviction",
            Warning,
        ),
        ("evicted_keys:1", "evicted", Warning),
        ("used_memory:1000000000", "memory", Error),
        (
            "used_memory:1000000000 mem_not_counted_for_evict:200000000",
            "memory",
            Ok,
        ),
        ("used_memory:900000001", "memory", Warning),
        ("used_memory:900000000", "memory", Ok),
        ("used_memory:820000000", "waiters-memory", Ok),
        ("used_memory:820000001", "waiters-memory", Warning),
        // Those who wait already have their memory.
        ("used_memory:820000001 lock_waiting:1", "waiters-memory", Ok),
        (
            "maxmemory:0 total_system_memory:100000000",
            "waiters-memory",
            Warning,
        ),
        ("timeout:300", "timeout", Ok),
        ("tcp-keepalive:0", "keepalive", Warning),
        ("tcp-keepalive:60", "keepalive", Ok),
        ("tcp-keepalive:61", "keepalive", Advice),
        ("connected_clients:9000", "clients", Ok),
        ("connected_clients:9001", "clients", Error),
        ("rejected_connections:1", "clients", Warning),
        ("maxclients:6667", "waiters-connections", Ok),
        // Lower, but by nobody's mistake; and by the limit of open files.
        ("maxclients:4000", "waiters-connections", Ok),
        ("maxclients:4064", "waiters-connections", Warning),
        ("lock_queued:900", "queued", Ok),
        ("lock_queued:901", "queued", Warning),
        ("lock_queued:1000", "queued", Error),
        ("lock_longest_queue:9000", "queued", Ok),
        ("lock_longest_queue:9001", "queued", Warning),
        ("lock_longest_queue:10000", "queued", Error),
        ("connected_slaves:1", "enough-replicas", Ok),
        ("connected_slaves:2", "enough-replicas", Advice),
        (
            "connected_slaves:2 min-replicas-to-write:1",
            "enough-replicas",
            Ok,
        ),
        (
            "connected_slaves:2 min-replicas-to-write:1 min-replicas-max-lag:0",
            "enough-replicas",
            Advice,
        ),
        ("slave0:ip=b,port=2,state=online,lag=1", "lag", Ok),
        ("slave0:ip=b,port=2,state=online,lag=2", "lag", Warning),
        ("slave0:ip=b,port=2,state=wait_bgsave,lag=0", "lag", Warning),
        ("role:slave master_link_status:up", "link", Ok),
        ("role:slave master_link_status:down", "link", Warning),
        ("role:slave replica-read-only:no", "read-only", Warning),
        (
            "cluster_enabled:1 cluster-node-timeout:5001",
            "token-lead",
            Ok,
        ),
        (
            "cluster_enabled:1 cluster-node-timeout:5000",
            "token-lead",
            Warning,
        ),
        (
            "cluster_enabled:1 cluster-node-timeout:30000",
            "lease",
            Warning,
        ),
        ("cluster_enabled:1", "cluster-state", Error),
        (
            "cluster_enabled:1 cluster-require-full-coverage:yes",
            "cluster-coverage",
            Advice,
        ),
        (
            "cluster_enabled:1 cluster-allow-reads-when-down:yes",
            "cluster-reads",
            Warning,
        ),
        ("cluster_enabled:1 tls-port:6380", "tls", Warning),
        ("tls-port:6380", "tls", Ok),
        ("lock.default-lease-ms:999", "settings", Warning),
        ("lock.default-lease-ms:1000", "settings", Ok),
        ("lock.default-lease-ms:600000", "settings", Ok),
        ("lock.default-lease-ms:600001", "settings", Warning),
        ("lock.max-queued:0", "settings", Warning),
        ("lock.max-sessions:0", "settings", Warning),
        ("busy-reply-threshold:29999", "scripts", Ok),
        ("busy-reply-threshold:30000", "scripts", Warning),
        ("busy-reply-threshold:0", "scripts", Warning),
        ("slowlog-log-slower-than:1000000", "slow-commands", Ok),
        ("slowlog-log-slower-than:1000001", "slow-commands", Warning),
        ("redis_version:6.2.14", "server", Error),
        ("redis_version:7.2.4 valkey_version:8.1.8", "server", Ok),
    ] {
        assert_eq!(
            worst(vec![but(changes)], check),
            Some(severity),
            "{check}: {changes}"
        );
    }
}
