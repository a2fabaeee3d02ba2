//! A cluster of three primaries and three replicas.

use super::{Deployment, Loss, Node, Transfer};
use crate::connection::insist;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use testbed::cluster::slot;
use testbed::{Builder, Cluster, Failover, Server};

const PRIMARIES: usize = 3;

/// Six nodes.
pub(crate) struct Sharded {
    nodes: Vec<Node>,
    cluster: Mutex<Cluster>,
    /// Where each key was found last.
    homes: Mutex<HashMap<String, usize>>,
}

impl Sharded {
    /// With these settings, and so many replicas for each primary.
    pub(crate) fn start(replicas: usize, settings: impl Fn(Builder) -> Builder) -> Self {
        let cluster = Cluster::start_with(PRIMARIES, replicas, settings);
        Self {
            nodes: cluster.nodes().iter().map(Node::of).collect(),
            cluster: Mutex::new(cluster),
            homes: Mutex::default(),
        }
    }

    fn cluster(&self) -> std::sync::MutexGuard<'_, Cluster> {
        self.cluster.lock().expect("nobody died with the cluster")
    }

    /// Asks the node to take over a whole slot of another.
    fn import(&self, cluster: &Cluster, number: u16, from: usize, to: usize) -> bool {
        let order = redis::cmd("CLUSTER")
            .arg(&["MIGRATESLOTS", "SLOTSRANGE"])
            .arg(&[number, number])
            .arg("NODE")
            .arg(cluster.id(to))
            .to_owned();
        insist("CLUSTER MIGRATESLOTS", || -> redis::RedisResult<()> {
            order.query(&mut self.nodes[from].connect()?)
        });
        insist("the slot does not move", || {
            match cluster.serves_in_view_of(from, number) {
                Some(node) if node == to => Ok(()),
                other => Err(format!("{other:?} serves it")),
            }
        });
        true
    }
}

impl Deployment for Sharded {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn with_server(&self, node: usize, act: &mut dyn FnMut(&mut Server)) {
        act(self.cluster().node_mut(node));
    }

    /// At first any node: it sends callers on.
    fn home(&self, key: &str) -> usize {
        let homes = self.homes.lock().expect("nobody died with the homes");
        homes.get(key).copied().unwrap_or(0)
    }

    fn learn(&self, key: &str, node: usize) {
        let mut homes = self.homes.lock().expect("nobody died with the homes");
        homes.insert(key.to_owned(), node % self.nodes.len());
    }

    fn hand_over(&self, key: &str) {
        let cluster = self.cluster();
        let old = cluster.serves(slot(key));
        cluster.fail_over(cluster.replicas_of(old)[0], Failover::Agreed);
        cluster.wait_until_whole();
    }

    fn lose_primary(&self, key: &str, how: Loss, _before: &dyn Fn()) {
        let mut cluster = self.cluster();
        let old = cluster.serves(slot(key));
        let replica = cluster.replicas_of(old)[0];
        match how {
            Loss::Killed => {
                cluster.node_mut(old).kill9();
                self.nodes[old].has_died();
            }
            Loss::Hangs => cluster.node(old).signal("STOP"),
        }
        cluster.wait_until_primary(replica);
        match how {
            Loss::Killed => cluster.node_mut(old).restart(),
            Loss::Hangs => cluster.node(old).signal("CONT"),
        }
        cluster.wait_until_whole();
    }

    fn move_slot(&self, key: &str, how: Transfer) -> bool {
        let cluster = self.cluster();
        let number = slot(key);
        let from = cluster.serves(number);
        let to = (from + 1) % PRIMARIES;
        match how {
            Transfer::Keys => {
                cluster.begin_move(number, from, to);
                // Clients meet the slot on its way.
                std::thread::sleep(Duration::from_millis(50));
                cluster.carry_keys(number, from, to);
                std::thread::sleep(Duration::from_millis(50));
                cluster.end_move(number, from, to);
                true
            }
            Transfer::Whole => self.import(&cluster, number, from, to),
        }
    }
}
