//! Several servers with the module in the foreground, to try things on by hand: `playground cluster`
//! or `playground sentinel`. They end, and their folders go, with Ctrl-C or SIGTERM.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::any::Any;
use std::env;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use testbed::{Builder, Cluster, Sentinels, Server, cluster, sentinels};

fn main() -> ExitCode {
    let start: fn() -> Box<dyn Any> = match env::args().nth(1).as_deref() {
        Some("cluster") => || Box::new(start_cluster()),
        Some("sentinel") => || Box::new(start_sentinels()),
        _ => {
            eprintln!("usage: playground cluster|sentinel");
            return ExitCode::FAILURE;
        }
    };
    // Taken from here on: what is started is stopped in order, whenever the signal comes.
    let mut signals = match Signals::new([SIGHUP, SIGINT, SIGTERM]) {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("signals cannot be taken: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        for _ in signals.forever() {
            if ended.send(()).is_err() {
                return;
            }
        }
    });
    testbed::without_watchdog();
    let version = Server::version();
    let (major, minor, patch) = version.number;
    println!(
        "redis-lock on {:?} {major}.{minor}.{patch}: starting",
        version.kind
    );
    let servers = start();
    println!("\nCtrl-C stops them all; nothing is kept.");
    // The sender lives as long as the thread, which does not end.
    let _ = end.recv();
    println!("\nstopping");
    drop(servers);
    ExitCode::SUCCESS
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
  a planned switch:     docs/operations.md, \"Switching the primary\", with
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
