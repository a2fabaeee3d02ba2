//! Stock: sold exactly to zero.

use crate::program::Program;
use std::collections::BTreeSet;
use testbed::{Expect, Server, cmd};

#[test]
fn stock_is_sold_exactly_to_zero() {
    const PROCESSES: u64 = 4;
    const BUYERS: u64 = 10;
    const STOCK: u64 = 25;
    let server = Server::start();
    let mut c = server.connection();
    cmd!(c, "SET", "{stock}:left", STOCK).okay();
    let programs: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let (name, buyers) = (format!("p{number}"), BUYERS.to_string());
            Program::start(&server, &["stock", "--name", &name, "--buyers", &buyers])
        })
        .collect();
    let results: Vec<_> = programs.into_iter().map(Program::result).collect();
    let sum = |field: &str| {
        let of = |result: &serde_json::Value| result[field].as_u64().expect("a number");
        results.iter().map(of).sum::<u64>()
    };
    let (sold, refused, stale) = (sum("sold"), sum("refused"), sum("stale_refused"));
    println!("sold {sold}, refused {refused}, stale {stale}");
    assert_eq!((sold, refused), (STOCK, PROCESSES * BUYERS - STOCK));
    assert_eq!(cmd!(c, "GET", "{stock}:left").text(), "0");
    let buyers = cmd!(c, "LRANGE", "{stock}:sold", 0, -1).items();
    let different: BTreeSet<_> = buyers.into_iter().map(Expect::text).collect();
    assert_eq!(
        different.len() as u64,
        STOCK,
        "each buyer has one: {different:?}"
    );
    assert_eq!(cmd!(c, "EXISTS", "lock:{stock}").int(), 0);
}
