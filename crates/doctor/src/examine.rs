//! Asking one server for everything that the checks want to know of it.

use crate::access::{Access, Answer, Conversation, Login, Place, words};
use crate::facts::{Clock, Fields, Module, Node, Seen, Write};
use crate::finding::{Fix, Unseen};
use crate::replies::{items, lines, modules, pairs, text};
use crate::users;
use redis::{Cmd, Value, cmd};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The settings that checks ask for; passwords are not among them.
const SETTINGS: [&str; 23] = [
    "appendfsync",
    "appendonly",
    "busy-reply-threshold",
    "cluster-allow-reads-when-down",
    "cluster-node-timeout",
    "cluster-require-full-coverage",
    "dir",
    "latency-monitor-threshold",
    "lock.*",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "protected-mode",
    "replica-read-only",
    "save",
    "slowlog-log-slower-than",
    "stop-writes-on-bgsave-error",
    "tcp-keepalive",
    "timeout",
    "tls-cluster",
    "tls-port",
];

/// The commands without which the module, or a program with locks, lacks something.
const COMMANDS: [&str; 6] = ["del", "client", "cluster", "config", "wait", "restore"];
/// How often the clock is asked: the quickest answer is the most exact.
const CLOCK_QUESTIONS: usize = 5;
/// How many entries of the slow log are looked at.
const SLOW_ENTRIES: usize = 128;
/// How the names begin that a write is tried on.
const NO_SUCH_LOCK: &str = "lock:doctor:no-such-lock:";
/// How many names are tried for one whose slot is on this node.
const NAMES: usize = 64;

/// A server that answers.
pub(crate) struct Examined {
    pub(crate) node: Node,
    /// What tells whether two addresses are one server.
    pub(crate) run_id: Option<String>,
    pub(crate) cluster_nodes: Option<String>,
}

/// Asks a server everything. The error is that of the connection.
pub(crate) fn examine(
    access: &Access,
    place: Option<&Place>,
    login: &Login,
) -> Result<Examined, String> {
    let mut c = access.connect(place, login)?;
    let me = whoami(&mut c, login)?;
    let allow = |rights: &str| Fix::Run(format!("ACL SETUSER {me} {rights}"));
    let info = answered(
        c.ask(cmd("INFO").arg("everything"))?,
        "INFO",
        &allow("+info"),
    );
    let raw = info.map(|value| text(&value));
    let info = raw.clone().map(|text| lines(&text));
    let in_cluster = info
        .as_ref()
        .is_ok_and(|info| is(info, "cluster_enabled", "1"));
    let is_replica = info.as_ref().is_ok_and(|info| is(info, "role", "slave"));

    let config = c.ask(cmd("CONFIG").arg("GET").arg(&SETTINGS))?;
    let config = answered(config, "CONFIG GET", &allow("+config|get"));
    let absent = c.ask(cmd("COMMAND").arg("INFO").arg(&COMMANDS))?;
    let absent = answered(absent, "COMMAND INFO", &allow("+command|info"));
    let slow = c.ask(cmd("SLOWLOG").arg("GET").arg(SLOW_ENTRIES))?;
    let slow = answered(slow, "SLOWLOG GET", &allow("+slowlog|get"));
    let spikes = c.ask(&words("LATENCY LATEST"))?;
    let spikes = answered(spikes, "LATENCY LATEST", &allow("+latency|latest"));
    let mut cluster = Ok(Fields::new());
    let mut cluster_nodes = None;
    if in_cluster {
        let told = c.ask(&words("CLUSTER INFO"))?;
        let told = answered(told, "CLUSTER INFO", &allow("+cluster|info"));
        cluster = told.map(|value| lines(&text(&value)));
        let nodes = c.ask(&words("CLUSTER NODES"))?;
        cluster_nodes = nodes.ok().map(|value| text(&value));
    }
    let node = Node {
        address: address(access, place),
        modules: loaded(&mut c, raw.as_deref())?,
        config: config.map(|value| pairs(&value)),
        absent: absent.map(|value| missing(&value)),
        clock: clock(&mut c, &allow("+time"))?,
        slow: slow.map(|value| slowest(&value)),
        spikes: spikes.map(|value| longest(&value)),
        users: users::examine(&mut c, &access.question, &me)?,
        open: open(access, place, login),
        write: if is_replica {
            Ok(Write::Replica)
        } else {
            write(c, in_cluster, &allow(&format!("+del ~{NO_SUCH_LOCK}*")))
        },
        cluster,
        info,
    };
    let run_id = node.told("run_id").ok().flatten().map(str::to_owned);
    Ok(Examined {
        node,
        run_id,
        cluster_nodes,
    })
}

/// Where a server is, as the report names it.
pub(crate) fn address(access: &Access, place: Option<&Place>) -> String {
    place.map_or_else(
        || access.given.addr().to_string(),
        |Place { host, port }| {
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        },
    )
}

fn whoami(c: &mut Conversation, login: &Login) -> Result<String, String> {
    let told = c.ask(&words("ACL WHOAMI"))?.map(|value| text(&value));
    let known = login.user.clone().unwrap_or_else(|| "default".to_owned());
    Ok(told.unwrap_or(known))
}

/// What was answered; where it was refused, why, and what would allow it.
pub(crate) fn answered(answer: Answer, what: &str, allow: &Fix) -> Seen<Value> {
    answer.map_err(|error| {
        let unseen = Unseen::new(format!("{what} is refused: {error}"));
        if error.starts_with("NOPERM") {
            return unseen.fix(allow.clone());
        }
        unseen
    })
}

