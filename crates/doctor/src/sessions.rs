//! Reads the sessions of a server, and the locks of programs that do not poll.

use crate::ask::Asker;
use crate::facts::Session;
use crate::finding::Seen;
use redis_lock_tool::{Program, ProgramGrant, Reply, Waiter, command, items, waiters_of, words};

/// How many programs that do not poll are reported individually, with their locks.
pub(crate) const REPORTED: usize = 10;
/// How many locks of a program are named.
const NAMED: usize = 3;
/// The search for waiting calls covers this many of the locks with the most waiting.
const QUEUES: usize = 50;
const PLACES: usize = 200;

/// Reads the sessions.
pub(crate) fn examine(c: &mut Asker) -> Seen<Vec<Session>> {
    let list = command("LOCK.SESSION LIST");
    let list = c.with(|link| link.ask(&list))?;
    if list.as_ref().is_err_and(|error| error.contains("unknown")) {
        // Another check reports that the module is not loaded.
        return Ok(Vec::new());
    }
    let list = c.allowed(list, "LOCK.SESSION LIST", "+lock.session|list")?;
    let programs = items(&list).iter().filter_map(Program::read);
    let session = |program| Session {
        program,
        ..Session::default()
    };
    let mut all: Vec<_> = programs.map(session).collect();
    let stuck = all.iter_mut().filter(|one| one.program.is_stuck());
    name_locks(c, &mut stuck.take(REPORTED).collect::<Vec<_>>())?;
    Ok(all)
}

/// Adds the names of locks that the login may see.
fn name_locks(c: &mut Asker, stuck: &mut [&mut Session]) -> Seen<()> {
    let own = |id| format!("LOCK.SESSION GRANTS {id} COUNT {NAMED}");
    let own = stuck.iter().map(|one| command(&own(one.program.id)));
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
        for one in &mut *stuck {
            let is_own = |call: &Waiter| call.session == one.program.id;
            if one.waits.len() < NAMED && queue.iter().any(is_own) {
                one.waits.push(words::name(key));
            }
        }
    }
    Ok(())
}
