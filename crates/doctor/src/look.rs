//! Finds all servers that belong to the given one, and examines each of them.

use crate::Access;
use crate::ask::Asker;
use crate::examine::examine;
use crate::facts::{Facts, Node, Watched};
use crate::finding::Unseen;
use redis_lock_tool::{Target, cluster_nodes, command, items, lines, names, text};
use std::collections::BTreeSet;
use std::thread;

/// Collects all facts. The error says why nothing could be examined.
pub(crate) fn look(access: &Access) -> Result<Facts, String> {
    let address = access.given.address();
    let from = |why| format!("{address}: {why}");
    let mut c = Asker::connect(&access.given).map_err(from)?;
    let info = c
        .look("INFO server", "+info")
        .map(|value| lines(&text(&value)));
    let info = info.unwrap_or_default();
    let modes = [info.get("redis_mode"), info.get("server_mode")];
    let mut facts = Facts::default();
    let start = if modes.into_iter().flatten().any(|mode| mode == "sentinel") {
        ask_sentinel(access, &mut c, &mut facts).map_err(from)?
    } else {
        vec![access.given.clone()]
    };
    drop(c);
    follow(access, start, &mut facts);
    if facts.nodes.is_empty() {
        let why = facts.unreached.first();
        return Err(why.map_or_else(
            || "the Sentinel watches no primary".to_owned(),
            |(address, why)| format!("{address}: {why}"),
        ));
    }
    facts.nodes.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(facts)
}

/// Examines these servers, the servers that they know, and so on.
fn follow(access: &Access, start: Vec<Target>, facts: &mut Facts) {
    let mut next = start;
    let mut asked: BTreeSet<String> = next.iter().map(Target::address).collect();
    let mut runs = BTreeSet::new();
    while !next.is_empty() {
        let answers: Vec<_> = thread::scope(|scope| {
            let ask = |target: Target| {
                scope.spawn(move || {
                    let examined = examine(access, &target);
                    (target, examined)
                })
            };
            let started: Vec<_> = next.drain(..).map(ask).collect();
            let ended = started.into_iter().map(thread::ScopedJoinHandle::join);
            ended.filter_map(Result::ok).collect()
        });
        for (target, answer) in answers {
            match answer {
                Ok(node) => {
                    let found = neighbours(&node, &target, facts).into_iter();
                    next.extend(found.filter(|found| asked.insert(found.address())));
                    // A server may have several addresses.
                    let run = node.told("run_id").map(str::to_owned);
                    if run.map_or(true, |run| runs.insert(run)) {
                        facts.nodes.push(node);
                    }
                }
                Err(why) => facts.unreached.push((target.address(), why)),
            }
        }
    }
}

/// The servers that this one knows.
fn neighbours(node: &Node, target: &Target, facts: &mut Facts) -> Vec<Target> {
    let mut found = Vec::new();
    if let Some(text) = &node.cluster_nodes {
        for known in cluster_nodes(text) {
            let other = target.at(&known.host, known.port);
            if known.is_up {
                found.push(other);
                continue;
            }
            let why = "the cluster considers itself down".to_owned();
            let unreached = (other.address(), why);
            if !facts.unreached.contains(&unreached) {
                facts.unreached.push(unreached);
            }
        }
        return found;
    }
    let primary = (node.told("master_host"), node.count("master_port"));
    if let (Ok(host), Ok(port)) = primary {
        found.push(target.at(host, u16::try_from(port).unwrap_or(0)));
    }
    for replica in node.replicas().unwrap_or_default() {
        let port = replica.get("port").and_then(|port| port.parse().ok());
        if let (Some(host), Some(port)) = (replica.get("ip"), port) {
            found.push(target.at(host, port));
        }
    }
    found
}

/// Asks a Sentinel which primaries it watches. Returns their servers.
fn ask_sentinel(access: &Access, c: &mut Asker, facts: &mut Facts) -> Result<Vec<Target>, String> {
    let wanted = access.asked.name.as_ref();
    let masters = match c.look("SENTINEL MASTERS", "+sentinel|masters") {
        Ok(masters) => masters,
        Err(Unseen::Refused(why, _)) => return Err(why),
        Err(Unseen::Absent) => return Ok(Vec::new()),
    };
    let mut places = Vec::new();
    for fields in items(&masters).iter().map(names) {
        let name = fields.get("name").cloned().unwrap_or_default();
        if wanted.is_some_and(|wanted| *wanted != name) {
            continue;
        }
        let replicas = c.look(&format!("SENTINEL REPLICAS {name}"), "+sentinel|replicas");
        let replicas = replicas.as_ref().map(items).unwrap_or_default();
        let servers = replicas.iter().map(names).chain([fields.clone()]);
        places.extend(servers.filter_map(|server| {
            let port = server.get("port")?.parse().ok()?;
            Some(access.servers.at(server.get("ip")?, port))
        }));
        let (what, rights) = ("SENTINEL CKQUORUM", "+sentinel|ckquorum");
        let quorum = match c.with(|link| link.ask(&command(&format!("{what} {name}")))) {
            Ok(Err(error)) if error.starts_with("NOQUORUM") => Ok(Some(error)),
            answer => answer.and_then(|answer| c.allowed(answer, what, rights).map(|_| None)),
        };
        facts.watched.push(Watched {
            sentinel: access.given.address(),
            name,
            fields,
            quorum,
        });
    }
    if places.is_empty() {
        let name = wanted.map_or("no primary", String::as_str);
        return Err(format!("the Sentinel does not watch {name}"));
    }
    Ok(places)
}
