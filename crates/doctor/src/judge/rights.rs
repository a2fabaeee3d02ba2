//! Who may do what.

use super::Facts;
use crate::facts::{Node, User, set};
use crate::finding::{Fix, Judged, Verdict};
use crate::users::{NEEDED, OF_USE};
use std::collections::BTreeSet;

/// The rule of docs/operations/users.md for programs, but for the name.
pub(super) const RULE: &str = "on >secret resetkeys ~lock:* resetchannels -@all +@connection -@dangerous \
    +lock.acquire +lock.release +lock.renew +lock.fence +lock.info +info +cluster|slots +cluster|nodes \
    +cluster|info +cluster|myid";

/// A user that may open sessions needs these, too.
const OPEN: &str = "LOCK.SESSION|OPEN";
const OF_SESSIONS: [&str; 3] = [
    "LOCK.SESSION|POLL",
    "LOCK.SESSION|GRANTS",
    "LOCK.SESSION|CLOSE",
];

pub(super) fn open(_: &Facts, node: &Node) -> Judged {
    let open = node.open.as_ref().map_err(Clone::clone)?;
    if !open {
        return Verdict::ok("clients without a login may do nothing").alone();
    }
    let guarded = node.setting("protected-mode")?.unwrap_or("no") == "yes";
    let close = Fix::Run("ACL SETUSER default resetpass >PASSWORD".to_owned());
    let keep = Fix::Conf("requirepass PASSWORD".to_owned());
    let seen = "the user default has no password: every client may free every lock";
    if guarded {
        let seen = format!("{seen}; protected-mode lets only this machine connect");
        return Verdict::ok(seen).fix([close, keep]).alone();
    }
    Verdict::warning(seen)
        .fix([close, keep])
        .fix(set("protected-mode", "yes"))
        .alone()
}

pub(super) fn rights(_: &Facts, node: &Node) -> Judged {
    if node.module()?.is_none() {
        return Ok(vec![]);
    }
    let users = node.users.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for user in users {
        found.extend(judge(user));
    }
    if found.is_empty() {
        let names: Vec<_> = users.iter().map(|user| user.name.as_str()).collect();
        let seen = format!(
            "users who acquire locks have the permissions they need: {}",
            names.join(", ")
        );
        return Verdict::ok(seen).alone();
    }
    Ok(found)
}

fn judge(user: &User) -> Option<Verdict> {
    let name = &user.name;
    let grant = |rights: &str| Fix::Run(format!("ACL SETUSER {name} {rights}"));
    if !user.exists {
        let seen = format!("there is no user {name} here");
        return Some(Verdict::error(seen).fix([grant(RULE)]));
    }
    if !user.enabled {
        return Some(Verdict::error(format!("the user {name} is off")).fix([grant("on")]));
    }
    let lacks = |wanted: &[&str]| {
        let denied = wanted
            .iter()
            .filter(|command| user.denied.contains(**command));
        denied
            .map(|command| (*command).to_owned())
            .collect::<Vec<_>>()
    };
    let needed = lacks(&NEEDED);
    if !needed.is_empty() {
        let seen = format!("the user {name} may not run {}", needed.join(", "));
        return Some(Verdict::error(seen).fix([grant(&plus(&needed))]));
    }
    if let (true, Some(key)) = (user.named, &user.key_denied) {
        let seen = format!("the user {name} has no access to the key {key}");
        return Some(Verdict::error(seen).fix([grant(&format!("~{key}")), grant("~lock:*")]));
    }
    let sessions = lacks(&OF_SESSIONS);
    if !sessions.is_empty() && !user.denied.contains(OPEN) {
        let seen = format!(
            "the user {name} may open sessions, but not run {}",
            sessions.join(", ")
        );
        return Some(Verdict::error(seen).fix([grant(&plus(&sessions))]));
    }
    let of_use = lacks(&OF_USE);
    if user.named && !of_use.is_empty() {
        let seen = format!(
            "the user {name} may take locks, and not run {}: as it should be, unless a program wants to look \
             (LOCK.INFO, LOCK.HOLDERS, INFO), to fence in scripts (LOCK.FENCE), to free by force (DEL), to \
             wait for replicas (WAIT) or to use sessions (LOCK.SESSION)",
            of_use.join(", ")
        );
        return Some(Verdict::ok(seen).fix([grant(&plus(&of_use))]));
    }
    None
}

fn plus(commands: &[String]) -> String {
    let rights = commands
        .iter()
        .map(|command| format!("+{}", command.to_lowercase()));
    rights.collect::<Vec<_>>().join(" ")
}

/// Users are not replicated: whoever may take locks on the primary must be known where it hands over.
pub(super) fn same_users(facts: &Facts, node: &Node) -> Judged {
    let primary = match facts.primary_of(node) {
        Some(primary) if node.is_replica() => primary,
        _ => return Ok(vec![]),
    };
    let own = node.users.as_ref().map_err(Clone::clone)?;
    let theirs = primary.users.as_ref().map_err(Clone::clone)?;
    let names = |users: &[User]| -> BTreeSet<String> {
        let able = users.iter().filter(|user| user.exists && user.enabled);
        let able = able.filter(|user| !user.denied.contains(NEEDED[0]));
        able.map(|user| user.name.clone()).collect()
    };
    let missing: Vec<_> = names(theirs).difference(&names(own)).cloned().collect();
    if missing.is_empty() {
        return Verdict::ok("the users of the primary are here too").alone();
    }
    let fix = missing
        .iter()
        .map(|name| Fix::Run(format!("ACL SETUSER {name} {RULE}")));
    let seen = format!(
        "a replica without the users {}, who acquire locks on its primary: after a failover they cannot log in",
        missing.join(", ")
    );
    Verdict::error(seen).fix(fix).alone()
}
