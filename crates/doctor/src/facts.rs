//! The facts about the servers: plain data, which [`crate::judge`] judges.

use crate::files::Files;
use crate::finding::{Seen, Unseen};
use redis_lock_tool::{Names, Program};
use std::collections::BTreeSet;

/// Everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) nodes: Vec<Node>,
    /// Servers that are known of and could not be asked: address, and why.
    pub(crate) unreached: Vec<(String, String)>,
    /// The Sentinel's view of each primary that it watches.
    pub(crate) watched: Vec<Watched>,
}

/// A server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) info: Seen<Names>,
    /// Name, version and path of each module; the path where that may be seen.
    pub(crate) modules: Seen<Vec<Module>>,
    pub(crate) config: Seen<Names>,
    /// Commands that are not there under their own names.
    pub(crate) absent: Seen<BTreeSet<String>>,
    pub(crate) clock: Seen<Clock>,
    /// The slowest commands that the slow log tells of: name, milliseconds.
    pub(crate) slow: Seen<Vec<(String, u64)>>,
    /// The events of `LATENCY LATEST`, each with the longest in milliseconds.
    pub(crate) spikes: Seen<Vec<(String, u64)>>,
    pub(crate) users: Seen<Vec<User>>,
    pub(crate) programs: Seen<Programs>,
    /// Its configuration, where that can be read here.
    pub(crate) files: Option<Files>,
    /// Whether a connection without a login is let in.
    pub(crate) open: Seen<bool>,
    /// The answer to a write that changes nothing.
    pub(crate) write: Seen<Write>,
    /// `CLUSTER INFO`; empty outside of a cluster.
    pub(crate) cluster: Seen<Names>,
}

/// A loaded module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) path: Option<String>,
}

/// How far a server's wall clock is ahead of this machine's, in milliseconds, and how exact that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) ahead_ms: i64,
    pub(crate) inexact_ms: i64,
}

/// How a write that changes nothing went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// It was taken.
    Taken,
    /// It was refused with this error.
    Refused(String),
    /// No answer came, while other commands were answered.
    Held,
    /// The server is a replica: it was not tried.
    Replica,
}

/// A user, and what it may do.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) name: String,
    /// It was asked for by name on the command line.
    pub(crate) named: bool,
    pub(crate) exists: bool,
    pub(crate) enabled: bool,
    /// Commands that it may not run.
    pub(crate) denied: BTreeSet<String>,
    /// It may run commands, and not on the name of the lock that is asked about.
    pub(crate) key_denied: Option<String>,
}

/// The open sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) all: Vec<Program>,
    /// Those that do not poll, though they hold locks or wait for some.
    pub(crate) stuck: Vec<Stuck>,
}

/// A program that does not poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stuck {
    pub(crate) program: Program,
    /// Some of the locks that it holds, and some that it waits for, as far as they may be seen.
    pub(crate) holds: Vec<String>,
    pub(crate) waits: Vec<String>,
}

/// A Sentinel's view of a primary.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) sentinel: String,
    pub(crate) name: String,
    pub(crate) fields: Names,
    /// `SENTINEL CKQUORUM`: its error.
    pub(crate) quorum: Seen<Option<String>>,
}

impl Default for Node {
    fn default() -> Self {
        fn unseen<T>() -> Seen<T> {
            Err(Unseen::new("not asked"))
        }
        Self {
            address: String::new(),
            info: unseen(),
            modules: unseen(),
            config: unseen(),
            absent: unseen(),
            clock: unseen(),
            slow: unseen(),
            spikes: unseen(),
            users: unseen(),
            programs: unseen(),
            files: None,
            open: unseen(),
            write: unseen(),
            cluster: unseen(),
        }
    }
}

impl Node {
    /// A field of `INFO`; none where this server does not tell it.
    pub(crate) fn told(&self, field: &str) -> Seen<Option<&str>> {
        let info = self.info.as_ref().map_err(Clone::clone)?;
        Ok(info.get(field).map(String::as_str))
    }

    /// A number of `INFO`; 0 where this server does not tell it.
    pub(crate) fn count(&self, field: &str) -> Seen<i64> {
        let text = self.told(field)?;
        Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// A setting; none where this server does not know it.
    pub(crate) fn setting(&self, name: &str) -> Seen<Option<&str>> {
        let config = self.config.as_ref().map_err(Clone::clone)?;
        Ok(config.get(name).map(String::as_str))
    }

    /// A setting that is a number; none where this server does not know it.
    pub(crate) fn number(&self, name: &str) -> Seen<Option<i64>> {
        Ok(self.setting(name)?.and_then(|text| text.parse().ok()))
    }

    /// Whether it is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        matches!(self.told("role"), Ok(Some("slave")))
    }

    /// Whether it is a node of a cluster.
    pub(crate) fn in_cluster(&self) -> bool {
        matches!(self.told("cluster_enabled"), Ok(Some("1")))
    }

    /// The lock module, if it is loaded.
    pub(crate) fn module(&self) -> Seen<Option<&Module>> {
        let modules = self.modules.as_ref().map_err(Clone::clone)?;
        Ok(modules.iter().find(|module| module.name == "lock"))
    }

    /// Which server it is, and its version.
    pub(crate) fn server(&self) -> Seen<(&'static str, (u32, u32, u32))> {
        let valkey = self.told("valkey_version")?;
        let version = valkey.or(self.told("redis_version")?).unwrap_or_default();
        let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        let name = if valkey.is_some() { "Valkey" } else { "Redis" };
        Ok((name, (next(), next(), next())))
    }

    /// The replicas that it tells of, each as its fields.
    pub(crate) fn replicas(&self) -> Seen<Vec<Names>> {
        let info = self.info.as_ref().map_err(Clone::clone)?;
        let number = |name: &str| name.strip_prefix("slave")?.parse::<u32>().ok();
        let lines = info.iter().filter(|(name, _)| number(name).is_some());
        let fields = |line: &str| {
            let pairs = line.split(',').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        };
        Ok(lines.map(|(_, line)| fields(line)).collect())
    }

    /// The replication that it belongs to: servers with the same are a primary and its replicas.
    pub(crate) fn line_of(&self) -> Option<&str> {
        self.told("master_replid").ok().flatten()
    }
}

impl Facts {
    /// The primary that this replica follows, if it was looked at.
    pub(crate) fn primary_of(&self, replica: &Node) -> Option<&Node> {
        let line = replica.line_of()?;
        let mut nodes = self.nodes.iter();
        nodes.find(|node| !node.is_replica() && node.line_of() == Some(line))
    }
}
