//! The rights of users.

use crate::facts::{Node, User};
use crate::finding::{Fix, Judged, error, ok, ok_or, or_ok, run, set, warning};
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

pub(super) fn open(node: &Node) -> Judged {
    if !node.open.clone()? {
        return ok("clients without a login may do nothing");
    }
    let mut close = run(["ACL SETUSER default resetpass >PASSWORD"]);
    close.push(Fix::Conf("requirepass PASSWORD".to_owned()));
    let seen = "the user default has no password: every client may free every lock";
    if node.setting("protected-mode")?.unwrap_or("no") == "yes" {
        let seen = format!("{seen}; protected-mode lets only this machine connect");
        return ok_or(seen, close);
    }
    warning(seen, [close, set("protected-mode", "yes")].concat())
}

pub(super) fn rights(node: &Node) -> Judged {
    let users = node.users.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for user in users {
        found.extend(judge(user)?);
    }
    let names: Vec<_> = users.iter().map(|user| user.name.as_str()).collect();
    let all = names.join(", ");
    or_ok(
        found,
        format!("every user who may acquire locks may also release and renew them: {all}"),
    )
}

/// Nothing, where a user may do what it takes.
fn judge(user: &User) -> Judged {
    let name = &user.name;
    let grant = |rights: &str| run([&format!("ACL SETUSER {name} {rights}")]);
    if !user.exists {
        return error(format!("there is no user {name} here"), grant(RULE));
    }
    if !user.enabled {
        return error(format!("the user {name} is off"), grant("on"));
    }
    let lacks = |wanted: &[&str]| {
        let wanted = wanted.iter().map(|command| (*command).to_owned());
        let denied = wanted.filter(|command| user.denied.contains(command));
        denied.collect::<Vec<_>>()
    };
    let needed = lacks(&NEEDED);
    if !needed.is_empty() {
        let seen = format!("the user {name} may not run {}", needed.join(", "));
        return error(seen, grant(&plus(&needed)));
    }
    if let (true, Some(key)) = (user.named, &user.key_denied) {
        let fix = [grant(&format!("~{key}")), grant("~lock:*")].concat();
        return error(
            format!("the user {name} has no access to the key {key}"),
            fix,
        );
    }
    let sessions = lacks(&OF_SESSIONS);
    if !sessions.is_empty() && !user.denied.contains(OPEN) {
        let all = sessions.join(", ");
        let seen = format!("the user {name} may open sessions, but not run {all}");
        return error(seen, grant(&plus(&sessions)));
    }
    let of_use = lacks(&OF_USE);
    if !user.named || of_use.is_empty() {
        return Ok(vec![]);
    }
    let seen = format!(
        "the user {name} may acquire locks, but not run {}: as it should be, unless a program looks at locks \
         (LOCK.INFO, LOCK.HOLDERS, INFO), fences in scripts (LOCK.FENCE), frees locks by force (DEL), \
         waits for replicas (WAIT) or uses sessions (LOCK.SESSION)",
        of_use.join(", ")
    );
    ok_or(seen, grant(&plus(&of_use)))
}

fn plus(commands: &[String]) -> String {
    let rights = commands
        .iter()
        .map(|command| format!("+{}", command.to_lowercase()));
    rights.collect::<Vec<_>>().join(" ")
}

/// Users are not replicated: whoever may take locks on the primary must be known where it hands over.
pub(super) fn same_users(node: &Node, primary: &Node) -> Judged {
    let own = node.users.as_ref().map_err(Clone::clone)?;
    let theirs = primary.users.as_ref().map_err(Clone::clone)?;
    let names = |users: &[User]| -> BTreeSet<String> {
        let able = users.iter().filter(|user| user.exists && user.enabled);
        let able = able.filter(|user| !user.denied.contains(NEEDED[0]));
        able.map(|user| user.name.clone()).collect()
    };
    let missing: Vec<_> = names(theirs).difference(&names(own)).cloned().collect();
    if missing.is_empty() {
        return ok("the users of the primary are here too");
    }
    let fix = missing
        .iter()
        .map(|name| Fix::Run(format!("ACL SETUSER {name} {RULE}")));
    let seen = format!(
        "a replica without the users {}, who acquire locks on its primary: after a failover they cannot log in",
        missing.join(", ")
    );
    error(seen, fix.collect())
}
