//! Faults of servers.

use super::{Due, QuorumNemesis};
use crate::quorum::configuration::AHEAD;
use crate::quorum::servers::{SPARE, State};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::time::Duration;
use testbed::Cut;

impl QuorumNemesis<'_> {
    pub(super) fn cut(&mut self) -> bool {
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

    pub(super) fn kill_server(&mut self) -> bool {
        if self.setup.keeps && self.random.random_range(0..3) == 0 {
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
        let shortest = self.setup.shortest_absence();
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

    pub(super) fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
        self.count(self.setup.restarts());
    }

    /// Mostly as many as can be missed, and now and then a majority: then nobody gets anything.
    pub(super) fn stop_servers(&mut self) -> bool {
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

    pub(super) fn stop_server(&mut self, node: usize, length: Duration) {
        self.nodes[node].stop();
        self.count("SIGSTOP of servers");
        self.plan(length, Due::LetServerGoOn(node));
    }

    /// The tokens of one server are ahead for a while, and then the server is away: whoever takes a
    /// lock without it knows of them only from the others.
    pub(super) fn put_ahead(&mut self) -> bool {
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
}
