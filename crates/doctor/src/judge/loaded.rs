//! The module, the server that loads it, and its commands.

use crate::facts::{Facts, Module, Node};
use crate::finding::{Fix, Judged, act, error, ok, or_ok, warning};

/// Where `make install` puts the module.
const INSTALLED: &str = "/usr/local/lib/redis/modules/libredis_lock.so";
/// The versions that the tests run on: those of `scripts/servers.txt`.
pub(super) const TESTED: [&str; 4] = ["Redis 7.0", "Redis 8.2", "Valkey 8.1", "Valkey 9.1"];
/// The versions of which docs/install.md says that `MODULE LOADEX` can end them.
const CRASH_AT_LOADEX: [&str; 4] = ["Redis 7.2", "Redis 7.4", "Valkey 8.1", "Valkey 9.1"];

pub(super) fn module(facts: &Facts, node: &Node) -> Judged {
    if let Some(module) = node.module()? {
        return ok(format!("module lock {}", written(module.version)));
    }
    let mut known = facts.nodes.iter().filter_map(|node| node.module().ok()?);
    let path = known.find_map(|module| module.path.clone());
    let path = path.unwrap_or_else(|| INSTALLED.to_owned());
    let mut seen = "the module lock is not loaded".to_owned();
    let mut fix = vec![
        Fix::Conf(format!("loadmodule {path}")),
        Fix::Run(format!("MODULE LOAD {path}")),
    ];
    let absent = node.absent.as_ref();
    if absent.is_ok_and(|absent| absent.contains("del")) {
        seen.push_str(", and cannot be loaded: DEL is renamed or disabled");
        fix.splice(0..0, not_renamed("DEL"));
    }
    error(seen, fix)
}

pub(super) fn version(facts: &Facts, node: &Node) -> Judged {
    let Some(module) = node.module()? else {
        return Ok(vec![]);
    };
    let number = |node: &Node| {
        let module: Option<&Module> = node.module().ok().flatten();
        module.map(|module| module.version)
    };
    let newest = facts.nodes.iter().filter_map(number).max();
    let newest = newest.unwrap_or(module.version);
    let own = written(module.version);
    if module.version == newest {
        return ok(format!("version {own}, the newest here"));
    }
    let path = module.path.as_deref().unwrap_or(INSTALLED);
    let newest = written(newest);
    let mut fix = act(format!("install version {newest} at {path} and restart"));
    fix.push(Fix::Conf(format!("loadmodule {path}")));
    let primary = facts.primary_of(node).filter(|_| node.is_replica());
    let theirs = primary.and_then(number);
    if theirs.is_some_and(|theirs| theirs > module.version) {
        let seen = format!("a replica with version {own}, its primary has a newer one");
        return error(seen, fix);
    }
    warning(format!("version {own}, another server has {newest}"), fix)
}

pub(super) fn server(node: &Node) -> Judged {
    let (name, (major, minor, patch)) = node.server()?;
    let line = format!("{name} {major}.{minor}");
    let seen = format!("{line}.{patch}");
    if name == "Redis" && major < 7 {
        return error(seen, act("upgrade to Redis 7.0 or later, or to Valkey"));
    }
    let tested = if TESTED.contains(&line.as_str()) {
        "of a release line that the module is tested on"
    } else {
        "the module is tested on other versions"
    };
    let crash = if CRASH_AT_LOADEX.contains(&line.as_str()) {
        "; MODULE LOADEX with an unknown setting crashes it"
    } else {
        ""
    };
    ok(format!("{seen}: {tested}{crash}"))
}

/// Other modules do no harm, as tests show: they are listed for the reader of the report.
pub(super) fn neighbours(node: &Node) -> Judged {
    let modules = node.modules.as_ref().map_err(Clone::clone)?;
    let others = modules.iter().filter(|module| module.name != "lock");
    let names: Vec<_> = others.map(|module| module.name.as_str()).collect();
    if names.is_empty() {
        return ok("no other module");
    }
    ok(format!("other modules: {}", names.join(", ")))
}

pub(super) fn commands(node: &Node) -> Judged {
    let absent = node.absent.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for command in absent {
        let hurts = match command.as_str() {
            "client" => {
                "after a stall, a waiting client that has disconnected may be granted the lock"
            }
            "wait" => "no program can find out whether replicas have its grant",
            "config" | "cluster" if node.in_cluster() => {
                "the module cannot redirect its waiters when a slot moves"
            }
            _ => continue,
        };
        let name = command.to_uppercase();
        let seen = format!("{name} is renamed or disabled: {hurts}");
        found.extend(warning(seen, not_renamed(&name))?);
    }
    or_ok(found, "no command that the module needs is renamed")
}

fn not_renamed(command: &str) -> Vec<Fix> {
    act(format!(
        "delete the line \"rename-command {command} …\" from redis.conf and restart; \
         keep users from {command} by ACL rules"
    ))
}

/// `0.3.0` for 300.
fn written(version: u32) -> String {
    let (major, minor) = (version / 10_000, version / 100 % 100);
    format!("{major}.{minor}.{}", version % 100)
}
