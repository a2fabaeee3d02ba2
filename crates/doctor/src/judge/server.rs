//! The module, the server that loads it, the server's commands, and what a crash of the server loses.

use super::settings;
use crate::facts::{Facts, Node};
use crate::finding::Severity::{Advice, Error, Fine, Warning};
use crate::finding::{Fix, Judged, act, conf, first, known, ok, only, or_ok, run, set, shell};

/// Where `make install` puts the module.
const INSTALLED: &str = "/usr/local/lib/redis/modules/libredis_lock.so";
/// The versions that the tests run on, as in `scripts/servers.txt`.
pub(super) const TESTED: [&str; 4] = ["Redis 7.0", "Redis 8.2", "Valkey 8.1", "Valkey 9.1"];
/// The versions that `MODULE LOADEX` can crash (docs/install.md).
const CRASH_AT_LOADEX: [&str; 4] = ["Redis 7.2", "Redis 7.4", "Valkey 8.1", "Valkey 9.1"];

pub(super) fn module(facts: &Facts, node: &Node) -> Judged {
    if let Some(module) = known(node.module())? {
        return ok(format!("module lock {}", written(module.version)));
    }
    let mut loaded = facts.nodes.iter().filter_map(|node| node.module().ok());
    let path = loaded.find_map(|module| module.path.as_deref());
    let line = format!("loadmodule {}", path.unwrap_or(INSTALLED));
    let load = run(line.replace("loadmodule", "MODULE LOAD"));
    let load = [conf(line), load].concat();
    let seen = "the module lock is not loaded";
    let absent = node.absent.as_ref();
    if absent.is_ok_and(|absent| absent.contains("del")) {
        let seen = format!("{seen}, and cannot be loaded: DEL is renamed or disabled");
        return Error.says(seen, [not_renamed("DEL"), load].concat());
    }
    Error.says(seen, load)
}

pub(super) fn version(facts: &Facts, node: &Node) -> Judged {
    let module = node.module()?;
    let loaded = facts.nodes.iter().filter_map(|node| node.module().ok());
    let newest = loaded.map(|module| module.version).max();
    let (own, newest) = (module.version, newest.unwrap_or(module.version));
    let latest = written(newest);
    let path = module.path.as_deref().unwrap_or(INSTALLED);
    let install = act(format!("install version {latest} at {path} and restart"));
    let fix = [install, conf(format!("loadmodule {path}"))].concat();
    let primary = facts.primary_of(node).and_then(Node::module);
    let is_behind = primary.is_ok_and(|theirs| theirs.version > own);
    let differs = format!("another server has {latest}");
    let cases = [
        (is_behind, Error, "its primary has a newer one", fix.clone()),
        (own != newest, Warning, &differs, fix),
    ];
    first(format!("version {}", written(own)), cases)
}

pub(super) fn server(node: &Node) -> Judged {
    let (name, version) = node.server()?;
    let seen = format!("{name} {version}");
    let (major, minor) = node.version()?;
    if name == "Redis" && major < 7 {
        return Error.says(seen, act("upgrade to Redis 7.0 or later, or to Valkey"));
    }
    let line = format!("{name} {major}.{minor}");
    let one_of = |lines: &[&str]| lines.contains(&line.as_str());
    let tested = if one_of(&TESTED) {
        "of a release line that the module is tested on"
    } else {
        "the module is tested on other versions"
    };
    let crash = if one_of(&CRASH_AT_LOADEX) {
        "; MODULE LOADEX with an unknown setting crashes it"
    } else {
        ""
    };
    ok(format!("{seen}: {tested}{crash}"))
}

/// Lists other modules for the reader of the report. Tests show that they do no harm.
pub(super) fn neighbours(node: &Node) -> Judged {
    let modules = node.modules.as_ref().map_err(Clone::clone)?;
    let others = modules.iter().filter(|module| module.name != "lock");
    let names: Vec<_> = others.map(|module| module.name.as_str()).collect();
    ok(match names.as_slice() {
        [] => "no other module".to_owned(),
        names => format!("other modules: {}", names.join(", ")),
    })
}

