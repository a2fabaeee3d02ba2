//! One round: five servers come up, contenders work while things are done, and what they told is
//! checked.

use crate::administrator::Administrator;
use crate::clock::now;
use crate::configuration::{Configuration, LEASES};
use crate::note::Orders;
use crate::record;
use crate::servers;
use faults::register::Sql;
use history::{Mode, Report};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::time::Duration;

const CONTENDERS: usize = 4;
const TASKS: u32 = 3;
const KEYS: usize = 4;

/// What a round came to.
pub(crate) struct Outcomes {
    pub(crate) report: Report,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) holds: usize,
    pub(crate) denials: BTreeMap<String, usize>,
    /// What is wrong besides the history.
    pub(crate) troubles: Vec<String>,
}

/// Runs one.
pub(crate) fn run(configuration: &Configuration, seed: u64, length: Duration) -> Outcomes {
    let mut random = StdRng::seed_from_u64(seed);
    let nodes = servers::start(&configuration.settings());
    let sql = Sql::new();
    let orders = Orders {
        number: 0,
        tasks: TASKS,
        seed: random.next_u64(),
        ports: nodes.iter().map(servers::Node::port).collect(),
        register: sql.path(),
        keys: (0..KEYS).map(|number| format!("lock-{number}")).collect(),
        leases: LEASES,
        way: configuration.way,
    };
    let origin = now();
    let mut administrator = Administrator::new(configuration, random, nodes, orders);
    administrator.run(CONTENDERS, length);
    let told = record::read(&administrator.records, origin, configuration.keeps);
    let mut troubles = administrator.troubles;
    troubles.extend(told.troubles);
    if let Some(name) = sql.first_fall() {
        troubles.push(format!("the register of {name} went back"));
    }
    Outcomes {
        report: history::check(&told.history, Mode::Split),
        faults: administrator.faults,
        holds: told.holds,
        denials: told.denials,
        troubles,
    }
}
