//! Asks one server for all facts that the checks need.

use crate::Access;
use crate::ask::Asker;
use crate::facts::{Clock, Module, Node, Write};
use crate::finding::{Seen, Unseen, only, unseen};
use crate::{files, sessions, users};
use redis::{Cmd, Value, cmd};
use redis_lock_tool::{Target, items, lines, names, text};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// The settings that the checks read. None of them is a password.
const SETTINGS: &str = "appendfsync appendonly busy-reply-threshold cluster-allow-reads-when-down cluster-node-timeout \
    cluster-require-full-coverage dir latency-monitor-threshold lock.* maxclients maxmemory \
    maxmemory-policy min-replicas-max-lag min-replicas-to-write protected-mode replica-read-only save \
    slowlog-log-slower-than stop-writes-on-bgsave-error tcp-keepalive timeout tls-cluster tls-port";

/// The commands that the module or a program with locks needs.
const COMMANDS: [&str; 6] = ["del", "client", "cluster", "config", "wait", "restore"];
/// How often the clock is read. The fastest reply is the most exact one.
const CLOCK_QUESTIONS: usize = 5;
/// How many entries of the slow log are read.
const SLOW_ENTRIES: usize = 128;
/// The prefix of the names for the test write.
const NO_SUCH_LOCK: &str = "lock:doctor:no-such-lock:";
/// How many names are tried to find one whose slot is on this node.
const NAMES: usize = 64;

/// Asks a server for everything. The error is that of the connection.
pub(crate) fn examine(access: &Access, target: &Target) -> Result<Node, String> {
    let mut c = Asker::connect(target)?;
    let raw = c.look("INFO everything", "+info").map(|value| text(&value));
    let info = raw.clone().map(|text| lines(&text));
    let has = |name: &str, value: &str| {
        let info = info.as_ref().ok().and_then(|info| info.get(name));
        info.is_some_and(|told| told == value)
    };
    let (in_cluster, is_replica) = (has("cluster_enabled", "1"), has("role", "slave"));
    let mut cluster = Err(Unseen::Absent);
    let mut cluster_nodes = None;
    if in_cluster {
        let told = c.look("CLUSTER INFO", "+cluster|info");
        cluster = told.map(|value| lines(&text(&value)));
        let nodes = c.look("CLUSTER NODES", "+cluster|nodes");
        cluster_nodes = nodes.ok().map(|value| text(&value));
    }
    let config = c.look(&format!("CONFIG GET {SETTINGS}"), "+config|get");
    let commands = format!("COMMAND INFO {}", COMMANDS.join(" "));
    let commands = c.look(&commands, "+command|info");
    let slow = c.look(&format!("SLOWLOG GET {SLOW_ENTRIES}"), "+slowlog|get");
    let spikes = c.look("LATENCY LATEST", "+latency|latest");
    let node = Node {
        address: target.address(),
        modules: loaded(&mut c, raw),
        config: config.map(|value| names(&value)),
        absent: commands.map(|value| missing(&value)),
        clock: clock(&mut c),
        slow: slow.map(|value| slowest(&value)),
        spikes: spikes.map(|value| longest(&value)),
        users: users::examine(&mut c, access),
        sessions: sessions::examine(&mut c),
        files: info.as_ref().ok().and_then(files::read),
        open: open(target),
        write: only(!is_replica).and_then(|()| write(&mut c, in_cluster)),
        cluster,
        cluster_nodes,
        info,
    };
    c.end()?;
    Ok(node)
}

/// The loaded modules from `INFO`, with their paths if the login may run `MODULE LIST`.
fn loaded(c: &mut Asker, info: Seen<String>) -> Seen<Vec<Module>> {
    let list = c.look("MODULE LIST", "+module|list");
    let mut found = modules(&info?);
    for entry in list.as_ref().map(items).unwrap_or_default() {
        let fields = names(entry);
        let named = |module: &&mut Module| Some(&module.name) == fields.get("name");
        if let Some(module) = found.iter_mut().find(named) {
            module.path = fields.get("path").cloned();
        }
    }
    Ok(found)
}

/// The modules of `INFO modules`, whose lines all have the same name.
fn modules(text: &str) -> Vec<Module> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("module:name="));
    let module = |line: &str| {
        let (name, rest) = line.split_once(',').unwrap_or((line, ""));
        let version = rest.split(',').find_map(|part| part.strip_prefix("ver="));
        Module {
            name: name.to_owned(),
            version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
            path: None,
        }
    };
    lines.map(module).collect()
}