fn is(fields: &Fields, name: &str, value: &str) -> bool {
    fields.get(name).is_some_and(|has| has == value)
}

/// The loaded modules, by `INFO`; with paths where `MODULE LIST` may be asked.
fn loaded(c: &mut Conversation, info: Result<&str, &Unseen>) -> Result<Seen<Vec<Module>>, String> {
    let list = c.ask(&words("MODULE LIST"))?;
    let mut found = match info {
        Ok(info) => modules(info),
        Err(unseen) => return Ok(Err(unseen.clone())),
    };
    for entry in list.as_ref().map(items).unwrap_or_default() {
        let fields = pairs(entry);
        let named = |module: &&mut Module| Some(&module.name) == fields.get("name");
        if let Some(module) = found.iter_mut().find(named) {
            module.path = fields.get("path").cloned();
        }
    }
    Ok(Ok(found))
}

/// The commands that `COMMAND INFO` does not know.
fn missing(reply: &Value) -> BTreeSet<String> {
    let entries = COMMANDS.iter().zip(items(reply));
    let absent = entries.filter(|(_, entry)| items(entry).is_empty());
    absent.map(|(name, _)| (*name).to_owned()).collect()
}

/// The slowest command of each name in the slow log. What it was given stays out: it may be private.
fn slowest(reply: &Value) -> Vec<(String, u64)> {
    let mut found = Vec::<(String, u64)>::new();
    for entry in items(reply) {
        let [_, _, Value::Int(micros), arguments, ..] = items(entry) else {
            continue;
        };
        let name = items(arguments).first().map(text).unwrap_or_default();
        let name = name.chars().take(64).collect::<String>().to_uppercase();
        let ms = u64::try_from(*micros).unwrap_or(0) / 1000;
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, most)) => *most = ms.max(*most),
            None => found.push((name, ms)),
        }
    }
    found
}

/// The longest time of each event in `LATENCY LATEST`.
fn longest(reply: &Value) -> Vec<(String, u64)> {
    let events = items(reply).iter().filter_map(|entry| match items(entry) {
        [event, _, _, Value::Int(ms), ..] => Some((text(event), u64::try_from(*ms).unwrap_or(0))),
        _ => None,
    });
    events.collect()
}

/// How far the server's clock is ahead of ours.
fn clock(c: &mut Conversation, allow: &Fix) -> Result<Seen<Clock>, String> {
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
    };
    let mut best = None::<Clock>;
    for _ in 0..CLOCK_QUESTIONS {
        let sent = now();
        let time = match answered(c.ask(&cmd("TIME"))?, "TIME", allow) {
            Ok(time) => time,
            Err(unseen) => return Ok(Err(unseen)),
        };
        let took = (now() - sent).max(0);
        let parts: Vec<i64> = items(&time)
            .iter()
            .filter_map(|part| text(part).parse().ok())
            .collect();
        let [seconds, micros] = parts[..] else {
            return Ok(Err(Unseen::new("TIME has an unknown form")));
        };
        let there = seconds.saturating_mul(1_000_000).saturating_add(micros);
        let clock = Clock {
            ahead_ms: (there - (sent + took / 2)) / 1000,
            inexact_ms: took / 2000 + 1,
        };
        if best.is_none_or(|best| clock.inexact_ms < best.inexact_ms) {
            best = Some(clock);
        }
    }
    Ok(best.ok_or_else(|| Unseen::new("TIME was not answered")))
}

/// Whether a connection without a login may do something.
fn open(access: &Access, place: Option<&Place>, login: &Login) -> Seen<bool> {
    if login.user.is_none() && login.password.is_none() {
        return Ok(true);
    }
    let nobody = Login::default();
    let answer = access
        .connect(place, &nobody)
        .and_then(|mut c| c.ask(&cmd("PING")));
    match answer {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) if error.starts_with("NOAUTH") => Ok(false),
        Ok(Err(error)) => Err(Unseen::new(format!(
            "without a login, PING fails with {error}"
        ))),
        Err(error) if error.contains("NOAUTH") => Ok(false),
        Err(error) => Err(Unseen::new(format!(
            "no connection without a login: {error}"
        ))),
    }
}

/// Deletes a key that is not there: a write that changes nothing. An answer that never comes spoils the
/// connection, so this one is the last that is asked.
fn write(mut c: Conversation, in_cluster: bool, allow: &Fix) -> Seen<Write> {
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_nanos();
    for number in 0..NAMES {
        let name = format!("{NO_SUCH_LOCK}{run}:{number}");
        let answer = c.ask_in_time(Cmd::new().arg("DEL").arg(name));
        // Other commands were answered a moment ago, on this very connection.
        let Some(answer) = answer.map_err(Unseen::new)? else {
            return Ok(Write::Held);
        };
        match answer {
            Ok(_) => return Ok(Write::Taken),
            Err(error) if in_cluster && error.starts_with("MOVED") => {}
            Err(error) if error.starts_with("NOPERM") || error.contains("unknown command") => {
                return answered(Err(error), "DEL of a name that is not there", allow)
                    .map(|_| Write::Taken);
            }
            Err(error) => return Ok(Write::Refused(error)),
        }
    }
    Err(Unseen::new(
        "no key in the node's own slots was found for a test write",
    ))
}
