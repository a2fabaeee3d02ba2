//! The programs that use a server, by their sessions.

use crate::examine::answered;
use crate::facts::Seen;
use crate::finding::Fix;
use redis::Value;
use redis_lock_tool::{
    Link, Program, Reply, command, grants, items, programs, waiters, waiters_of, words,
};

/// How many programs that do not poll are asked about, and reported one by one.
pub(crate) const REPORTED: usize = 10;
/// How many locks of a program are named.
const NAMED: usize = 3;
/// Where a waiting call is looked for: in so many of the locks with the most waiting, at so many places.
const QUEUES: usize = 50;
const PLACES: usize = 200;

/// The open sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(crate) all: Vec<Program>,
    /// Those that do not poll, though they hold locks or wait for some.
    pub(crate) stuck: Vec<Stuck>,
}

/// A program that does not poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stuck {
    pub(crate) program: Program,
    /// Some of the locks that it holds, and some that it waits for, as far as they may be seen.
    pub(crate) holds: Vec<String>,
    pub(crate) waits: Vec<String>,
}

/// Lists them. The outer error is that of the connection.
pub(crate) fn examine(c: &mut Link, me: &str) -> Result<Seen<Programs>, String> {
    let list = c.ask(&command("LOCK.SESSION LIST"))?;
    if list.as_ref().is_err_and(|error| error.contains("unknown")) {
        // That the module is not loaded is another check's.
        return Ok(Ok(Programs::default()));
    }
    let allow = Fix::Run(format!("ACL SETUSER {me} +lock.session|list"));
    let all = match answered(list, "LOCK.SESSION LIST", &allow) {
        Ok(list) => programs(&list),
        Err(unseen) => return Ok(Err(unseen)),
    };
    let stuck = all.iter().filter(|program| program.is_stuck());
    let mut stuck: Vec<_> = stuck
        .map(|program| Stuck {
            program: program.clone(),
            ..Stuck::default()
        })
        .collect();
    let asked = stuck.len().min(REPORTED);
    name_locks(c, &mut stuck[..asked])?;
    Ok(Ok(Programs { all, stuck }))
}

/// Adds names of locks; what may not be seen is left out.
fn name_locks(c: &mut Link, stuck: &mut [Stuck]) -> Result<(), String> {
    for one in &mut *stuck {
        let own = format!("LOCK.SESSION GRANTS {} COUNT {NAMED}", one.program.id);
        let held = c.ask(&command(&own))?.unwrap_or(Value::Nil);
        let names = grants(&held).into_iter();
        one.holds = names.map(|grant| words::name(&grant.key)).collect();
    }
    if stuck.iter().all(|one| one.program.waiting == 0) {
        return Ok(());
    }
    let hot = c.ask(&command(&format!("LOCK.HOTKEYS COUNT {QUEUES}")))?;
    let hot = hot.unwrap_or(Value::Nil);
    let keys = items(&hot).iter();
    let keys: Vec<_> = keys
        .filter_map(|entry| Reply::read(entry)?.bytes("key"))
        .collect();
    let queues = c.ask_all(keys.iter().map(|key| waiters_of(key, PLACES)))?;
    for (key, queue) in keys.iter().zip(queues) {
        for call in waiters(&queue.unwrap_or(Value::Nil)) {
            let mut programs = stuck.iter_mut();
            let own = programs.find(|one| one.program.id == call.session);
            let name = words::name(key);
            if let Some(own) =
                own.filter(|own| own.waits.len() < NAMED && !own.waits.contains(&name))
            {
                own.waits.push(name);
            }
        }
    }
    Ok(())
}
