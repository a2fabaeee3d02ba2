//! What a call that only waits costs the statistics of its node.

use crate::support::{KEY, SOURCE, answer, held, waiter};
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Expect, Kind, Server, Talk, cmd};

/// How often the module asks at most whether a lock has left, where asking is counted.
const PERIOD: Duration = Duration::from_millis(100);

#[test]
fn a_call_that_waits_is_hardly_seen_in_the_statistics_and_not_by_monitor() {
    let (cluster, mut c, _) = held();
    let node = cluster.node(SOURCE);
    let mut waits = waiter(node, "b");
    let mut monitor = node.connection();
    cmd!(monitor, "MONITOR").okay();
    let start = Instant::now();
    cmd!(c, "CONFIG", "RESETSTAT").okay();
    thread::sleep(Duration::from_secs(1));
    let stats = node.info("commandstats");
    let most = start.elapsed().as_millis() / PERIOD.as_millis() + 1;
    let calls: u128 = stats
        .iter()
        .filter(|(name, _)| !name.starts_with("cmdstat_config") && *name != "cmdstat_info")
        .filter_map(|(_, stat)| {
            let calls = stat.strip_prefix("calls=")?.split(',').next()?;
            calls.parse::<u128>().ok()
        })
        .sum();
    let version = Server::version();
    let unseen = version.kind == Kind::Valkey || version.is_redis_from(7, 2);
    let bound = if unseen { 0 } else { most };
    assert!(calls <= bound, "{calls} calls, at most {bound}: {stats:?}");
    // The first lines of MONITOR are those of this test.
    cmd!(c, "ECHO", "end").text();
    loop {
        let seen = monitor.receive().text();
        if seen.contains("ECHO") {
            break;
        }
        assert!(!seen.to_lowercase().contains(KEY), "{seen}");
    }
    assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "a").int(), 0);
    answer(&mut waits).grant();
}
