//! What these tests share: a few keys of one slot, and calls that wait.

use redis::Connection;
use std::time::Duration;
use testbed::cluster::slot;
use testbed::{Cluster, Expect, Grant, Reply, Server, Talk, cmd, eventually, line};

/// The key that these tests lock.
pub(crate) const KEY: &str = "foo";
/// Its slot, which the last primary of a new cluster serves.
pub(crate) const SLOT: u16 = 12_182;
/// The longest that a caller may go without an answer when its node does not serve the key any
/// more: a bound for a busy machine, and far below the leases of these tests.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// A lease that does not end within a test.
pub(crate) const LONG_MS: u32 = 600_000;

/// The number of the node that serves [`KEY`] at first.
pub(crate) const SOURCE: usize = 1;
/// The number of the one that its slot goes to.
pub(crate) const TARGET: usize = 0;

/// Two nodes, and a connection to the source.
pub(crate) fn two_nodes() -> (Cluster, Connection) {
    let cluster = Cluster::start(2, 0);
    let source = cluster.node(SOURCE).connection();
    (cluster, source)
}

/// The same where `a` holds [`KEY`].
pub(crate) fn held() -> (Cluster, Connection, Grant) {
    let (cluster, mut source) = two_nodes();
    let grant = cmd!(source, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    (cluster, source, grant)
}

/// The slot stays where it is, or goes back there, in the view of both.
pub(crate) fn call_off(cluster: &Cluster) {
    for node in [SOURCE, TARGET] {
        cluster.set_stable(node, SLOT);
    }
}

/// How a client is sent to a node for [`KEY`]: `MOVED` or `ASK`.
pub(crate) fn sent(how: &str, cluster: &Cluster, node: usize) -> String {
    format!("{how} {SLOT} {}", cluster.address(node))
}

/// A call that waits for [`KEY`] forever, on a node where nobody else does.
#[track_caller]
pub(crate) fn waiter(node: &Server, owner: &str) -> Connection {
    let [waiter] = waiters(node, [owner]);
    waiter
}

/// Sends the call of one who waits.
pub(crate) fn ask(waiter: &mut Connection, owner: &str) {
    let call = format!("LOCK.ACQUIRE {KEY} {owner} PX {LONG_MS} BLOCK 0");
    waiter.post(&line(&call));
}

/// As [`waiter`], for several owners in this order.
#[track_caller]
pub(crate) fn waiters<const N: usize>(node: &Server, owners: [&str; N]) -> [Connection; N] {
    let mut c = node.connection();
    let mut queue = 0;
    owners.map(|owner| {
        let mut waiter = node.connection();
        ask(&mut waiter, owner);
        queue += 1;
        let waits = || cmd!(c, "LOCK.WAITERS", KEY).items().len() == queue;
        eventually(waits, "the call to wait");
        waiter
    })
}

/// The answer of a call that waits: it must come soon, though nothing else happens.
#[track_caller]
pub(crate) fn answer(waiter: &mut Connection) -> Reply {
    waiter.set_read_timeout(Some(SOON)).expect("a time limit");
    let reply = waiter.receive();
    waiter.set_read_timeout(None).expect("no time limit");
    reply
}

/// Takes [`KEY`], free or not, and gives it back at once. The grant.
#[track_caller]
pub(crate) fn next_grant(cluster: &Cluster, node: usize) -> Grant {
    let mut c = cluster.node(node).connection();
    let grant = cmd!(c, "LOCK.ACQUIRE", KEY, "next").grant();
    assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "next").int(), 0);
    grant
}

/// The names of so many keys that a node serves.
#[track_caller]
pub(crate) fn keys_of(cluster: &Cluster, node: usize, count: usize) -> Vec<String> {
    let names = (0..1000).map(|n| format!("k{n}"));
    let here = |key: &String| cluster.serves(slot(key)) == node;
    names.filter(here).take(count).collect()
}
