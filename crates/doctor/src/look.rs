//! Finding the servers that belong together, from the one that was given, and asking each.

use crate::access::{Access, Conversation, Login, Place, words};
use crate::examine::{Examined, address, answered, examine};
use crate::facts::{Facts, Watched};
use crate::finding::Fix;
use crate::replies::{cluster_nodes, items, lines, pairs, text};
use redis::{Cmd, cmd};
use std::collections::BTreeSet;
use std::thread;

/// Looks at everything. The error tells why nothing could be looked at.
pub(crate) fn look(access: &Access) -> Result<Facts, String> {
    let login = access.login();
    let from = |why| format!("{}: {why}", access.given.addr());
    let mut c = access.connect(None, &login).map_err(from)?;
    let info = c.ask(cmd("INFO").arg("server")).map_err(from)?;
    let info = info.map(|value| lines(&text(&value))).unwrap_or_default();
    let modes = [info.get("redis_mode"), info.get("server_mode")];
    let mut facts = Facts::default();
    if modes.into_iter().flatten().any(|mode| mode == "sentinel") {
        let places = ask_sentinel(access, &mut c, &mut facts).map_err(from)?;
        let login = access.servers_login.clone().unwrap_or(login);
        follow(access, &login, places.into_iter().map(Some), &mut facts);
    } else {
        drop(c);
        follow(
            access,
            &login,
            [access.given_place()].into_iter(),
            &mut facts,
        );
    }
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

/// Examines these servers, and those that they know of, and so on.
fn follow(
    access: &Access,
    login: &Login,
    start: impl Iterator<Item = Option<Place>>,
    facts: &mut Facts,
) {
    let mut next: Vec<_> = start.collect();
    let mut asked: BTreeSet<Option<Place>> = next.iter().cloned().collect();
    let mut runs = BTreeSet::new();
    while !next.is_empty() {
        let answers: Vec<_> = thread::scope(|scope| {
            let ask = |place: &Option<Place>| {
                let place = place.clone();
                scope.spawn(move || {
                    let examined = examine(access, place.as_ref(), login);
                    (place, examined)
                })
            };
            let started: Vec<_> = next.iter().map(ask).collect();
            started
                .into_iter()
                .filter_map(|one| one.join().ok())
                .collect()
        });
        next.clear();
        for (place, answer) in answers {
            match answer {
                Ok(examined) => {
                    for found in neighbours(&examined, place.as_ref(), facts) {
                        if asked.insert(Some(found.clone())) {
                            next.push(Some(found));
                        }
                    }
                    // One server may be known by several addresses.
                    if examined.run_id.is_none_or(|run| runs.insert(run)) {
                        facts.nodes.push(examined.node);
                    }
                }
                Err(why) => facts.unreached.push((address(access, place.as_ref()), why)),
            }
        }
    }
}

/// The servers that this one knows of.
fn neighbours(examined: &Examined, place: Option<&Place>, facts: &mut Facts) -> Vec<Place> {
    let node = &examined.node;
    let mut found = Vec::new();
    let mut add = |host: &str, port: u16| {
        // A node that does not know its own address is the one that was asked.
        let own = place.map(|place| place.host.as_str());
        let host = if host.is_empty() {
            own.unwrap_or_default()
        } else {
            host
        };
        found.push(Place {
            host: host.to_owned(),
            port,
        });
    };
    if let Some(text) = &examined.cluster_nodes {
        let (up, down) = cluster_nodes(text);
        for (host, port) in up {
            add(&host, port);
        }
        for address in down {
            let known = (address, "the cluster considers itself down".to_owned());
            if !facts.unreached.contains(&known) {
                facts.unreached.push(known);
            }
        }
        return found;
    }
    let primary = (node.told("master_host"), node.count("master_port"));
    if let (Ok(Some(host)), Ok(port)) = primary {
        add(host, u16::try_from(port).unwrap_or(0));
    }
    for replica in node.replicas().unwrap_or_default() {
        let port = replica.get("port").and_then(|port| port.parse().ok());
        if let (Some(host), Some(port)) = (replica.get("ip"), port) {
            add(host, port);
        }
    }
    found
}

/// Asks a Sentinel what it watches; gives the places of the servers.
fn ask_sentinel(
    access: &Access,
    c: &mut Conversation,
    facts: &mut Facts,
) -> Result<Vec<Place>, String> {
    let wanted = access.question.sentinel_name.as_ref();
    let masters = c.ask(&words("SENTINEL MASTERS"))?;
    let masters = masters.map_err(|error| format!("SENTINEL MASTERS is refused: {error}"))?;
    let sentinel = address(access, access.given_place().as_ref());
    let mut places = Vec::new();
    for fields in items(&masters).iter().map(pairs) {
        let name = fields.get("name").cloned().unwrap_or_default();
        if wanted.is_some_and(|wanted| *wanted != name) {
            continue;
        }
        let order = |word: &str| Cmd::new().arg("SENTINEL").arg(word).arg(&name).to_owned();
        let replicas = c.ask(&order("REPLICAS"))?.ok();
        let replicas = replicas.as_ref().map(items).unwrap_or_default();
        let servers = replicas.iter().map(pairs).chain([fields.clone()]);
        places.extend(servers.filter_map(|server| {
            Some(Place {
                host: server.get("ip")?.clone(),
                port: server.get("port")?.parse().ok()?,
            })
        }));
        let quorum = match c.ask(&order("CKQUORUM"))? {
            Err(error) if error.starts_with("NOQUORUM") => Ok(Some(error)),
            answer => {
                let allow = Fix::Run("ACL SETUSER USER +sentinel|ckquorum".to_owned());
                answered(answer, "SENTINEL CKQUORUM", &allow).map(|_| None)
            }
        };
        facts.watched.push(Watched {
            sentinel: sentinel.clone(),
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
