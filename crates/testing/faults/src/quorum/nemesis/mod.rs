//! The nemesis of this workload: what is done to servers and contenders.

mod contenders;
mod servers;

use super::configuration::Setup;
use super::event::Orders;
use super::fault::{ALL, Fault};
use super::process::{Board, Process, Record, progress};
use super::servers::{Node, State};
use crate::nemesis::{Nemesis, drive};
use crate::run::Run;
use rand::RngExt;
use rand::rngs::StdRng;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it looks whether something is due.
const STEP: Duration = Duration::from_millis(5);

/// The pause between two faults, about.
const CALM: Duration = Duration::from_millis(130);

/// How long it may take until every lock has been obtained when nothing fails any more.
const RECOVERY: Duration = Duration::from_secs(8);

/// Servers, contenders, and what is still to be done to them.
pub(crate) struct QuorumNemesis<'a> {
    setup: &'a Setup,
    run: &'a Run,
    random: StdRng,
    nodes: Vec<Node>,
    orders: Orders,
    board: Board,
    processes: Vec<Process>,
    records: Vec<Record>,
    due: Vec<(Instant, Due)>,
}

/// The faults that have begun and must be ended.
enum Due {
    Restart(usize),
    StopServer(usize),
    LetServerGoOn(usize),
    /// When others have taken the locks that it held and written to what they guard, or else when it
    /// has had long enough.
    LetContenderGoOn {
        number: u32,
        held: Vec<(String, u64)>,
        at_last: Instant,
    },
}

impl<'a> QuorumNemesis<'a> {
    pub(crate) fn new(setup: &'a Setup, run: &'a Run, nodes: Vec<Node>, orders: Orders) -> Self {
        Self {
            setup,
            run,
            random: run.random(0),
            nodes,
            orders,
            board: Board::default(),
            processes: Vec::new(),
            records: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Has so many contend while things are done to them and to the servers, repairs everything, and ends
    /// them. Gives back what they have told.
    pub(crate) fn run(mut self, contenders: usize) -> Vec<Record> {
        for _ in 0..contenders {
            self.start_contender();
        }
        let mut faults = ALL.to_vec();
        if self.setup.is_wrong() {
            // The fault of the wrong lock is seen then.
            faults.push((Fault::PutAhead, 100));
        }
        let (run, mut random) = (self.run, self.run.random(1));
        drive(&mut self, run, &mut random, &faults, CALM);
        self.see_every_lock_obtained();
        self.end_contenders();
        for node in &self.nodes {
            run.check_log(node.server());
        }
        let lost = self.nodes.iter().map(Node::lost_replies).sum();
        run.count("lost replies", lost);
        self.records
    }

    fn end(&mut self, due: Due) {
        match due {
            Due::Restart(node) => self.restart(node),
            Due::StopServer(node) => {
                if self.nodes[node].state == State::Up {
                    let length = self.between(100, 600);
                    self.stop_server(node, length);
                }
            }
            Due::LetServerGoOn(node) => self.nodes[node].go_on(),
            Due::LetContenderGoOn {
                number,
                held,
                at_last,
            } => {
                let overtaken = progress(&self.board).are_overtaken(&held);
                if overtaken || Instant::now() > at_last {
                    let mut processes = self.processes.iter_mut();
                    if let Some(process) = processes.find(|process| process.number == number) {
                        process.go_on();
                    }
                } else {
                    let due = Due::LetContenderGoOn {
                        number,
                        held,
                        at_last,
                    };
                    self.plan(STEP, due);
                }
            }
        }
    }

    fn see_every_lock_obtained(&mut self) {
        let whole = self.run.now();
        let limit = Instant::now() + RECOVERY;
        let missing = || -> Vec<String> {
            let progress = progress(&self.board);
            let is_missing =
                |key: &&String| progress.obtained.get(*key).is_none_or(|at| *at < whole);
            self.run.keys.iter().filter(is_missing).cloned().collect()
        };
        while Instant::now() < limit && !missing().is_empty() {
            sleep(STEP);
        }
        for key in missing() {
            let text = format!("{key} is not obtained in {RECOVERY:?} in which nothing fails");
            self.run.trouble(text);
        }
    }

    fn plan(&mut self, pause: Duration, due: Due) {
        self.due.push((Instant::now() + pause, due));
    }

    fn count(&self, fault: &str) {
        self.run.count(fault, 1);
    }

    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.random.random_range(least..most))
    }
}

impl Nemesis for QuorumNemesis<'_> {
    type Fault = Fault;

    fn inject(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Cut => self.cut(),
            Fault::KillServer => self.kill_server(),
            Fault::StopServers => self.stop_servers(),
            Fault::PutAhead => self.put_ahead(),
            Fault::StopContender => self.stop_contender(),
            Fault::KillContender => self.kill_contender(),
        }
    }

    /// Does what is due.
    fn tick(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.due)
            .into_iter()
            .partition(|(when, _)| *when <= now);
        self.due = later;
        for (_, due) in due {
            self.end(due);
        }
    }

    fn is_whole(&self) -> bool {
        self.due.is_empty()
    }
}
