//! Which server has a key: the only one, or a node of a cluster.

use super::Server;
use crate::background::timeout;
use crate::error::Error;
use crate::mutex::lock;
use crate::state::{command, list, number, text};
use futures_util::future::select_ok;
use redis::cluster_routing::Slot;
use redis::{Client, ConnectionAddr, ConnectionInfo};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The servers of a client, by their numbers: nodes of a cluster get them when they become known.
#[derive(Default)]
pub(crate) struct Servers {
    /// How to log in to a node of the cluster; none: there is one server.
    login: Option<ConnectionInfo>,
    reply: Duration,
    map: Mutex<Map>,
    reading: tokio::sync::Mutex<()>,
}

/// The node that gets a command, and whether an ASK redirection led there.
pub(crate) type Route = (usize, bool);

#[derive(Default)]
struct Map {
    nodes: Vec<Arc<Server>>,
    slots: HashMap<Slot, usize>,
}

impl Servers {
    /// One server.
    pub(crate) fn one(server: Server) -> Self {
        let servers = Self {
            reply: server.reply,
            ..Self::default()
        };
        lock(&servers.map).nodes.push(Arc::new(server));
        servers
    }

    /// A cluster with these nodes, all with the login of the first.
    pub(crate) fn cluster(seeds: &[ConnectionInfo], reply: Duration) -> Option<Self> {
        let servers = Self {
            login: Some(seeds.first()?.clone()),
            reply,
            ..Self::default()
        };
        for seed in seeds {
            servers.node(&seed.addr().to_string());
        }
        Some(servers)
    }

    /// A lock may move from one server to another.
    pub(crate) fn is_cluster(&self) -> bool {
        self.login.is_some()
    }

    /// The server of this number.
    pub(crate) fn server(&self, node: usize) -> Arc<Server> {
        Arc::clone(&lock(&self.map).nodes[node])
    }

    /// The number of the server that has the key, if it is found in this time.
    pub(crate) async fn find(&self, key: &[u8], limit: Duration) -> Result<usize, Error> {
        if !self.is_cluster() {
            return Ok(0);
        }
        let known = || lock(&self.map).slots.get(&Slot::for_key(key)).copied();
        if let Some(node) = known() {
            return Ok(node);
        }
        let found = timeout(limit, async {
            let _reading = self.reading.lock().await;
            if known().is_none() {
                self.read().await?;
            }
            known().ok_or_else(unknown)
        });
        found.await.unwrap_or_else(|_| Err(unknown()))
    }

    /// The server has a part of the cluster, or nobody says in this time which one has.
    pub(crate) async fn serves(&self, node: usize, limit: Duration) -> bool {
        let map = self.find(b"", limit).await; // reads the map, if need be
        map.is_err() || lock(&self.map).slots.values().any(|it| *it == node)
    }

    /// Where a reply of this server leads; none: nowhere else.
    pub(crate) fn redirected(&self, from: usize, fault: &Error) -> Option<Route> {
        if !self.is_cluster() || !fault.redirects() {
            return None;
        }
        self.refresh();
        let address = fault.cause().rsplit(' ').next()?;
        let host = Some(host_of(&self.server(from))).filter(|_| address.starts_with(':'));
        let node = self.node(&(host.unwrap_or_default() + address));
        Some((node, fault.is("ASK")))
    }

    /// Has the map of the cluster read again with the next question.
    pub(crate) fn refresh(&self) {
        lock(&self.map).slots.clear();
    }

    pub(crate) fn close(&self) {
        lock(&self.map)
            .nodes
            .iter()
            .for_each(|server| server.close());
    }

    /// The node at this address.
    fn node(&self, address: &str) -> usize {
        let mut map = lock(&self.map);
        let known = map.nodes.iter().position(|node| node.address == address);
        known.unwrap_or_else(|| {
            let login = self.login.clone().expect("a cluster");
            let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
            let mut to = login.addr().clone();
            if let ConnectionAddr::Tcp(its_host, its_port)
            | ConnectionAddr::TcpTls {
                host: its_host,
                port: its_port,
                ..
            } = &mut to
            {
                host.clone_into(its_host);
                *its_port = port.parse().unwrap_or(6379);
            }
            let client = Client::open(login.set_addr(to)).expect("an address like that of a seed");
            map.nodes.push(Arc::new(Server::one(client, self.reply)));
            map.nodes.len() - 1
        })
    }

    /// Asks all nodes at once, and reads the map from the first that answers: rows of first slot, last slot, and the
    /// primary's host and port.
    async fn read(&self) -> Result<(), Error> {
        let command = &command!["CLUSTER", "SLOTS"];
        let nodes = lock(&self.map).nodes.clone();
        let ask = |node: Arc<Server>| {
            Box::pin(async move {
                let rows = node.call(self.reply, false, command).await;
                rows.map(|rows| (node, rows))
            })
        };
        let ((from, rows), _) = select_ok(nodes.into_iter().map(ask)).await?;
        for row in list(&rows) {
            if let [first, last, primary, ..] = list(row)
                && let [host, port, ..] = list(primary)
            {
                let host = Some(text(host)).filter(|host| !host.is_empty());
                let host = host.unwrap_or_else(|| host_of(&from));
                let node = self.node(&format!("{host}:{}", number(port)));
                let slots = number(first)..=number(last);
                let slots = slots.filter_map(|slot| Slot::new(u16::try_from(slot).ok()?));
                lock(&self.map).slots.extend(slots.map(|slot| (slot, node)));
            }
        }
        Ok(())
    }
}

fn unknown() -> Error {
    Error::unsent("cluster", "no node said in time which node serves the key")
}

fn host_of(server: &Server) -> String {
    let address = server.address.rsplit_once(':');
    address.map_or("", |(host, _)| host).to_owned()
}