/// The commands that `COMMAND INFO` does not know.
fn missing(reply: &Value) -> BTreeSet<String> {
    let entries = COMMANDS.iter().zip(items(reply));
    let absent = entries.filter(|(_, entry)| items(entry).is_empty());
    absent.map(|(name, _)| (*name).to_owned()).collect()
}

/// The slowest run of each command in the slow log. The arguments are left out, because they may be private.
fn slowest(reply: &Value) -> Vec<(String, u64)> {
    let mut found = BTreeMap::new();
    for entry in items(reply) {
        let [_, _, Value::Int(micros), arguments, ..] = items(entry) else {
            continue;
        };
        let name = items(arguments).first().map(text).unwrap_or_default();
        let name = name.chars().take(64).collect::<String>().to_uppercase();
        let most = found.entry(name).or_default();
        *most = u64::max(*most, u64::try_from(*micros).unwrap_or(0) / 1000);
    }
    found.into_iter().collect()
}

/// The longest time of each event in `LATENCY LATEST`.
fn longest(reply: &Value) -> Vec<(String, u64)> {
    let events = items(reply).iter().filter_map(|entry| match items(entry) {
        [event, _, _, Value::Int(ms), ..] => Some((text(event), u64::try_from(*ms).unwrap_or(0))),
        _ => None,
    });
    events.collect()
}

/// The current time in microseconds since 1970.
fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

/// How far the server's clock is ahead of this machine's clock, by the fastest reply.
fn clock(c: &mut Asker) -> Seen<Clock> {
    let mut ask = |_| {
        let sent = now_micros();
        let time = c.look("TIME", "+time")?;
        let took = (now_micros() - sent).max(0);
        let parts = items(&time).iter();
        let parts: Vec<i64> = parts.filter_map(|part| text(part).parse().ok()).collect();
        let [seconds, micros] = parts[..] else {
            return Err(unseen("TIME has an unknown form"));
        };
        let there = seconds.saturating_mul(1_000_000).saturating_add(micros);
        Ok(Clock {
            ahead_ms: (there - (sent + took / 2)) / 1000,
            inexact_ms: took / 2000 + 1,
        })
    };
    let clocks: Vec<_> = (0..CLOCK_QUESTIONS).map(&mut ask).collect::<Seen<_>>()?;
    let best = clocks.into_iter().min_by_key(|clock| clock.inexact_ms);
    best.ok_or(Unseen::Absent)
}

/// Whether a connection without a login may run a command.
fn open(target: &Target) -> Seen<bool> {
    if target.login() == (None, None) {
        return Ok(true);
    }
    let answer = target.with_login((None, None)).link().ask(&cmd("PING"));
    match answer.map_err(|error| format!("no connection without a login: {error}")) {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) | Err(error) if error.contains("NOAUTH") => Ok(false),
        Ok(Err(error)) => Err(unseen(format!("without a login, PING fails with {error}"))),
        Err(error) => Err(unseen(error)),
    }
}

/// Deletes a missing key, which is a write that changes nothing. This must be the last question, because the connection
/// is unusable if no reply arrives.
fn write(c: &mut Asker, in_cluster: bool) -> Seen<Write> {
    let run = now_micros();
    for number in 0..NAMES {
        let name = format!("{NO_SUCH_LOCK}{run}:{number}");
        let delete = Cmd::new().arg("DEL").arg(name).to_owned();
        // The server has just answered other commands on this connection, so no reply means that writes are paused.
        let Some(answer) = c.with(|link| link.ask_in_time(&delete))? else {
            return Ok(Write::Held);
        };
        match answer {
            Ok(_) => return Ok(Write::Taken),
            Err(error) if in_cluster && error.starts_with("MOVED") => {}
            Err(error) if error.starts_with("NOPERM") || error.contains("unknown command") => {
                let what = "DEL of a key that does not exist";
                let rights = format!("+del ~{NO_SUCH_LOCK}*");
                return c.allowed(Err(error), what, &rights).map(|_| Write::Taken);
            }
            Err(error) => return Ok(Write::Refused(error)),
        }
    }
    Err(unseen(
        "no key in the node's own slots was found for a test write",
    ))
}

#[cfg(test)]
mod tests {
    use super::modules;

    #[test]
    fn the_modules_of_info_are_told_apart() {
        let info = "# Modules\r\nmodule:name=lua,ver=1,api=1,filters=0\r\n\
                    module:name=lock,ver=200,api=1,options=[handle-io-errors]\r\n";
        let found = modules(info);
        assert_eq!((found[0].name.as_str(), found[0].version), ("lua", 1));
        assert_eq!((found[1].name.as_str(), found[1].version), ("lock", 200));
    }
}
