//! By which address and port a waiting call is sent on: those that a command on its own connection is
//! told at that moment.

use crate::support::{KEY, LONG_MS, SLOT, answer, ask, call_off};
use redis::Connection;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use testbed::server::Port;
use testbed::{Builder, Child, Cluster, Expect, Server, cmd, eventually, tls};

/// What any command on the key is told there.
fn any_command(c: &mut Connection) -> String {
    cmd!(*c, "GET", KEY).expect_err("a redirection").to_string()
}

fn waits(node: &Server, waiter: &mut Connection, owner: &str) {
    ask(waiter, owner);
    let mut c = node.connection();
    let last = |c: &mut Connection| testbed::waiters(c, KEY).pop();
    let waits = || last(&mut c).as_deref() == Some(owner);
    eventually(waits, "the call to wait");
}

fn over_six(node: &Server) -> Connection {
    let url = format!("redis://[::1]:{}/", node.port());
    let client = redis::Client::open(url).expect("a url");
    client.get_connection().expect("a connection by IPv6")
}

/// Valkey can tell clients of IPv4 and of IPv6 different addresses.
#[test]
fn by_the_address_for_the_clients_network() {
    testbed::needs!(Server::version().is_valkey_from(8, 1));
    let cluster = Cluster::start_with(2, 0, |settings: Builder| {
        settings.config("bind", "127.0.0.1 ::1")
    });
    let addresses = ["10.9.8.7", "fd00::987"];
    for node in cluster.nodes() {
        let mut c = node.connection();
        let [four, six] = addresses;
        cmd!(c, "CONFIG", "SET", "cluster-announce-client-ipv4", four).okay();
        cmd!(c, "CONFIG", "SET", "cluster-announce-client-ipv6", six).okay();
    }
    let node = cluster.node(1);
    let connections = || [node.connection(), over_six(node)];
    for (mut c, address) in connections().into_iter().zip(addresses) {
        let other = format!("{address}:{}@", cluster.node(0).port());
        let known = || cmd!(c, "CLUSTER", "NODES").text().contains(&other);
        eventually(known, "the addresses to be known");
    }
    // Sent on from the event loop, and by a release on a connection of either kind.
    for freed_by in [None, Some(0), Some(1)] {
        let mut holder = connections();
        let holder = &mut holder[freed_by.unwrap_or(0)];
        cmd!(*holder, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
        let mut waiters = connections();
        for (number, waiter) in waiters.iter_mut().enumerate() {
            waits(node, waiter, &number.to_string());
        }
        cluster.begin_move(SLOT, 1, 0);
        match freed_by {
            None => assert_eq!(cmd!(*holder, "PEXPIRE", KEY, 30).int(), 1),
            Some(_) => assert_eq!(cmd!(*holder, "LOCK.RELEASE", KEY, "a").int(), 0),
        }
        let mut others = connections();
        for ((waiter, other), address) in waiters.iter_mut().zip(&mut others).zip(addresses) {
            let told = answer(waiter).expect_err("a redirection").to_string();
            assert_eq!(told, any_command(other), "{freed_by:?}");
            assert!(told.contains(&format!(" {address}:")), "{told}");
        }
        call_off(&cluster);
    }
}

/// Where a client comes by TLS or not, and whether the nodes talk by TLS.
#[test]
fn by_the_port_for_the_clients_kind_of_connection() {
    let keeper = Server::start();
    testbed::needs!(tls::certificates(keeper.dir()));
    for tls_cluster in ["yes", "no"] {
        let start = || Node::start(keeper.dir(), tls_cluster);
        let (Some(here), Some(there)) = (start(), start()) else {
            println!("left out: a server without TLS");
            return;
        };
        meet(&here, &there);
        let mut c = here.server.connection();
        cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
        let mut plain = here.server.connection();
        waits(&here.server, &mut plain, "plain");
        let (secure, lines) = secure(here.tls_port.number());
        let send = |line: String| secure.write(&line).expect("a connection to write to");
        let line = || lines.recv().expect("a line");
        send(format!("LOCK.ACQUIRE {KEY} secure BLOCK 0"));
        let both = || cmd!(c, "LOCK.WAITERS", KEY).items().len() == 2;
        eventually(both, "both to wait");
        let id = cmd!(there.server.connection(), "CLUSTER", "MYID").text();
        cmd!(c, "CLUSTER", "SETSLOT", SLOT, "MIGRATING", &id).okay();
        cmd!(c, "PEXPIRE", KEY, 30).int();
        let told = answer(&mut plain).expect_err("a redirection").to_string();
        assert_eq!(told, any_command(&mut c), "tls-cluster {tls_cluster}");
        let port = format!(":{}", there.server.port());
        assert!(told.ends_with(&port), "{told}");
        let told = line();
        send(format!("GET {KEY}"));
        assert_eq!(told, line(), "tls-cluster {tls_cluster}");
    }
}

struct Node {
    server: Server,
    tls_port: Port,
}

impl Node {
    /// None where the server knows no TLS.
    fn start(folder: &Path, tls_cluster: &str) -> Option<Self> {
        let tls_port = Port::free();
        let started = tls::settings(Server::builder(), tls_port.number(), folder)
            .config("cluster-enabled", "yes")
            .config("cluster-announce-ip", "127.0.0.1")
            .config("tls-cluster", tls_cluster)
            .try_start();
        match started {
            Ok(server) => Some(Self { server, tls_port }),
            Err(log) => {
                assert!(log.to_lowercase().contains("tls"), "{log}");
                None
            }
        }
    }

    fn bus_port(&self) -> u16 {
        let nodes = cmd!(self.server.connection(), "CLUSTER", "NODES").text();
        let address = nodes.split(' ').nth(1).expect("an address");
        let bus = address.split(['@', ',']).nth(1).expect("a bus port");
        bus.parse().expect("a number")
    }
}

/// Makes one cluster of both; the first serves every slot.
fn meet(here: &Node, there: &Node) {
    let mut c = here.server.connection();
    cmd!(c, "CLUSTER", "ADDSLOTSRANGE", 0, 16_383).okay();
    let nodes = cmd!(there.server.connection(), "CLUSTER", "NODES").text();
    let address = nodes.split(' ').nth(1).expect("an address");
    let port = address.split([':', '@']).nth(1).expect("a port");
    cmd!(c, "CLUSTER", "MEET", "127.0.0.1", port, there.bus_port()).okay();
    for node in [here, there] {
        let mut c = node.server.connection();
        let have_met = || {
            let info = cmd!(c, "CLUSTER", "INFO").text();
            let nodes = cmd!(c, "CLUSTER", "NODES").text();
            let met = nodes.lines().count() == 2 && !nodes.contains("handshake");
            info.contains("cluster_state:ok") && met
        };
        eventually(have_met, "both to meet");
    }
    let port = there.server.port().to_string();
    let shards = |c: &mut Connection| format!("{:?}", cmd!(*c, "CLUSTER", "SHARDS").value());
    eventually(|| shards(&mut c).contains(&port), "ports to be known");
}

/// A connection by TLS; what is sent and received are lines.
fn secure(port: u16) -> (Child, Receiver<String>) {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-quiet", "-connect"])
        .arg(format!("127.0.0.1:{port}"))
        .stderr(Stdio::null());
    Child::start(&mut command).expect("openssl")
}
