//! Which server has a key.

use super::Server;
use crate::background::timeout;
use crate::error::Error;
use crate::state::command;
use crate::state::reply::{list, number, text};
use futures_util::future::select_ok;
use redis::cluster_routing::Slot;
use redis::{Client, ConnectionAddr, ConnectionInfo, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The one server, or the nodes of a cluster.
pub(crate) enum Servers {
    One(Arc<Server>),
    Cluster(Box<Cluster>),
}

/// The nodes of a cluster that are known.
pub(crate) struct Cluster {
    /// How to log in.
    template: ConnectionInfo,
    reply: Duration,
    map: Mutex<Map>,
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Map {
    nodes: HashMap<String, Arc<Server>>,
    slots: HashMap<Slot, Arc<Server>>,
}

impl Servers {
    /// A cluster with these nodes, all with the login of the first.
    pub(crate) fn cluster(seeds: Vec<ConnectionInfo>, reply: Duration) -> Option<Self> {
        let template = seeds.first()?.clone();
        let cluster = Cluster {
            template,
            reply,
            map: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        };
        for seed in seeds {
            cluster.node(seed.addr().to_string());
        }
        Some(Self::Cluster(Box::new(cluster)))
    }

    /// A lock may move from one server to another.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The server that has the key.
    pub(crate) async fn find(&self, key: &[u8], limit: Duration) -> Result<Arc<Server>, Error> {
        let cluster = match self {
            Self::One(server) => return Ok(Arc::clone(server)),
            Self::Cluster(cluster) => cluster,
        };
        let slot = Slot::for_key(key);
        let known = || cluster.map().slots.get(&slot).cloned();
        if let Some(server) = known() {
            return Ok(server);
        }
        let found = timeout(limit, async {
            let _reading = cluster.reading.lock().await;
            if known().is_none() {
                cluster.read(limit).await?;
            }
            known().ok_or_else(unknown)
        });
        found.await.unwrap_or_else(|_| Err(unknown()))
    }

    /// Where a reply of this server leads; none: nowhere else.
    pub(crate) fn redirected(&self, from: &Server, fault: &Error) -> Option<Arc<Server>> {
        let Self::Cluster(cluster) = self else {
            return None;
        };
        let address = fault.redirection()?;
        self.refresh();
        if address.starts_with(':') {
            return Some(cluster.node(format!("{}{address}", host_of(from))));
        }
        Some(cluster.node(address.to_owned()))
    }

    /// Has the map of the cluster read again with the next question.
    pub(crate) fn refresh(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.map().slots.clear();
        }
    }

    pub(crate) fn close(&self) {
        match self {
            Self::One(server) => server.close(),
            Self::Cluster(cluster) => cluster
                .map()
                .nodes
                .values()
                .for_each(|server| server.close()),
        }
    }
}

fn unknown() -> Error {
    Error::unsent("no node of the cluster said in time which node serves the key")
}

impl Cluster {
    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node at this address.
    fn node(&self, address: String) -> Arc<Server> {
        let mut map = self.map();
        if let Some(known) = map.nodes.get(&address) {
            return Arc::clone(known);
        }
        let (host, port) = address.rsplit_once(':').unwrap_or((&address, "6379"));
        let mut to = self.template.addr().clone();
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
        let client = Client::open(self.template.clone().set_addr(to))
            .expect("an address like that of a seed");
        let server = Arc::new(Server::one(client, self.reply));
        map.nodes.insert(address, Arc::clone(&server));
        server
    }

    /// Asks all nodes at once, and reads the map from the first that answers.
    async fn read(&self, limit: Duration) -> Result<(), Error> {
        let nodes: Vec<_> = self.map().nodes.values().cloned().collect();
        let command = &command!["CLUSTER", "SLOTS"];
        let ask = |node: Arc<Server>| {
            Box::pin(async move {
                let rows = node.call(limit, false, command).await?;
                Ok::<_, Error>((node, rows))
            })
        };
        let ((node, rows), _) = select_ok(nodes.into_iter().map(ask)).await?;
        self.learn(&node, &rows);
        Ok(())
    }

    /// Takes over the map of a node: rows of first slot, last slot, and the primary's host and port.
    fn learn(&self, from: &Server, rows: &Value) {
        for row in list(rows) {
            let [first, last, primary, ..] = list(row) else {
                continue;
            };
            let [named, port, ..] = list(primary) else {
                continue;
            };
            let host = Some(text(named)).filter(|named| !named.is_empty());
            let host = host.unwrap_or_else(|| host_of(from).to_owned());
            let server = self.node(format!("{host}:{}", number(port)));
            let slots = number(first)..=number(last);
            let slots = slots.filter_map(|slot| Slot::new(u16::try_from(slot).ok()?));
            let slots = slots.map(|slot| (slot, Arc::clone(&server)));
            self.map().slots.extend(slots);
        }
    }
}

fn host_of(server: &Server) -> &str {
    let address = server.address.rsplit_once(':');
    address.map_or("", |(host, _)| host)
}
