//! Who does things to servers and contenders.

mod contenders;
mod servers;

use crate::clock::now;
use crate::configuration::Configuration;
use crate::disturbance::{ALL, Disturbance};
use crate::note::Orders;
use crate::process::{Board, Process, Record, news};
use crate::servers::{Node, State};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it looks whether something is due.
const STEP: Duration = Duration::from_millis(5);

/// How long it may take until every lock has been obtained when nothing fails any more.
const CALM: Duration = Duration::from_secs(8);

/// Servers, contenders, and what is still to be done to them.
pub(crate) struct Administrator<'a> {
    pub(crate) configuration: &'a Configuration,
    pub(crate) random: StdRng,
    pub(crate) nodes: Vec<Node>,
    pub(crate) orders: Orders,
    pub(crate) board: Board,
    pub(crate) processes: Vec<Process>,
    pub(crate) records: Vec<Record>,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) troubles: Vec<String>,
    /// What has not been done yet: everything is, once, before chance decides.
    not_yet: Vec<Disturbance>,
    due: Vec<(Instant, Due)>,
}

/// What has been begun and is to be ended.
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

impl<'a> Administrator<'a> {
    pub(crate) fn new(
        configuration: &'a Configuration,
        mut random: StdRng,
        nodes: Vec<Node>,
        orders: Orders,
    ) -> Self {
        let mut not_yet = ALL.map(|(disturbance, _)| disturbance).to_vec();
        not_yet.shuffle(&mut random);
        Self {
            configuration,
            random,
            nodes,
            orders,
            board: Board::default(),
            processes: Vec::new(),
            records: Vec::new(),
            faults: BTreeMap::new(),
            troubles: Vec::new(),
            not_yet,
            due: Vec::new(),
        }
    }

    /// Has so many contend while things are done to them and to the servers, makes everything well
    /// again, and sends them home.
    pub(crate) fn run(&mut self, contenders: usize, length: Duration) {
        for _ in 0..contenders {
            self.start_contender();
        }
        let end = Instant::now() + length;
        let mut next = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            self.do_what_is_due(Instant::now());
            if Instant::now() > next {
                self.disturb();
                next = Instant::now() + self.between(30, 230);
            }
            std::thread::sleep(STEP);
        }
        while !self.due.is_empty() {
            self.do_what_is_due(Instant::now());
            std::thread::sleep(STEP);
        }
        self.see_every_lock_obtained();
        self.send_home();
        for node in &self.nodes {
            self.troubles.extend(node.troubles());
        }
        let lost = self.nodes.iter().map(Node::lost_replies).sum();
        self.faults.insert("lost replies", lost);
    }

    fn disturb(&mut self) {
        if let Some(disturbance) = self.not_yet.pop() {
            if !self.does(disturbance) {
                self.not_yet.insert(0, disturbance);
            }
            return;
        }
        // What the wrong lock does wrong is seen then.
        if self.configuration.is_wrong() && self.random.random_range(0..2) == 0 {
            self.does(Disturbance::PutAhead);
            return;
        }
        let of_hundred = self.random.random_range(0..100);
        let mut sum = 0;
        let drawn = ALL.into_iter().find(|(_, share)| {
            sum += share;
            of_hundred < sum
        });
        if let Some((disturbance, _)) = drawn {
            self.does(disturbance);
        }
    }

    /// Whether that could be done.
    fn does(&mut self, disturbance: Disturbance) -> bool {
        match disturbance {
            Disturbance::Cut => self.cut(),
            Disturbance::KillServer => self.kill_server(),
            Disturbance::StopServers => self.stop_servers(),
            Disturbance::PutAhead => self.put_ahead(),
            Disturbance::StopContender => self.stop_contender(),
            Disturbance::KillContender => self.kill_contender(),
        }
    }

    fn do_what_is_due(&mut self, time: Instant) {
        let (due, later) = std::mem::take(&mut self.due)
            .into_iter()
            .partition(|(when, _)| *when <= time);
        self.due = later;
        for (_, due) in due {
            self.end(due);
        }
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
                let overtaken = news(&self.board).are_overtaken(&held);
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
        let well = now();
        let limit = Instant::now() + CALM;
        let missing = |board: &Board, keys: &[String]| -> Vec<String> {
            let news = news(board);
            let keys = keys.iter();
            keys.filter(|key| news.obtained.get(*key).is_none_or(|moment| *moment < well))
                .cloned()
                .collect()
        };
        while Instant::now() < limit && !missing(&self.board, &self.orders.keys).is_empty() {
            std::thread::sleep(STEP);
        }
        for key in missing(&self.board, &self.orders.keys) {
            let text = format!("{key} is not obtained in {CALM:?} in which nothing fails");
            self.troubles.push(text);
        }
    }

    fn plan(&mut self, pause: Duration, due: Due) {
        self.due.push((Instant::now() + pause, due));
    }

    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.random.random_range(least..most))
    }
}
