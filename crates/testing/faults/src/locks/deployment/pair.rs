//! A primary and its replica, which change places by `FAILOVER`.

use super::{Deployment, Node};
use crate::connection::insist;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use testbed::{Builder, Server};

/// Two servers.
pub(crate) struct Pair {
    nodes: [Node; 2],
    servers: Mutex<[Server; 2]>,
    primary: AtomicUsize,
}

impl Pair {
    /// Both with these settings.
    pub(crate) fn start(settings: &Builder) -> Self {
        let primary = settings.clone().start();
        let replica = primary.replica_with(|_| {
            let address = format!("127.0.0.1 {}", primary.port());
            settings.clone().config("replicaof", &address)
        });
        Self {
            nodes: [Node::of(&primary), Node::of(&replica)],
            servers: Mutex::new([primary, replica]),
            primary: AtomicUsize::new(0),
        }
    }

    fn role(&self, node: usize) -> redis::RedisResult<String> {
        let reply: redis::Value = redis::cmd("ROLE").query(&mut self.nodes[node].connect()?)?;
        match reply {
            redis::Value::Array(mut parts) => {
                redis::from_redis_value(parts.swap_remove(0)).map_err(Into::into)
            }
            other => panic!("ROLE replies {other:?}"),
        }
    }
}

impl Deployment for Pair {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn with_server(&self, node: usize, act: &mut dyn FnMut(&mut Server)) {
        act(&mut self.servers.lock().expect("nobody died with the servers")[node]);
    }

    fn home(&self, _key: &str) -> usize {
        self.primary.load(SeqCst)
    }

    fn hand_over(&self, _key: &str) {
        let old = self.primary.load(SeqCst);
        let new = 1 - old;
        insist("FAILOVER", || -> redis::RedisResult<()> {
            let mut connection = self.nodes[old].connect()?;
            redis::cmd("FAILOVER").query(&mut connection)
        });
        insist("no new primary", || match self.role(new) {
            Ok(role) if role == "master" => Ok(()),
            Ok(role) => Err(role),
            Err(e) => Err(e.to_string()),
        });
        self.primary.store(new, SeqCst);
        // The next one needs a replica that is in step.
        self.with_server(old, &mut |replica| replica.wait_for_link());
    }
}
