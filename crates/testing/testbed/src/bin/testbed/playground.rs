//! Several servers with the module in the foreground, to try things on by hand.

use crate::Event;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;
use testbed::{Builder, Cluster, Sentinels, Server, cluster, sentinels};

/// A cluster, until a signal comes.
pub(crate) fn cluster(_: Sender<Event>, events: &Receiver<Event>) {
    show(start_cluster, events);
}

/// A primary with its replicas and Sentinels, until a signal comes.
pub(crate) fn sentinel(_: Sender<Event>, events: &Receiver<Event>) {
    show(start_sentinels, events);
}

fn show<T>(start: fn() -> T, events: &Receiver<Event>) {
    let version = Server::version();
    let (major, minor, patch) = version.number;
    let kind = version.kind;
    println!("redis-lock on {kind:?} {major}.{minor}.{patch}: starting");
    let servers = start();
    println!("\nCtrl-C stops them all; nothing is kept.");
    let _ = events.recv();
    println!("\nstopping");
    drop(servers);
}

fn start_cluster() -> Cluster {
    let cluster = Cluster::start_with(3, 1, Builder::own_process_group);
    for (node, server) in cluster.nodes().iter().enumerate() {
        let view = cluster.view(node).unwrap_or_default();
        let myself = view.iter().find(|line| line.is("myself"));
        let role = match myself.and_then(|line| line.slots.first()) {
            Some((first, last)) => format!("primary, slots {first} to {last}"),
            None => format!("replica of {}", cluster.address(node - 3)),
        };
        println!("  127.0.0.1:{}  {role}", server.port());
    }
    let serving = cluster.serves(cluster::slot("lock:orders:42"));
    let replica = cluster.node(cluster.replicas_of(serving)[0]).port();
    println!(
        "
  connect:              redis-cli -c -p {first}
  and try:              LOCK.ACQUIRE lock:orders:42 worker-1 EX 600
  wait, in another:     LOCK.ACQUIRE lock:orders:42 worker-2 BLOCK 0
  a planned switch:     redis-cli -p {replica} CLUSTER FAILOVER
  a crash:              kill -9 {pid}    (the primary of lock:orders:42)",
        first = cluster.node(0).port(),
        pid = cluster.node(serving).pid(),
    );
    cluster
}

fn start_sentinels() -> Sentinels {
    // As long as a planned switch asks for.
    let silence = Duration::from_secs(5);
    let setup = Sentinels::builder(2, 3).down_after(silence);
    let all = setup.start_with(Builder::own_process_group);
    for (number, server) in all.servers().iter().enumerate() {
        let role = if number == 0 { "primary" } else { "replica" };
        println!("  127.0.0.1:{}  {role}", server.port());
    }
    for sentinel in all.sentinels() {
        println!("  127.0.0.1:{}  Sentinel", sentinel.port());
    }
    println!(
        "
  connect:              redis-cli -p {primary}
  and try:              LOCK.ACQUIRE lock:orders:42 worker-1 EX 600
  wait, in another:     LOCK.ACQUIRE lock:orders:42 worker-2 BLOCK 0
  who is the primary:   redis-cli -p {sentinel} SENTINEL GET-MASTER-ADDR-BY-NAME {name}
  a planned switch:     docs/operations/switching.md, with
                        A='127.0.0.1 {primary}' B='127.0.0.1 {second}' C='127.0.0.1 {third}'
                        S='127.0.0.1 {sentinel}' NAME={name}
                        (SENTINEL FAILOVER alone lets two servers grant for ten seconds)
  a crash:              kill -9 {pid}    (the primary)",
        primary = all.server(0).port(),
        second = all.server(1).port(),
        third = all.server(2).port(),
        sentinel = all.sentinels()[0].port(),
        pid = all.server(0).pid(),
        name = sentinels::NAME,
    );
    all
}
