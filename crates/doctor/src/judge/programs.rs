//! Programs that hold locks or wait for some, and are not heard from.

use crate::facts::{Node, User};
use crate::finding::{Judged, act, ok, run, warning};
use crate::programs::REPORTED;
use redis_lock_tool::{State, words};

pub(super) fn programs(node: &Node) -> Judged {
    if node.is_replica() {
        return Ok(vec![]);
    }
    let programs = node.programs.as_ref().map_err(Clone::clone)?;
    if programs.stuck.is_empty() {
        let (mut holds, mut waits) = (0, 0);
        for program in &programs.all {
            holds += program.grants;
            waits += program.waiting;
        }
        let all = programs.all.len();
        let seen =
            format!("programs with a session: {all}; they hold {holds}, and wait for {waits}");
        return ok(seen);
    }
    let mut found = Vec::new();
    for stuck in programs.stuck.iter().take(REPORTED) {
        let program = &stuck.program;
        let state = match program.state() {
            State::Detached => "is detached, so its locks are not renewed",
            _ => "is frozen, so its calls are passed over",
        };
        let lacks = if may_acquire(node, &program.user) {
            ""
        } else {
            ". Its user may not acquire locks here: it is deleted or off, or lacks LOCK.ACQUIRE"
        };
        let seen = format!(
            "the program {} (session {}, user {}) {state}: not heard from for {}, holds {}{}, waits for {}{}{lacks}",
            words::name(&program.name),
            program.id,
            words::name(&program.user),
            words::length(program.idle_ms),
            program.grants,
            named(&stuck.holds),
            program.waiting,
            named(&stuck.waits),
        );
        let look = act("check whether it runs; end its session only if it is not working");
        let end = format!("LOCK.SESSION KILL {}", program.id);
        found.extend(warning(seen, [look, run([&end])].concat())?);
    }
    let more = programs.stuck.len().saturating_sub(REPORTED);
    if more > 0 {
        let seen = format!("{more} more programs are detached or frozen");
        found.extend(warning(seen, run(["LOCK.SESSION LIST"]))?);
    }
    Ok(found)
}

/// Whether a user may acquire locks; yes, where that is not known.
fn may_acquire(node: &Node, name: &[u8]) -> bool {
    node.users.as_ref().map_or(true, |users| {
        let able =
            |user: &&User| user.exists && user.enabled && !user.denied.contains("LOCK.ACQUIRE");
        users
            .iter()
            .filter(able)
            .any(|user| user.name.as_bytes() == name)
    })
}

fn named(locks: &[String]) -> String {
    if locks.is_empty() {
        return String::new();
    }
    format!(" ({})", locks.join(", "))
}
