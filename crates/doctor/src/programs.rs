//! The programs that use a server, by their sessions.

use crate::ask::Asker;
use crate::facts::{Programs, Stuck};
use crate::finding::Seen;
use redis_lock_tool::{Program, ProgramGrant, Reply, Waiter, command, items, waiters_of, words};

/// How many programs that do not poll are asked about, and reported one by one.
pub(crate) const REPORTED: usize = 10;
/// How many locks of a program are named.
const NAMED: usize = 3;
/// Where a waiting call is looked for: in so many of the locks with the most waiting, at so many places.
const QUEUES: usize = 50;
const PLACES: usize = 200;

/// Lists them.
pub(crate) fn examine(c: &mut Asker) -> Seen<Programs> {
    let list = command("LOCK.SESSION LIST");
    let list = c.with(|link| link.ask(&list))?;
    if list.as_ref().is_err_and(|error| error.contains("unknown")) {
        // Another check tells that the module is not loaded.
        return Ok(Programs::default());
    }
    let list = c.allowed(list, "LOCK.SESSION LIST", "+lock.session|list")?;
    let all: Vec<_> = items(&list).iter().filter_map(Program::read).collect();
    let stuck = all.iter().filter(|program| program.is_stuck()).cloned();
    let mut stuck: Vec<_> = stuck
        .map(|program| Stuck {
            program,
            ..Stuck::default()
        })
        .collect();
    let asked = stuck.len().min(REPORTED);
    name_locks(c, &mut stuck[..asked])?;
    Ok(Programs { all, stuck })
}

/// Adds names of locks, as far as they may be seen.
fn name_locks(c: &mut Asker, stuck: &mut [Stuck]) -> Seen<()> {
    let own = |one: &Stuck| format!("LOCK.SESSION GRANTS {} COUNT {NAMED}", one.program.id);
    let own = stuck.iter().map(|one| command(&own(one)));
    let held = c.with(|link| link.lists(own, ProgramGrant::read))?;
    for (one, grants) in stuck.iter_mut().zip(held) {
        let names = grants.iter().map(|grant| words::name(&grant.key));
        one.holds = names.collect();
    }
    if stuck.iter().all(|one| one.program.waiting == 0) {
        return Ok(());
    }
    let hot = command(&format!("LOCK.HOTKEYS COUNT {QUEUES}"));
    let key = |entry: &_| Reply::read(entry)?.field::<Vec<u8>>("key");
    let keys = c.with(|link| link.list(&hot, key))?;
    let queues = keys.iter().map(|key| waiters_of(key, PLACES));
    let queues = c.with(|link| link.lists(queues, Waiter::read))?;
    for (key, queue) in keys.iter().zip(queues) {
        let name = words::name(key);
        for one in &mut *stuck {
            let is_own = |call: &Waiter| call.session == one.program.id;
            if one.waits.len() < NAMED && queue.iter().any(is_own) {
                one.waits.push(name.clone());
            }
        }
    }
    Ok(())
}
