//! Who does things to servers and contenders.

use crate::clock::now;
use crate::configuration::{AHEAD, Configuration, LEASES};
use crate::disturbance::{ALL, Disturbance};
use crate::note::Orders;
use crate::process::{Board, Process, Record, news};
use crate::servers::{Node, SPARE, State};
use faults::proxy::Cut;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often it looks whether something is due.
const STEP: Duration = Duration::from_millis(5);

/// How long contenders may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

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

    fn cut(&mut self) -> bool {
        let node = self.random.random_range(0..self.nodes.len());
        let which = self.random.random_range(0..64);
        let (name, cut) = if self.random.random_range(0..4) == 0 {
            ("requests to be cut", Cut::Request)
        } else {
            ("replies to be cut", Cut::Reply)
        };
        let is_cut = self.nodes[node].cut(which, cut);
        if is_cut {
            self.count(name);
        }
        is_cut
    }

    fn kill_server(&mut self) -> bool {
        if self.configuration.keeps && self.random.random_range(0..3) == 0 {
            return self.restart_majority();
        }
        let Some(node) = self.healthy() else {
            return false;
        };
        self.kill(node);
        let down = self.nodes.iter().filter(|node| node.state == State::Down);
        if down.count() == SPARE {
            self.count("two servers down");
        }
        let shortest = self.configuration.shortest_absence();
        let absence = shortest + self.between(0, 700);
        self.plan(absence, Due::Restart(node));
        true
    }

    /// A majority is killed, one server after the other, each up again before the next one goes: no
    /// more than one is ever missing, but what they do not keep would be gone from most.
    fn restart_majority(&mut self) -> bool {
        let mut up = self.up();
        if up.len() <= SPARE {
            return false;
        }
        up.shuffle(&mut self.random);
        up.truncate(SPARE + 1);
        for node in up {
            self.kill(node);
            self.restart(node);
        }
        self.count("majorities restarted in turn");
        true
    }

    fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
        self.count("kill -9 of servers");
    }

    fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
        self.count(if self.configuration.keeps {
            "restarts with all memory"
        } else {
            "restarts with no memory"
        });
    }

    /// Mostly as many as can be missed, and now and then a majority: then nobody gets anything.
    fn stop_servers(&mut self) -> bool {
        let count = self.random.random_range(1..=SPARE + 1);
        let length = self.between(50, 600);
        let mut up = self.up();
        up.shuffle(&mut self.random);
        up.truncate(count);
        for node in &up {
            self.stop_server(*node, length);
        }
        !up.is_empty()
    }

    fn stop_server(&mut self, node: usize, length: Duration) {
        self.nodes[node].stop();
        self.count("SIGSTOP of servers");
        self.plan(length, Due::LetServerGoOn(node));
    }

    /// The tokens of one server are ahead for a while, and then the server is away: whoever takes a
    /// lock without it knows of them only from the others.
    fn put_ahead(&mut self) -> bool {
        let Some(node) = self.healthy() else {
            return false;
        };
        let is_ahead = self.nodes[node].put_ahead(AHEAD);
        if is_ahead {
            self.count("tokens put ahead");
            let pause = self.between(50, 300);
            self.plan(pause, Due::StopServer(node));
        }
        is_ahead
    }

    fn stop_contender(&mut self) -> bool {
        let Some(index) = self.holder() else {
            return false;
        };
        let number = self.processes[index].number;
        if self.is_stopped(number) {
            return false;
        }
        self.processes[index].stop();
        self.count("SIGSTOP of contenders");
        let held = self.held_by(number);
        let longest_lease = Duration::from_millis(LEASES.1);
        let at_last = Instant::now() + longest_lease * 4;
        let due = Due::LetContenderGoOn {
            number,
            held,
            at_last,
        };
        self.plan(longest_lease + Duration::from_millis(100), due);
        true
    }

    fn kill_contender(&mut self) -> bool {
        let Some(index) = self.holder() else {
            return false;
        };
        if self.is_stopped(self.processes[index].number) {
            return false;
        }
        let mut process = self.processes.swap_remove(index);
        process.kill();
        self.count("kill -9 of contenders");
        self.records.push(process.finish(PATIENCE));
        self.start_contender();
        true
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

    fn send_home(&mut self) {
        for process in &mut self.processes {
            process.close();
        }
        let processes = self.processes.drain(..);
        let records: Vec<_> = processes.map(|process| process.finish(PATIENCE)).collect();
        self.records.extend(records);
    }

    fn start_contender(&mut self) {
        let mut orders = self.orders.clone();
        orders.seed = self.random.next_u64();
        self.orders.number += 1;
        self.processes.push(Process::start(&orders, &self.board));
    }

    /// A contender that holds something, if any does.
    fn holder(&mut self) -> Option<usize> {
        let holders: Vec<u32> = {
            let news = news(&self.board);
            news.holds.keys().map(|(number, _)| *number).collect()
        };
        let mut holders: Vec<usize> = (0..self.processes.len())
            .filter(|index| holders.contains(&self.processes[*index].number))
            .collect();
        holders.sort_unstable();
        if holders.is_empty() {
            return None;
        }
        Some(holders[self.random.random_range(0..holders.len())])
    }

    fn held_by(&self, number: u32) -> Vec<(String, u64)> {
        let news = news(&self.board);
        let holds = news.holds.iter();
        holds
            .filter(|((holder, _), _)| *holder == number)
            .map(|(_, hold)| hold.clone())
            .collect()
    }

    fn is_stopped(&self, number: u32) -> bool {
        self.due.iter().any(|(_, due)| {
            matches!(due, Due::LetContenderGoOn { number: stopped, .. } if *stopped == number)
        })
    }

    fn up(&self) -> Vec<usize> {
        let nodes = 0..self.nodes.len();
        nodes
            .filter(|node| self.nodes[*node].state == State::Up)
            .collect()
    }

    /// A server that is up, where another one can be missed.
    fn healthy(&mut self) -> Option<usize> {
        let up = self.up();
        (up.len() > self.nodes.len() - SPARE).then(|| up[self.random.random_range(0..up.len())])
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
