//! The servers of a scenario: what workers are told to connect to, and what is seen there.

use crate::failure::{Verdict, ensure};
use crate::limits::{ms, until, wait_for};
use crate::worker::{Acquire, Call};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use testbed::sentinels::NAME;
use testbed::{Builder, Cluster, Expect, Proxy, Sentinels, Server, cluster, cmd, run};

/// Owners of calls that the scenario makes itself begin so, and are nobody's concern.
pub(crate) const DRIVER: &str = "driver";

/// The servers of one scenario. They end with the last handle.
#[derive(Clone)]
pub(crate) struct Site {
    servers: Arc<Servers>,
    address: Value,
}

/// The workers' owners of one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) holders: Vec<String>,
    pub(crate) waiters: Vec<String>,
}

enum Servers {
    One(Mutex<Server>),
    Cluster(Mutex<Cluster>),
    Sentinels(Mutex<Sentinels>),
}

impl Site {
    /// A server.
    pub(crate) fn start() -> Self {
        Self::start_with(|settings| settings)
    }

    /// A server with settings of its own.
    pub(crate) fn start_with(change: impl Fn(Builder) -> Builder) -> Self {
        Self::one(change(Server::builder().own_process_group()).start())
    }

    fn one(server: Server) -> Self {
        let address = json!({ "url": url(server.port()) });
        Self::new(Servers::One(Mutex::new(server)), address)
    }

    pub(crate) fn cluster(cluster: Cluster) -> Self {
        let nodes = 0..cluster.nodes().len();
        let nodes: Vec<_> = nodes.map(|node| cluster.address(node)).collect();
        let address = json!({ "cluster": nodes });
        Self::new(Servers::Cluster(Mutex::new(cluster)), address)
    }

    pub(crate) fn sentinels(all: Sentinels) -> Self {
        let address = |server: &Server| format!("127.0.0.1:{}", server.port());
        let sentinels: Vec<_> = all.sentinels().iter().map(address).collect();
        let address = json!({ "sentinels": sentinels, "master": NAME });
        Self::new(Servers::Sentinels(Mutex::new(all)), address)
    }

    fn new(servers: Servers, address: Value) -> Self {
        Self {
            servers: Arc::new(servers),
            address,
        }
    }

    /// A proxy in front of the one server, and the same site behind it.
    pub(crate) fn behind_proxy(&self) -> (Proxy, Self) {
        let proxy = Proxy::start(self.server().port());
        let site = Self {
            servers: Arc::clone(&self.servers),
            address: json!({ "url": url(proxy.port()) }),
        };
        (proxy, site)
    }

    /// The request to a worker.
    pub(crate) fn address(&self) -> Value {
        self.address.clone()
    }

    /// A lock that no worker holds, until it is given back.
    pub(crate) fn take(&self, key: &str) {
        let line = format!("LOCK.ACQUIRE {key} {DRIVER} PX 60000");
        run(&mut self.server().connection(), &line).grant();
    }

    /// A call that waits in line for such a lock.
    pub(crate) fn in_vain(&self, acquire: &Acquire<'_>) -> Verdict<Call> {
        let key = acquire.key();
        self.take(key);
        let call = acquire.ask();
        self.until_waiting(key, 1)?;
        Ok(call)
    }

    /// Its first waiter gets it.
    pub(crate) fn give_back(&self, key: &str) {
        cmd!(self.server().connection(), "LOCK.RELEASE", key, DRIVER).int();
    }

