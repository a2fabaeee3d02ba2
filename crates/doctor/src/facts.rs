//! The facts about the servers, as plain data for [`crate::judge`].

use crate::files::Files;
use crate::finding::{Seen, Unseen, only};
use redis_lock_tool::{Names, Program, pairs, server_version};
use std::collections::BTreeSet;

/// All facts.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) nodes: Vec<Node>,
    /// The known servers that could not be asked: each address, and the reason.
    pub(crate) unreached: Vec<(String, String)>,
    /// The Sentinel's view of each primary that it watches.
    pub(crate) watched: Vec<Watched>,
}

/// A server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) info: Seen<Names>,
    pub(crate) modules: Seen<Vec<Module>>,
    pub(crate) config: Seen<Names>,
    /// Commands that the server does not have under their own names.
    pub(crate) absent: Seen<BTreeSet<String>>,
    pub(crate) clock: Seen<Clock>,
    /// The slowest commands in the slow log, with their milliseconds.
    pub(crate) slow: Seen<Vec<(String, u64)>>,
    /// The events of `LATENCY LATEST`, each with its longest time in milliseconds.
    pub(crate) spikes: Seen<Vec<(String, u64)>>,
    pub(crate) users: Seen<Vec<User>>,
    pub(crate) sessions: Seen<Vec<Session>>,
    /// The configuration files, if they can be read on this machine.
    pub(crate) files: Option<Files>,
    /// Whether the server accepts a connection without a login.
    pub(crate) open: Seen<bool>,
    /// The result of a write that changes nothing; absent on a replica, where it is not tried.
    pub(crate) write: Seen<Write>,
    /// `CLUSTER INFO`; absent outside of a cluster.
    pub(crate) cluster: Seen<Names>,
    /// `CLUSTER NODES`.
    pub(crate) cluster_nodes: Option<String>,
}

/// A loaded module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) version: u32,
    /// `None` if the login may not see it.
    pub(crate) path: Option<String>,
}

/// How far a server's wall clock is ahead of this machine's clock, in milliseconds, and how exact that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) ahead_ms: i64,
    pub(crate) inexact_ms: i64,
}

/// The result of a write that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Taken,
    /// The server refused the write with this error.
    Refused(String),
    /// The server did not answer, although it answered other commands.
    Held,
}

/// A user and its rights.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) name: String,
    /// The user was named on the command line.
    pub(crate) named: bool,
    pub(crate) exists: bool,
    pub(crate) enabled: bool,
    /// Commands that the user may not run.
    pub(crate) denied: BTreeSet<String>,
    /// The server's reason, if the user may run the commands but not on the name of the lock.
    pub(crate) key_denied: Option<String>,
}

/// The session of a program. For a program that does not poll, also some of the locks that it holds and waits for, if
/// the login may see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) program: Program,
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

/// A value of a reply; absent if this server does not have it.
pub(crate) fn value<'a>(names: &'a Seen<Names>, name: &str) -> Seen<&'a str> {
    let names = names.as_ref().map_err(Clone::clone)?;
    names.get(name).map(String::as_str).ok_or(Unseen::Absent)
}

impl Node {
    /// A field of `INFO`.
    pub(crate) fn told(&self, field: &str) -> Seen<&str> {
        value(&self.info, field)
    }

    /// A number of `INFO`; 0 if this server does not have the field.
    pub(crate) fn count(&self, field: &str) -> Seen<i64> {
        match self.told(field) {
            Err(Unseen::Absent) => Ok(0),
            told => Ok(told?.parse().unwrap_or(0)),
        }
    }

    /// A setting.
    pub(crate) fn setting(&self, name: &str) -> Seen<&str> {
        value(&self.config, name)
    }

    /// A setting that is a number.
    pub(crate) fn number(&self, name: &str) -> Seen<i64> {
        self.setting(name)?.parse().map_err(|_| Unseen::Absent)
    }

    /// The settings of the lock module.
    pub(crate) fn settings_of_module(&self) -> Seen<impl Iterator<Item = (&String, &String)>> {
        let config = self.config.as_ref().map_err(Clone::clone)?;
        Ok(config.iter().filter(|(name, _)| name.starts_with("lock.")))
    }

    /// Whether the server is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.told("role") == Ok("slave")
    }

    /// Whether the server is a cluster node.
    pub(crate) fn in_cluster(&self) -> bool {
        self.told("cluster_enabled") == Ok("1")
    }

    /// The lock module; absent if it is not loaded.
    pub(crate) fn module(&self) -> Seen<&Module> {
        let mut modules = self.modules.as_ref().map_err(Clone::clone)?.iter();
        let lock = modules.find(|module| module.name == "lock");
        lock.ok_or(Unseen::Absent)
    }

    /// The name of the server software, and its version.
    pub(crate) fn server(&self) -> Seen<(&'static str, &str)> {
        let info = self.info.as_ref().map_err(Clone::clone)?;
        server_version(info).ok_or(Unseen::Absent)
    }

    /// The first two numbers of the server's version.
    pub(crate) fn version(&self) -> Seen<(u32, u32)> {
        let (_, version) = self.server()?;
        let mut numbers = version.split('.').map_while(|part| part.parse().ok());
        let mut next = || numbers.next().unwrap_or(0);
        Ok((next(), next()))
    }

    /// The fields of each replica that the server reports.
    pub(crate) fn replicas(&self) -> Seen<Vec<Names>> {
        let info = self.info.as_ref().map_err(Clone::clone)?;
        let number = |name: &str| name.strip_prefix("slave")?.parse::<u32>().ok();
        let lines = info.iter().filter(|(name, _)| number(name).is_some());
        Ok(lines.map(|(_, line)| pairs(line.split(','), '=')).collect())
    }
}

impl Facts {
    /// The primary of this replica; absent if it was not examined. A primary and its replicas have the same
    /// `master_replid`.
    pub(crate) fn primary_of(&self, replica: &Node) -> Seen<&Node> {
        only(replica.is_replica())?;
        let line = replica.told("master_replid")?;
        let mut nodes = self.nodes.iter();
        let primary =
            nodes.find(|node| !node.is_replica() && node.told("master_replid") == Ok(line));
        primary.ok_or(Unseen::Absent)
    }
}
