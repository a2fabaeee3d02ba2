//! What a crash loses, and saves that fail.

use super::Facts;
use crate::facts::{Node, set};
use crate::finding::{Fix, Judged, Verdict};

pub(super) fn persistence(_: &Facts, node: &Node) -> Judged {
    if node.count("aof_enabled")? == 1 {
        let fsync = node.setting("appendfsync")?.unwrap_or("everysec");
        let always = set("appendfsync", "always");
        return match fsync {
            "always" => Verdict::ok("appendfsync always: a crash loses nothing that was answered"),
            "everysec" => Verdict::ok(
                "appendfsync everysec: a crash of the machine loses about a second, or up to two",
            )
            .fix(always),
            other => Verdict::warning(format!(
                "appendfsync {other}: a crash of the machine loses what the system had not written"
            ))
            .fix(set("appendfsync", "everysec"))
            .fix(always),
        }
        .alone();
    }
    let aof = set("appendonly", "yes");
    let save = node.setting("save")?.unwrap_or_default();
    if save.is_empty() {
        let seen = "neither AOF nor save points: a crash or a restart loses every lock";
        return Verdict::error(seen).fix(aof).alone();
    }
    let seen = format!("save points only ({save}): a crash loses everything since the last save");
    Verdict::warning(seen).fix(aof).alone()
}

pub(super) fn save(_: &Facts, node: &Node) -> Judged {
    if node.told("rdb_last_bgsave_status")?.unwrap_or("ok") == "ok" {
        return Verdict::ok("the last background save went well").alone();
    }
    let folder = node.setting("dir").ok().flatten().unwrap_or("its folder");
    let look = Fix::Shell(format!("ls -ld {folder}; df -h {folder}"));
    let again = Fix::Run("BGSAVE".to_owned());
    let seen = format!("the last background save failed (in {folder})");
    let save_points = node.setting("save")?.unwrap_or_default() != "";
    let stops = node
        .setting("stop-writes-on-bgsave-error")?
        .unwrap_or("yes")
        == "yes";
    if save_points && stops {
        let seen = format!("{seen}: every write fails with MISCONF, renewals included");
        let go_on = set("stop-writes-on-bgsave-error", "no");
        return Verdict::error(seen).fix([look, again]).fix(go_on).alone();
    }
    Verdict::warning(seen).fix([look, again]).alone()
}

pub(super) fn aof(_: &Facts, node: &Node) -> Judged {
    if node.count("aof_enabled")? == 0 {
        return Ok(vec![]);
    }
    let folder = node.setting("dir").ok().flatten().unwrap_or("its folder");
    let look = Fix::Shell(format!("df -h {folder}; dmesg | tail"));
    if node.told("aof_last_write_status")?.unwrap_or("ok") != "ok" {
        let seen = "the last write of the AOF failed: every write fails with MISCONF";
        let room = Fix::Do("free disk space: the server retries automatically".to_owned());
        return Verdict::error(seen).fix([look, room]).alone();
    }
    if node.told("aof_last_bgrewrite_status")?.unwrap_or("ok") != "ok" {
        let again = Fix::Run("BGREWRITEAOF".to_owned());
        let seen = "the last rewrite of the AOF failed: the file grows";
        return Verdict::warning(seen).fix([look, again]).alone();
    }
    Verdict::ok("the AOF is written").alone()
}
