//! Servers, clusters, Sentinels and proxies for tests in any language.
//!
//! The tests start `testbed serve`, write one JSON object a line on its standard input, and read for each one
//! JSON object a line on its standard output. All that was started ends when standard input does, also
//! because the tests were killed.
//!
//! An order says in `do` what is to be done. Everything that was started is named by its port on 127.0.0.1,
//! which it keeps. What has failed is answered with `{"error": "why"}`.
//!
//! | `do` | with | answer |
//! | --- | --- | --- |
//! | `server` | `config`, an object of settings (none) | a server: `{"port": …, "pid": …}` |
//! | `cluster` | `primaries` (3), `replicas` of each (0) | `{"nodes": [a server, …]}`, the primaries first, in the order of their slots |
//! | `sentinels` | `replicas` (1), `sentinels` (1) | `{"name": …, "servers": [a server, …], "sentinels": […]}`, the primary first |
//! | `proxy` | the `port` of a server | `{"port": …}` |
//! | `kill` | the `port` of a server | `{}`, when its process has ended |
//! | `stop` | the `port` of a server | `{}`, when its process has ended as by SIGTERM |
//! | `restart` | the `port` of a server | the server |
//! | `pause`, `resume` | the `port` of a server | `{}`; its process is stopped (SIGSTOP), or continues |
//! | `fail-over` | the `port` of a replica | `{"port": …}` of the new primary: in a cluster this replica, by Sentinels any |
//! | `user` | the `port` of a server, `name` | `{}`; it has this user of docs/operations/users.md |
//! | `inject` | the `port` of a proxy, a `fault`, `words`, `times` (1) | `{}`; so many requests with all these words meet it |
//! | `silence`, `swallow`, `speak` | the `port` of a proxy | `{}`; it loses all replies, or all bytes, or passes them on again |
//! | `forget` | the `port` of a proxy | `{}`; connections that are open lose all bytes, new ones work |
//! | `lost` | the `port` of a proxy | `{"lost": …, "pending": …}`: replies lost so far, requests that will meet its fault |
//! | `end` | any port | `{}`; what it was started with has ended, and its folders are gone |
//!
//! A `fault` is `"cut"`, `"reset"`, `"reset-request"`, `"keep"`, `"silence"` or `{"delay": milliseconds}`: see [`testbed::Fault`].

use crate::Event;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};
use std::{io, thread};
use testbed::sentinels::NAME;
use testbed::{
    Builder, Cluster, Expect, Failover, Fault, Proxy, Sentinels, Server, message_of, run, users,
};

