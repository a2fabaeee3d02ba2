//! A primary with two replicas, and three Sentinels that put one of them in its place.

use super::{Deployment, Loss, Node};
use crate::connection::insist;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use testbed::{Builder, Sentinels, Server};

/// More than what the sockets between a primary and a replica that is stopped can take, so that
/// what is written after it waits in the primary.
const BALLAST: usize = 32;
const BALLAST_BYTES: usize = 1 << 20;
/// For how long grants are made that no replica receives.
const LAG: Duration = Duration::from_millis(300);

/// Three servers under three Sentinels.
pub(crate) struct Guarded {
    nodes: Vec<Node>,
    all: Mutex<Sentinels>,
    primary: AtomicUsize,
}

impl Guarded {
    /// Servers with these settings.
    pub(crate) fn start(settings: impl Fn(Builder) -> Builder) -> Self {
        let all = Sentinels::builder(2, 3)
            .down_after(Duration::from_secs(1))
            .start_with(settings);
        Self {
            nodes: all.servers().iter().map(Node::of).collect(),
            primary: AtomicUsize::new(all.primary()),
            all: Mutex::new(all),
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Sentinels> {
        self.all.lock().expect("nobody died with the servers")
    }

    /// Lets the replicas fall behind: they are stopped, and more is written than sockets can hold.
    fn leave_replicas_behind(&self, all: &Sentinels, primary: usize) {
        for replica in (0..self.nodes.len()).filter(|node| *node != primary) {
            all.server(replica).signal("STOP");
        }
        let write = || -> redis::RedisResult<()> {
            let mut connection = self.nodes[primary].connect()?;
            for number in 0..BALLAST {
                redis::cmd("SET")
                    .arg(format!("ballast-{number}"))
                    .arg(vec![b'x'; BALLAST_BYTES])
                    .query::<redis::Value>(&mut connection)?;
            }
            Ok(())
        };
        // Refused where replicas are needed to write: then nothing lags.
        let _ = write();
    }
}

impl Deployment for Guarded {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn with_server(&self, node: usize, act: &mut dyn FnMut(&mut Server)) {
        act(self.all().server_mut(node));
    }

    fn home(&self, _key: &str) -> usize {
        self.primary.load(SeqCst)
    }

    fn lose_primary(&self, _key: &str, how: Loss, before: &dyn Fn()) {
        let old = self.primary.load(SeqCst);
        let mut all = self.all();
        match how {
            Loss::Killed => {
                self.leave_replicas_behind(&all, old);
                before();
                std::thread::sleep(LAG);
                all.server_mut(old).kill9();
                self.nodes[old].has_died();
                for replica in (0..self.nodes.len()).filter(|node| *node != old) {
                    all.server(replica).signal("CONT");
                }
            }
            Loss::Hangs => {
                before();
                all.server(old).signal("STOP");
            }
        }
        let new = all.wait_for_primary_other_than(old);
        self.primary.store(new, SeqCst);
        match how {
            Loss::Killed => all.server_mut(old).restart(),
            Loss::Hangs => all.server(old).signal("CONT"),
        }
        all.wait_until_whole();
        drop(all);
        insist(
            "the new primary takes no writes",
            || -> redis::RedisResult<()> {
                let mut connection = self.nodes[new].connect()?;
                redis::cmd("SET").arg("up").arg(1).query(&mut connection)
            },
        );
    }
}
