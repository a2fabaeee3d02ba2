//! Who is let in, the rights of users, and their programs.

use crate::facts::{Facts, Node, Session, User};
use crate::finding::Severity::{Error, Fine, Warning};
use crate::finding::{Fix, Judged, act, conf, ok, only, or_ok, run, set};
use crate::sessions::REPORTED;
use crate::users::{NEEDED, OF_USE};
use redis_lock_tool::{State, words};

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
    let password = run("ACL SETUSER default resetpass >PASSWORD");
    let close = [password, conf("requirepass PASSWORD")].concat();
    let seen = "the user default has no password: every client may free every lock";
    if node.setting("protected-mode")? == "yes" {
        let seen = format!("{seen}; protected-mode lets only this machine connect");
        return Fine.says(seen, close);
    }
    Warning.says(seen, [close, set("protected-mode", "yes")].concat())
}

pub(super) fn rights(node: &Node) -> Judged {
    node.module()?;
    let users = node.users.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for user in users {
        found.extend(of_user(user)?);
    }
    let names: Vec<_> = users.iter().map(|user| user.name.as_str()).collect();
    let able = "every user who may acquire locks may also release and renew them";
    or_ok(found, format!("{able}: {}", names.join(", ")))
}

/// Nothing, where a user may do what it takes.
fn of_user(user: &User) -> Judged {
    let name = &user.name;
    let grant = |rights: &str| run(format!("ACL SETUSER {name} {rights}"));
    if !user.exists {
        return Error.says(format!("there is no user {name} here"), grant(RULE));
    }
    if !user.enabled {
        return Error.says(format!("the user {name} is off"), grant("on"));
    }
    // The commands that it may not run, and the rule that allows them.
    let lacks = |wanted: &[&str]| {
        let denied = wanted
            .iter()
            .filter(|command| user.denied.contains(**command));
        let denied: Vec<_> = denied.copied().collect();
        let rule = format!("+{}", denied.join(" +").to_lowercase());
        (!denied.is_empty()).then(|| (denied.join(", "), grant(&rule)))
    };
    if let Some((denied, fix)) = lacks(&NEEDED) {
        return Error.says(format!("the user {name} may not run {denied}"), fix);
    }
    if let (true, Some(key)) = (user.named, &user.key_denied) {
        let fix = [grant(&format!("~{key}")), grant("~lock:*")].concat();
        let seen = format!("the user {name} has no access to the key {key}");
        return Error.says(seen, fix);
    }
    if let (false, Some((denied, fix))) = (user.denied.contains(OPEN), lacks(&OF_SESSIONS)) {
        let seen = format!("the user {name} may open sessions, but not run {denied}");
        return Error.says(seen, fix);
    }
    let (true, Some((denied, fix))) = (user.named, lacks(&OF_USE)) else {
        return Ok(vec![]);
    };
    let seen = format!(
        "the user {name} may acquire locks, but not run {denied}: as it should be, unless a program looks at locks \
         (LOCK.INFO, LOCK.HOLDERS, INFO), fences in scripts (LOCK.FENCE), frees locks by force (DEL), \
         waits for replicas (WAIT) or uses sessions (LOCK.SESSION)"
    );
    Fine.says(seen, fix)
}

/// Users are not replicated: whoever may take locks on the primary must be known where it hands over.
pub(super) fn same_users(facts: &Facts, node: &Node) -> Judged {
    let primary = facts.primary_of(node)?;
    let own = node.users.as_ref().map_err(Clone::clone)?;
    let theirs = primary.users.as_ref().map_err(Clone::clone)?;
    let able = theirs.iter().filter(|user| user.may_acquire());
    let able = able.map(|user| user.name.as_str());
    let is_missing = |name: &&str| !own.iter().any(|own| own.name == *name && own.may_acquire());
    let missing: Vec<_> = able.filter(is_missing).collect();
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
    Error.says(seen, fix.collect())
}

/// Programs that hold locks or wait for some, and are not heard from.
pub(super) fn programs(node: &Node) -> Judged {
    node.module()?;
    only(!node.is_replica())?;
    let all = node.sessions.as_ref().map_err(Clone::clone)?;
    let stuck = all.iter().filter(|session| session.program.is_stuck());
    let mut found = Vec::new();
    for session in stuck.clone().take(REPORTED) {
        let look = act("check whether it runs; end its session only if it is not working");
        let end = run(format!("LOCK.SESSION KILL {}", session.program.id));
        found.extend(Warning.says(of_session(node, session), [look, end].concat())?);
    }
    let more = stuck.skip(REPORTED).count();
    if more > 0 {
        let seen = format!("{more} more programs are detached or frozen");
        found.extend(Warning.says(seen, run("LOCK.SESSION LIST"))?);
    }
    let holds: i64 = all.iter().map(|one| one.program.grants).sum();
    let waits: i64 = all.iter().map(|one| one.program.waiting).sum();
    let count = all.len();
    or_ok(
        found,
        format!("programs with a session: {count}; they hold {holds}, and wait for {waits}"),
    )
}

fn of_session(node: &Node, session: &Session) -> String {
    let program = &session.program;
    let state = match program.state() {
        State::Detached => "is detached, so its locks are not renewed",
        _ => "is frozen, so its calls are passed over",
    };
    let is_its = |user: &&User| user.name.as_bytes() == program.user;
    // Where users are not known, nothing is said.
    let lacks = match &node.users {
        Ok(users) if !users.iter().filter(is_its).any(User::may_acquire) => {
            ". Its user may not acquire locks here: it is deleted or off, or lacks LOCK.ACQUIRE"
        }
        _ => "",
    };
    let named = |locks: &[String]| match locks {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    };
    format!(
        "the program {} (session {}, user {}) {state}: not heard from for {}, holds {}{}, waits for {}{}{lacks}",
        words::name(&program.name),
        program.id,
        words::name(&program.user),
        words::length(program.idle_ms),
        program.grants,
        named(&session.holds),
        program.waiting,
        named(&session.waits),
    )
}

impl User {
    fn may_acquire(&self) -> bool {
        self.exists && self.enabled && !self.denied.contains(NEEDED[0])
    }
}