pub(super) fn commands(node: &Node) -> Judged {
    let mut found = Vec::new();
    for command in node.absent.as_ref().map_err(Clone::clone)? {
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
        found.extend(Warning.says(seen, not_renamed(&name))?);
    }
    or_ok(found, "no command that the module needs is renamed")
}

fn not_renamed(command: &str) -> Vec<Fix> {
    act(format!(
        "delete the line \"rename-command {command} …\" from redis.conf and restart; \
         keep users from {command} by ACL rules"
    ))
}

/// Formats a version number: `0.3.0` for 300.
fn written(version: u32) -> String {
    let (major, minor) = (version / 10_000, version / 100 % 100);
    format!("{major}.{minor}.{}", version % 100)
}

/// Checks where the configuration loads the module.
pub(super) fn files(node: &Node) -> Judged {
    only(!node.told("config_file")?.is_empty())?;
    let Some(files) = &node.files else {
        let seen = "the configuration file is not on this machine, or may not be read: a loadmodule line belongs in \
                    the server's own file, not into an included one";
        let look = "grep -r '^ *loadmodule' /etc/redis /etc/valkey /etc/redis-lock";
        return Fine.says(seen, shell(look));
    };
    let own = &files.own;
    let mut found = Vec::new();
    for (path, module) in &files.included {
        let line = format!("the line \"loadmodule {module}\" from {path}");
        let twice = format!("{own} and {path} both load it, and the next start fails");
        let delete = act(format!("delete {line}"));
        let rewrite = "after a CONFIG REWRITE the server does not start";
        let cases = [
            (files.loads.contains(module), Error, twice.as_str(), delete),
            (true, Warning, rewrite, act(format!("move {line} to {own}"))),
        ];
        let seen = format!("{path}, which {own} includes, loads {module}");
        found.extend(first(seen, cases)?);
    }
    or_ok(found, "no included file loads a module")
}

pub(super) fn persistence(node: &Node) -> Judged {
    if node.count("aof_enabled")? == 1 {
        return settings::value(node, "appendfsync");
    }
    let save = node.setting("save")?;
    let aof = set("appendonly", "yes");
    let every = "a crash or a restart loses every lock";
    let since = "a crash loses everything since the last save";
    let cases = [
        (save.is_empty(), Error, every, aof.clone()),
        (true, Advice, since, aof),
    ];
    let seen = match save {
        "" => "neither AOF nor save points".to_owned(),
        save => format!("save points only ({save})"),
    };
    first(seen, cases)
}

pub(super) fn save(node: &Node) -> Judged {
    let status = node.told("rdb_last_bgsave_status")?;
    let folder = node.setting("dir").unwrap_or("its folder");
    let look = shell(format!("ls -ld {folder}; df -h {folder}"));
    let fix = [look, run("BGSAVE")].concat();
    let name = "stop-writes-on-bgsave-error";
    let failed = status != "ok";
    let stops = failed && !node.setting("save")?.is_empty() && node.setting(name)? == "yes";
    let refused = "every write fails with MISCONF, renewals included";
    let allow = [fix.clone(), set(name, "no")].concat();
    let cases = [
        (stops, Error, refused, allow),
        (failed, Warning, "it failed", fix),
    ];
    let seen = format!("the status of the last background save is {status} (in {folder})");
    first(seen, cases)
}

pub(super) fn aof(node: &Node) -> Judged {
    only(node.count("aof_enabled")? == 1)?;
    let (write, rewrite) = ("aof_last_write_status", "aof_last_bgrewrite_status");
    let failed = |field| Ok(node.told(field)? != "ok");
    let folder = node.setting("dir").unwrap_or("its folder");
    let look = shell(format!("df -h {folder}; dmesg | tail"));
    let room = act("free disk space: the server retries automatically");
    let room = [look.clone(), room].concat();
    let again = [look, run("BGREWRITEAOF")].concat();
    let refused = "its last write failed, and every write fails with MISCONF";
    let grows = "its last rewrite failed, and the file grows";
    let cases = [
        (failed(write)?, Error, refused, room),
        (failed(rewrite)?, Warning, grows, again),
    ];
    first(format!("the AOF in {folder}"), cases)
}
