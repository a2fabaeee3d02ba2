//! What a lock costs the server beside what people write today: `make bench`.
//!
//! Each round runs every way of locking once, one after the other, and takes the CPU time of the
//! server's main thread, so that neither the client nor a busy machine counts. What is printed is
//! the median over the rounds of each way's ratio to `SET NX PX` + `DEL` in the same round.

// Figures to look at: a lost bit does not matter.
#![allow(clippy::cast_precision_loss)]

use std::time::Duration;

use redis::{Cmd, Connection, Pipeline, Value};
use testbed::{Server, server_cpu};

const ROUNDS: usize = 11;
const PAIRS: usize = 30_000;
const BATCH: usize = 500;
const OWNER: &str = "2a9f7c1e-5b60-4d38-9e1f-7c06d3a5b8e4";

/// A way of locking: the two commands of one pair.
struct Way {
    name: &'static str,
    pair: fn(key: &str) -> [Cmd; 2],
}

const WAYS: [Way; 5] = [
    Way {
        name: "SET NX PX + DEL",
        pair: |key| {
            [
                command(&["SET", key, OWNER, "NX", "PX", "30000"]),
                command(&["DEL", key]),
            ]
        },
    },
    Way {
        name: "LOCK.ACQUIRE + LOCK.RELEASE",
        pair: |key| {
            [
                command(&["LOCK.ACQUIRE", key, OWNER, "PX", "30000"]),
                command(&["LOCK.RELEASE", key, OWNER]),
            ]
        },
    },
    Way {
        name: "the same by the default lease",
        pair: |key| {
            [
                command(&["LOCK.ACQUIRE", key, OWNER]),
                command(&["LOCK.RELEASE", key, OWNER]),
            ]
        },
    },
    Way {
        name: "LOCK.ACQUIRE * + DEL",
        pair: |key| [command(&["LOCK.ACQUIRE", key, "*"]), command(&["DEL", key])],
    },
    Way {
        name: "PING + PING",
        pair: |_| [command(&["PING"]), command(&["PING"])],
    },
];

fn main() {
    println!(
        "{}, {PAIRS} pipelined pairs a round, {ROUNDS} rounds",
        version()
    );
    for (title, append_only) in [("no persistence", "no"), ("AOF everysec", "yes")] {
        let server = Server::builder()
            .config("appendonly", append_only)
            .config("appendfsync", "everysec")
            .config("auto-aof-rewrite-percentage", "0")
            .start();
        println!("\n{title:38} ns a pair   ratio   (least, most)");
        compare(&server);
    }
    memory(&Server::start());
}

fn version() -> String {
    let version = Server::version();
    format!("{version:?}")
}

fn compare(server: &Server) {
    let mut connection = server.connection();
    let mut costs: Vec<Vec<f64>> = WAYS.iter().map(|_| Vec::new()).collect();
    for _ in 0..=ROUNDS {
        for (way, costs) in WAYS.iter().zip(&mut costs) {
            costs.push(cost(server, &mut connection, way).as_nanos() as f64 / PAIRS as f64);
        }
    }
    for costs in &mut costs {
        costs.remove(0); // the warm-up
    }
    let base = costs[0].clone();
    for (way, costs) in WAYS.iter().zip(&costs) {
        let ratios = costs
            .iter()
            .zip(&base)
            .map(|(cost, base)| cost / base)
            .collect();
        let [least, median, most] = spread(ratios);
        let [_, nanos, _] = spread(costs.clone());
        println!(
            "  {:36} {nanos:9.0} {median:7.2}   ({least:.2}, {most:.2})",
            way.name
        );
    }
}

fn cost(server: &Server, connection: &mut Connection, way: &Way) -> Duration {
    let mut batch = Pipeline::new();
    for number in 0..BATCH {
        for command in (way.pair)(&format!("lock:{number}")) {
            batch.add_command(command);
        }
    }
    let before = server_cpu(server.pid());
    for _ in 0..PAIRS / BATCH {
        let replies: Vec<Value> = batch.query(connection).expect("replies");
        assert_eq!(replies.len(), 2 * BATCH);
        assert!(!replies.contains(&Value::Nil), "{}: a refusal", way.name);
    }
    server_cpu(server.pid()).saturating_sub(before)
}

fn memory(server: &Server) {
    const KEYS: usize = 100_000;
    println!(
        "\nbytes a held lock ({KEYS} of them, owner of {} bytes)",
        OWNER.len()
    );
    let mut connection = server.connection();
    let mut plain = 0.0;
    for way in &WAYS[..2] {
        let _: () = redis::cmd("FLUSHALL")
            .query(&mut connection)
            .expect("a reply");
        let before = used_memory(server);
        for first in (0..KEYS).step_by(BATCH) {
            let mut batch = Pipeline::new();
            for number in first..first + BATCH {
                let [take, _] = (way.pair)(&format!("lock:{number:06}"));
                batch.add_command(take).ignore();
            }
            let () = batch.query(&mut connection).expect("replies");
        }
        let bytes = (used_memory(server) - before) / KEYS as f64;
        if plain == 0.0 {
            plain = bytes;
        }
        println!("  {:36} {bytes:9.0} {:7.2}", way.name, bytes / plain);
    }
}

fn used_memory(server: &Server) -> f64 {
    server
        .info_field("memory", "used_memory")
        .parse()
        .expect("a number of bytes")
}

fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    ]
}

fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}