    /// The one server.
    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        match &*self.servers {
            Servers::One(server) => locked(server),
            _ => panic!("it has several servers"),
        }
    }

    /// The cluster.
    pub(crate) fn nodes(&self) -> MutexGuard<'_, Cluster> {
        match &*self.servers {
            Servers::Cluster(cluster) => locked(cluster),
            _ => panic!("it is no cluster"),
        }
    }

    /// The servers behind Sentinels.
    pub(crate) fn guarded(&self) -> MutexGuard<'_, Sentinels> {
        match &*self.servers {
            Servers::Sentinels(all) => locked(all),
            _ => panic!("it has no Sentinels"),
        }
    }

    /// The connection that polls the session of this lock; 0: none.
    pub(crate) fn poller_of(&self, key: &str) -> i64 {
        let holder = self.holder_of(key);
        let session = holder["session"].clone().int();
        let sessions = self.sessions();
        let polled = sessions.iter().find(|(id, _)| *id == session);
        polled.map_or(0, |(_, client)| *client)
    }

    /// Ends the connection that does.
    pub(crate) fn close_poller_of(&self, key: &str) {
        let polling = self.poller_of(key);
        cmd!(self.server().connection(), "CLIENT", "KILL", "ID", polling).int();
    }

    /// The session in which this lock is held; 0: none.
    pub(crate) fn session_of(&self, key: &str) -> i64 {
        self.holder_of(key)["session"].clone().int()
    }

    fn holder_of(&self, key: &str) -> BTreeMap<String, redis::Value> {
        let holders = cmd!(self.server().connection(), "LOCK.HOLDERS", key).items();
        holders.into_iter().next().expect("a holder").fields()
    }

    /// The open sessions, and the connection that polls each; 0: none.
    pub(crate) fn sessions(&self) -> Vec<(i64, i64)> {
        let sessions = cmd!(self.server().connection(), "LOCK.SESSION", "LIST").items();
        let sessions = sessions.into_iter().map(|session| {
            let session = session.fields();
            ["id", "client-id"].map(|name| session[name].clone().int())
        });
        sessions.map(|[id, client]| (id, client)).collect()
    }

    /// Waits until so many calls of workers wait in line.
    pub(crate) fn until_waiting(&self, key: &str, count: usize) -> Verdict {
        let keys = [key.to_owned()];
        let wait = || (self.look(&keys)).is_some_and(|seen| seen[0].waiters.len() == count);
        let otherwise = format!("{key} is not waited for by {count} within 5 s");
        until(ms(5000), wait, &otherwise)
    }

    /// Waits until a worker holds it.
    pub(crate) fn until_held(&self, key: &str, limit: Duration) -> Verdict {
        let keys = [key.to_owned()];
        let held = || (self.look(&keys)).is_some_and(|seen| !seen[0].holders.is_empty());
        until(limit, held, &format!("{key} is not held"))
    }

    /// No worker holds or waits for any of these locks.
    pub(crate) fn until_free(&self, keys: &[String], limit: Duration, why: &str) -> Verdict {
        let mut last = String::from("no look at the server");
        let free = wait_for(limit, || {
            let seen = self.look(keys)?;
            let mut locks = keys.iter().zip(&seen);
            let taken = locks.find(|(_, it)| !it.holders.is_empty() || !it.waiters.is_empty());
            if let Some((key, seen)) = taken {
                last = format!("{key} {seen}");
            }
            taken.is_none().then_some(())
        });
        ensure!(free.is_some(), "{limit:.1?} after {why} {last}");
        Ok(())
    }

    /// The workers that hold and wait for these locks; none if a server does not answer.
    pub(crate) fn look(&self, keys: &[String]) -> Option<Vec<Seen>> {
        match &*self.servers {
            Servers::One(_) => look(&self.server(), keys),
            Servers::Sentinels(_) => {
                let all = self.guarded();
                look(all.server(all.primary()), keys)
            }
            Servers::Cluster(_) => {
                let cluster = self.nodes();
                let node = |key: &String| {
                    let slot = cluster::slot(key);
                    let mut nodes = 0..cluster.nodes().len();
                    nodes.find(|node| cluster.serves_in_view_of(*node, slot) == Some(*node))
                };
                let look_at = |key: &String| {
                    let seen = look(cluster.node(node(key)?), std::slice::from_ref(key))?;
                    seen.into_iter().next()
                };
                keys.iter().map(look_at).collect()
            }
        }
    }
}

/// Also after a scenario has panicked over its servers.
fn locked<T>(servers: &Mutex<T>) -> MutexGuard<'_, T> {
    servers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/0")
}

fn look(server: &Server, keys: &[String]) -> Option<Vec<Seen>> {
    const PIECE: usize = 500;
    if !server.is_up() {
        return None;
    }
    let mut connection = server
        .client()
        .get_connection_with_timeout(Duration::from_secs(1))
        .ok()?;
    connection
        .set_read_timeout(Some(Duration::from_secs(5)))
        .ok()?;
    let mut all = Vec::new();
    for piece in keys.chunks(PIECE) {
        let mut pipe = redis::pipe();
        for key in piece {
            pipe.cmd("LOCK.HOLDERS")
                .arg(key)
                .cmd("LOCK.WAITERS")
                .arg(key);
            pipe.ignore_errors();
        }
        let replies: Vec<redis::Value> = pipe.query(&mut connection).ok()?;
        let pairs = replies.chunks(2);
        all.extend(pairs.map(|pair| Seen {
            holders: owners(&pair[0]),
            waiters: owners(&pair[1]),
        }));
    }
    Some(all)
}

/// The owners among what HOLDERS or WAITERS replied; none for a key of another type. A call whose session nobody
/// polls is passed over: its program has gone, and it holds up nobody.
fn owners(reply: &redis::Value) -> Vec<String> {
    let Ok(redis::Value::Array(entries)) = reply.clone().reply() else {
        return Vec::new();
    };
    let entries = entries.into_iter().map(|entry| entry.fields());
    let entries = entries.filter(|entry| {
        let number = |name: &str| entry.get(name).map(|it| it.clone().int());
        number("session").is_none_or(|it| it == 0) || number("client-id") != Some(0)
    });
    let owners = entries.map(|entry| entry["owner"].clone().text());
    owners.filter(|owner| !owner.starts_with(DRIVER)).collect()
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.holders.first(), self.waiters.first()) {
            (Some(owner), _) => write!(f, "is still held by {owner}"),
            (None, Some(owner)) => write!(f, "is still waited for by {owner}"),
            (None, None) => f.write_str("is free"),
        }
    }
}
