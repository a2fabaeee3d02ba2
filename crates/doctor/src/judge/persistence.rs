//! Losses in a crash, and saves that fail.

use crate::facts::Node;
use crate::finding::{Judged, act, advice, error, ok, ok_or, run, set, shell, warning};

pub(super) fn persistence(node: &Node) -> Judged {
    if node.count("aof_enabled")? == 1 {
        let fsync = node.setting("appendfsync")?.unwrap_or("everysec");
        let always = set("appendfsync", "always");
        let loses = "a crash of the machine loses";
        return match fsync {
            "always" => ok("appendfsync always: a crash loses nothing that was answered"),
            "everysec" => ok_or(
                format!("appendfsync everysec: {loses} about a second, or up to two"),
                always,
            ),
            other => warning(
                format!("appendfsync {other}: {loses} what the system had not written"),
                [set("appendfsync", "everysec"), always].concat(),
            ),
        };
    }
    let aof = set("appendonly", "yes");
    let save = node.setting("save")?.unwrap_or_default();
    if save.is_empty() {
        return error(
            "neither AOF nor save points: a crash or a restart loses every lock",
            aof,
        );
    }
    let seen = format!("save points only ({save}): a crash loses everything since the last save");
    advice(seen, aof)
}

pub(super) fn save(node: &Node) -> Judged {
    if node.told("rdb_last_bgsave_status")?.unwrap_or("ok") == "ok" {
        return ok("the last background save succeeded");
    }
    let folder = node.setting("dir").ok().flatten().unwrap_or("its folder");
    let look = shell([&format!("ls -ld {folder}; df -h {folder}")]);
    let fix = [look, run(["BGSAVE"])].concat();
    let seen = format!("the last background save failed (in {folder})");
    let name = "stop-writes-on-bgsave-error";
    let has_save_points = node.setting("save")?.unwrap_or_default() != "";
    if has_save_points && node.setting(name)?.unwrap_or("yes") == "yes" {
        let seen = format!("{seen}: every write fails with MISCONF, renewals included");
        return error(seen, [fix, set(name, "no")].concat());
    }
    warning(seen, fix)
}

pub(super) fn aof(node: &Node) -> Judged {
    if node.count("aof_enabled")? == 0 {
        return Ok(vec![]);
    }
    let folder = node.setting("dir").ok().flatten().unwrap_or("its folder");
    let look = shell([&format!("df -h {folder}; dmesg | tail")]);
    if node.told("aof_last_write_status")?.unwrap_or("ok") != "ok" {
        let seen = "the last write of the AOF failed: every write fails with MISCONF";
        let room = act("free disk space: the server retries automatically");
        return error(seen, [look, room].concat());
    }
    if node.told("aof_last_bgrewrite_status")?.unwrap_or("ok") != "ok" {
        let seen = "the last rewrite of the AOF failed: the file grows";
        return warning(seen, [look, run(["BGREWRITEAOF"])].concat());
    }
    ok("the AOF is written")
}
