//! Logins, the rights of users, and their programs.

use crate::facts::{Facts, Node, Session, User};
use crate::finding::Severity::{Error, Fine, Warning};
use crate::finding::{Fix, Judged, Seen, act, conf, first, ok, only, or_ok, run, set};
use crate::sessions::REPORTED;
use crate::users::{NEEDED, OF_SESSIONS, OF_USE, OPEN, Right};
use redis_lock_tool::{State, words};

/// The rule of docs/operations/users.md for programs, without the name.
pub(super) const RULE: &str = "on >secret resetkeys ~lock:* resetchannels -@all +@connection -@dangerous \
    +lock.acquire +lock.release +lock.renew +lock.fence +lock.info +info +cluster|slots +cluster|nodes \
    +cluster|info +cluster|myid";

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
    let found = users
        .iter()
        .map(of_user)
        .collect::<Seen<Vec<_>>>()?
        .concat();
    or_ok(found, "no user may acquire locks")
}

fn of_user(user: &User) -> Judged {
    let name = &user.name;
    let grant = |rights: &str| run(format!("ACL SETUSER {name} {rights}"));
    // The commands that the user may not run, and the rule that allows them.
    let lacks = |wanted: &[Right]| {
        let wanted = wanted.iter().map(|(command, _)| *command);
        let denied: Vec<_> = wanted
            .filter(|command| user.denied.contains(*command))
            .collect();
        let rule = format!("+{}", denied.join(" +").to_lowercase());
        (!denied.is_empty(), denied.join(", "), grant(&rule))
    };
    let (is_unable, needed, allow) = lacks(&NEEDED);
    let needed = format!("it may not run {needed}");
    let key = user.key_denied.as_deref().unwrap_or_default();
    let no_key = format!("it has no access to the key {key}");
    let keys = [grant(&format!("~{key}")), grant("~lock:*")].concat();
    let (is_half, polls, allow_polls) = lacks(&OF_SESSIONS);
    let polls = format!("it may open sessions, but not run {polls}");
    let opens = !user.denied.contains(OPEN.0);
    let (may_want, more, allow_more) = lacks(&[&[OPEN], &OF_SESSIONS[..], &OF_USE].concat());
    let more = format!(
        "it may acquire locks, but not run {more}: as it should be, unless a program looks at locks \
         (LOCK.INFO, LOCK.HOLDERS, INFO), fences in scripts (LOCK.FENCE), frees locks by force (DEL), \
         waits for replicas (WAIT) or uses sessions (LOCK.SESSION)"
    );
    let cases = [
        (!user.exists, Error, "there is none here", grant(RULE)),
        (!user.enabled, Error, "it is off", grant("on")),
        (is_unable, Error, &needed, allow),
        (user.named && !key.is_empty(), Error, &no_key, keys),
        (opens && is_half, Error, &polls, allow_polls),
        (user.named && may_want, Fine, &more, allow_more),
        (
            true,
            Fine,
            "it may acquire, renew and release locks",
            vec![],
        ),
    ];
    first(format!("the user {name}"), cases)
}

/// Compares the users of a replica with its primary. Users are not replicated, but a replica that takes over needs
/// every user who may acquire locks on the primary.
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

/// Finds programs that hold locks or wait for some, but do not poll.
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
    // Say nothing about the rights if the users are unknown.
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
        self.exists && self.enabled && !self.denied.contains(NEEDED[0].0)
    }
}
