//! The node of a cluster that serves a key. The commands of the module are unknown to client
//! libraries; here they are sent by the key that they are about.

use super::CallError;
use super::commands::Call;
use super::node::{Common, Node, at};
use super::slots::slot;
use crate::class::Kind;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{ConnectionInfo, ErrorKind, RedisError, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cluster, as far as it is known.
pub(crate) struct Cluster {
    /// How to connect: to these first, and in the same way to the others.
    seeds: Vec<ConnectionInfo>,
    common: Common,
    map: Mutex<Map>,
    looking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Map {
    nodes: HashMap<String, Arc<Node>>,
    /// The first slot of each range: its last slot and the address of its primary.
    ranges: BTreeMap<u16, (u16, String)>,
    /// Slots that have moved since the ranges were asked for.
    moved: HashMap<u16, String>,
}

/// First slot, last slot and the addresses of those who have it, the primary first.
type Range = (u16, u16, Vec<(String, u16)>);

impl Cluster {
    pub(crate) fn new(seeds: Vec<ConnectionInfo>, common: &Common) -> Result<Self, RedisError> {
        if seeds.is_empty() {
            return Err((ErrorKind::InvalidClientConfig, "at least one node").into());
        }
        Ok(Self {
            seeds,
            common: common.clone(),
            map: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        })
    }

    /// The node that serves the key, as far as is known.
    pub(crate) async fn node(&self, key: &[u8]) -> Result<Arc<Node>, CallError> {
        let slot = slot(key);
        if self.address_of(slot).is_none() {
            let _looking = self.looking.lock().await;
            // Somebody else may have looked meanwhile.
            if self.address_of(slot).is_none() {
                self.look_around().await?;
            }
        }
        match self.address_of(slot) {
            Some(address) => self.at(&address),
            None => Err(CallError::Passing(RedisError::from((
                ErrorKind::ClusterConnectionNotFound,
                "no node serves the slot",
            )))),
        }
    }

    /// The node at `host:port`.
    pub(crate) fn at(&self, address: &str) -> Result<Arc<Node>, CallError> {
        let mut map = self.map();
        if let Some(node) = map.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let parts = address.rsplit_once(':');
        let place = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = place.ok_or_else(CallError::silence)?;
        let node = Node::new(at(&self.seeds[0], host, port), &self.common);
        let node = Arc::new(node.map_err(|error| CallError::of(error, Kind::Acquire))?);
        map.nodes.insert(address.to_owned(), Arc::clone(&node));
        Ok(node)
    }

    /// Takes note of what a node has said about a key: `host:port`, or `:port` for its own host.
    pub(crate) fn has_moved(&self, key: &[u8], said_by: &Node, address: &str) {
        let address = full_address(said_by, address);
        self.map().moved.insert(slot(key), address);
    }

    /// Forgets who serves what: somebody has failed.
    pub(crate) fn forget(&self) {
        let mut map = self.map();
        map.ranges.clear();
        map.moved.clear();
    }

    pub(crate) fn close(&self) {
        for node in self.map().nodes.values() {
            node.close();
        }
    }

    fn address_of(&self, slot: u16) -> Option<String> {
        let map = self.map();
        if let Some(address) = map.moved.get(&slot) {
            return Some(address.clone());
        }
        let (_, (last, address)) = map.ranges.range(..=slot).next_back()?;
        (slot <= *last).then(|| address.clone())
    }

    /// Asks all nodes, known ones and seeds, until one tells who serves what.
    async fn look_around(&self) -> Result<(), CallError> {
        let mut nodes: Vec<_> = self.map().nodes.values().cloned().collect();
        for seed in &self.seeds {
            let address = seed.addr().to_string();
            if !nodes.iter().any(|node| node.address() == address) {
                nodes.push(self.at(&address)?);
            }
        }
        let question = Call::words(&["CLUSTER", "SLOTS"]);
        let asked = nodes
            .iter()
            .map(async |node| (node, node.look(&question, &mut false).await));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut error = None;
        while let Some((node, answer)) = asked.next().await {
            match answer {
                Ok(answer) => {
                    self.learn(&ranges(answer, node));
                    return Ok(());
                }
                Err(other) => error = Some(other),
            }
        }
        Err(error.unwrap_or_else(CallError::silence))
    }

    fn learn(&self, ranges: &[Range]) {
        for (host, port) in ranges.iter().flat_map(|(_, _, places)| places) {
            // Replicas too: one of them may be the only one left to ask.
            let _ = self.at(&format!("{host}:{port}"));
        }
        let mut map = self.map();
        map.moved.clear();
        map.ranges = ranges
            .iter()
            .filter_map(|(first, last, places)| {
                let (host, port) = places.first()?;
                Some((*first, (*last, format!("{host}:{port}"))))
            })
            .collect();
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address in a redirection. A node that does not know its own host leaves it out.
pub(crate) fn full_address(said_by: &Node, address: &str) -> String {
    if address.starts_with(':') {
        format!("{}{address}", host_of(said_by))
    } else {
        address.to_owned()
    }
}

fn host_of(node: &Node) -> &str {
    let parts = node.address().rsplit_once(':');
    parts.map_or(node.address(), |(host, _)| host)
}

/// The answer to `CLUSTER SLOTS`; what cannot be read is left out.
fn ranges(answer: Value, asked: &Node) -> Vec<Range> {
    let items = |value: Value| match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let place = |value: Value| {
        let mut parts = items(value).into_iter();
        let host: Option<String> = redis::from_redis_value(parts.next()?).ok()?;
        let host = host.filter(|host| !host.is_empty() && host != "?");
        let port = redis::from_redis_value(parts.next()?).ok()?;
        Some((host.unwrap_or_else(|| host_of(asked).to_owned()), port))
    };
    let range = |value: Value| {
        let mut parts = items(value).into_iter();
        let first = redis::from_redis_value(parts.next()?).ok()?;
        let last = redis::from_redis_value(parts.next()?).ok()?;
        Some((first, last, parts.filter_map(place).collect()))
    };
    items(answer).into_iter().filter_map(range).collect()
}