/// Carries out what standard input says, until that ends or a signal comes.
pub(crate) fn serve(send: Sender<Event>, events: &Receiver<Event>) {
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = send.send(Event::Line(line));
        }
        let _ = send.send(Event::End);
    });
    panic::set_hook(Box::new(|_| {})); // what it would print is in the answer
    let mut bed = Bed::default();
    while let Ok(Event::Line(line)) = events.recv() {
        let answer = bed.answer(&line);
        if writeln!(io::stdout(), "{answer}").is_err() {
            return; // nobody listens any more
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Order {
    Server {
        #[serde(default)]
        config: BTreeMap<String, String>,
    },
    Cluster {
        #[serde(default = "three")]
        primaries: usize,
        #[serde(default)]
        replicas: usize,
    },
    Sentinels {
        #[serde(default = "one")]
        replicas: usize,
        #[serde(default = "one")]
        sentinels: usize,
    },
    Proxy(At),
    Kill(At),
    Stop(At),
    Restart(At),
    Pause(At),
    Resume(At),
    FailOver(At),
    Silence(At),
    Swallow(At),
    Forget(At),
    Speak(At),
    Lost(At),
    End(At),
    User {
        port: u16,
        name: String,
    },
    Inject {
        port: u16,
        fault: Fault,
        words: String,
        #[serde(default = "one")]
        times: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    port: u16,
}

fn one() -> usize {
    1
}

fn three() -> usize {
    3
}

/// The processes that one order has started.
enum Thing {
    Server(Server),
    Cluster(Cluster),
    Sentinels(Sentinels),
    Proxy(Proxy),
}

impl Thing {
    fn servers(&mut self) -> Vec<&mut Server> {
        match self {
            Self::Server(server) => vec![server],
            Self::Cluster(cluster) => cluster.nodes_mut().iter_mut().collect(),
            Self::Sentinels(all) => all.all_mut().collect(),
            Self::Proxy(_) => Vec::new(),
        }
    }

    fn server(&mut self, port: u16) -> Option<&mut Server> {
        let mut servers = self.servers().into_iter();
        servers.find(|server| server.port() == port)
    }

    fn has(&mut self, port: u16) -> bool {
        match self {
            Self::Proxy(proxy) => proxy.port() == port,
            _ => self.server(port).is_some(),
        }
    }
}

/// All that has been started and has not ended.
#[derive(Default)]
struct Bed(Vec<Thing>);

impl Bed {
    /// The test bed says by a panic what is not as it should be.
    fn answer(&mut self, line: &str) -> Value {
        let carry_out = || serde_json::from_str(line).map(|order| self.carry_out(order));
        match catch_unwind(AssertUnwindSafe(carry_out)) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => json!({ "error": format!("{line}: {error}") }),
            Err(panic) => json!({ "error": message_of(panic.as_ref()) }),
        }
    }

    fn carry_out(&mut self, order: Order) -> Value {
        match order {
            Order::Server { config } => return self.keep(Thing::Server(start_server(&config))),
            Order::Cluster {
                primaries,
                replicas,
            } => {
                let cluster = Cluster::start_with(primaries, replicas, Builder::own_process_group);
                return self.keep(Thing::Cluster(cluster));
            }
            Order::Sentinels {
                replicas,
                sentinels,
            } => {
                let setup = Sentinels::builder(replicas, sentinels);
                return self.keep(Thing::Sentinels(
                    setup.start_with(Builder::own_process_group),
                ));
            }
            Order::Proxy(At { port }) => {
                let proxy = Proxy::start(self.server(port).port());
                return self.keep(Thing::Proxy(proxy));
            }
            Order::Kill(At { port }) => self.server(port).kill9(),
            Order::Stop(At { port }) => self.server(port).stop(),
            Order::Restart(At { port }) => {
                let server = self.server(port);
                server.restart();
                return described(server);
            }
            Order::Pause(At { port }) => self.server(port).signal("STOP"),
            Order::Resume(At { port }) => self.server(port).signal("CONT"),
            Order::FailOver(At { port }) => return json!({ "port": self.fail_over(port) }),
            Order::User { port, name } => add_user(self.server(port), &name),
            Order::Inject {
                port,
                fault,
                words,
                times,
            } => self.proxy(port).inject(fault, &words, times),
            Order::Silence(At { port }) => self.proxy(port).fall_silent(),
            Order::Swallow(At { port }) => self.proxy(port).swallow(),
            Order::Forget(At { port }) => self.proxy(port).forget(),
            Order::Speak(At { port }) => self.proxy(port).speak(),
            Order::Lost(At { port }) => {
                let proxy = self.proxy(port);
                return json!({ "lost": proxy.lost(), "pending": proxy.pending() });
            }
            Order::End(At { port }) => {
                let thing = self.0.iter_mut().position(|thing| thing.has(port));
                self.0.remove(thing.unwrap_or_else(|| nothing_at(port)));
            }
        }
        json!({})
    }

    fn keep(&mut self, mut thing: Thing) -> Value {
        let answer = match &mut thing {
            Thing::Server(server) => described(server),
            Thing::Cluster(cluster) => json!({ "nodes": all(cluster.nodes()) }),
            Thing::Sentinels(both) => json!({
                "name": NAME,
                "servers": all(both.servers()),
                "sentinels": all(both.sentinels()),
            }),
            Thing::Proxy(proxy) => json!({ "port": proxy.port() }),
        };
        self.0.push(thing);
        answer
    }

    fn server(&mut self, port: u16) -> &mut Server {
        let mut found = self.0.iter_mut().filter_map(|thing| thing.server(port));
        found.next().unwrap_or_else(|| nothing_at(port))
    }

    fn proxy(&self, port: u16) -> &Proxy {
        let mut found = self.0.iter().filter_map(|thing| match thing {
            Thing::Proxy(proxy) if proxy.port() == port => Some(proxy),
            _ => None,
        });
        found.next().unwrap_or_else(|| nothing_at(port))
    }

    fn fail_over(&mut self, port: u16) -> u16 {
        let thing = self.0.iter_mut().position(|thing| thing.has(port));
        match thing.map(|thing| &self.0[thing]) {
            Some(Thing::Cluster(cluster)) => {
                let mut nodes = cluster.nodes().iter();
                let replica = nodes.position(|node| node.port() == port);
                cluster.fail_over(replica.expect("a node"), Failover::Agreed);
                port
            }
            Some(Thing::Sentinels(all)) => all.server(all.fail_over()).port(),
            _ => panic!("there is no replica at port {port}"),
        }
    }
}

fn nothing_at<T>(port: u16) -> T {
    panic!("there is no such thing at port {port}")
}

fn start_server(config: &BTreeMap<String, String>) -> Server {
    let settings = Server::builder().own_process_group();
    let with = |settings: Builder, (name, value): (&String, &String)| settings.config(name, value);
    config.iter().fold(settings, with).start()
}

fn add_user(server: &Server, name: &str) {
    for rule in users::rules(name) {
        run(&mut server.connection(), rule).okay();
    }
}

fn described(server: &Server) -> Value {
    json!({ "port": server.port(), "pid": server.pid() })
}

fn all(servers: &[Server]) -> Value {
    servers.iter().map(described).collect()
}
