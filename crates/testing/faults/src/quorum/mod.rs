//! The workload `quorum`: contenders, each a process of its own, take locks that five servers keep by
//! majority, while servers and contenders are killed, stopped and cut off.

mod configuration;
mod contender;
mod event;
mod fault;
mod nemesis;
mod process;
mod servers;
mod transcript;

pub use contender::contend;

use crate::register::Sql;
use crate::run::{Findings, Run, names};
use crate::workload::{Configuration, Workload};
use configuration::Setup;
use event::{Orders, Way};
use history::{Kind, Mode, Register};
use nemesis::QuorumNemesis;
use std::process::Command;
use std::time::Duration;

const CONTENDERS: usize = 4;
const TASKS: u32 = 3;
const KEYS: usize = 4;

/// The longest that a run lasts, in seconds, and so the longest history that is checked.
const LONGEST_RUN: u64 = 15;

/// The shortest time in which there is some of everything, mostly.
const SHORTEST_RUN: u64 = 4;

/// The events that every configuration must show, besides the fate of the killed.
const WANTED: [&str; 9] = [
    "kill -9 of servers",
    "SIGSTOP of servers",
    "tokens put ahead",
    "SIGSTOP of contenders",
    "kill -9 of contenders",
    "lost replies",
    "grants",
    names(Register::Sql)[0],
    names(Register::Sql)[1],
];

/// The workload, where all runs together last so many seconds.
#[must_use]
pub fn workload(seconds: u64) -> Workload {
    let [sql, stale_sql] = names(Register::Sql);
    let mut all = configuration::all();
    if Command::new("go").arg("version").output().is_err() {
        println!("the Go client is left out: Go is not installed");
        all.retain(|setup| setup.way != Way::Go);
    }
    let right = all.iter().filter(|setup| !setup.is_wrong()).count() as u64;
    let length = (seconds / right).clamp(SHORTEST_RUN, LONGEST_RUN);
    let boxed = |mut setup: Setup| -> Box<dyn Configuration> {
        // The fault of the wrong configuration shows soon.
        let seconds = if setup.is_wrong() {
            SHORTEST_RUN
        } else {
            length
        };
        setup.length = Duration::from_secs(seconds);
        Box::new(setup)
    };
    Workload {
        columns: vec![
            ("operations", "operations"),
            ("grants", "grants"),
            ("hand-offs", "hand-offs"),
            ("writes", sql),
            ("stale", stale_sql),
        ],
        configurations: all.into_iter().map(boxed).collect(),
    }
}

impl Configuration for Setup {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, seed: u64) -> Result<Findings, String> {
        if self.way == Way::Go {
            let built = Command::new(contender::start_script())
                .arg("build")
                .status();
            if !built.is_ok_and(|status| status.success()) {
                return Err("the Go client is not built".to_owned());
            }
        }
        let nodes = servers::start(&self.settings());
        let sql = Sql::new();
        let run = Run::new(seed, KEYS, self.length);
        let orders = Orders {
            number: 0,
            tasks: TASKS,
            seed,
            origin: run.origin(),
            ports: nodes.iter().map(servers::Node::port).collect(),
            register: sql.path(),
            keys: run.keys.clone(),
            leases: self.leases(),
            way: self.way,
        };
        let nemesis = QuorumNemesis::new(self, &run, nodes, orders);
        let records = nemesis.run(CONTENDERS);
        let history = transcript::read(&records, &run, self.keeps);
        run.check_register(&sql);
        run.check(&history, Mode::Split);
        Ok(run.into_findings())
    }

    fn wanted(&self) -> Vec<&'static str> {
        let mut wanted = WANTED.to_vec();
        wanted.push(self.restarts());
        wanted
    }

    fn must_show(&self) -> Option<Kind> {
        self.is_wrong().then_some(Kind::TokenOrder)
    }
}
