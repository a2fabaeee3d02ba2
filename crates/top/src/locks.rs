//! Prints all held locks and their holders once, for use in an incident.

use crate::node::Node;
use crate::snapshot::Held;
use crate::source::Source;
use crate::{By, Listing};
use redis::Value;
use redis_lock_tool::{Program, items, on, record, words};
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write;

/// How many locks are read at once.
const LOCKS_AT_ONCE: usize = 500;

record! {
    /// A holder of a lock: an element of `LOCK.HOLDERS`.
    struct Holder {
        owner: Vec<u8>,
        session: i64,
        token: i64,
        holds: i64,
        lease_ms: i64,
        ttl_ms: i64,
        held_ms: i64,
    }
}

/// A lock and one of its holders.
struct HeldLock {
    server: String,
    lock: String,
    waiters: i64,
    holder: Holder,
    /// The program of the session; `None` if the user may not list sessions.
    program: Option<Program>,
}

/// The text to print, and whether all servers could be read.
pub(crate) fn list(source: &mut Source, listing: &Listing) -> (String, bool) {
    source.find_primaries();
    let (mut locks, mut not_read) = (Vec::new(), Vec::new());
    for node in &mut source.nodes {
        match read(node) {
            Ok(found) => locks.extend(found),
            Err(error) => not_read.push((node.address.clone(), error)),
        }
    }
    let key = |lock: &HeldLock| (lock.group(listing.by), lock.lock.clone(), lock.holder.token);
    locks.sort_by_cached_key(key);
    let text = if listing.json {
        let error = |(server, error): &_| json!({"server": server, "error": error});
        let not_read: Vec<_> = not_read.iter().map(error).collect();
        let locks: Vec<_> = locks.iter().map(HeldLock::json).collect();
        redis_lock_tool::json(&json!({"locks": locks, "not-read": not_read}))
    } else {
        let mut text = table(&locks, listing.by);
        for (server, error) in &not_read {
            let _ = writeln!(text, "not read: {server}: {error}");
        }
        text
    };
    (text, not_read.is_empty())
}

/// A line for each group, and one for each of its locks.
fn table(locks: &[HeldLock], by: By) -> String {
    let widest = locks.iter().map(|lock| lock.lock.chars().count());
    let width = widest.max().unwrap_or(0).max(4);
    let line = |lock: &str, [held, left, holds, waiters, token]: [&str; 5], of: &str| {
        format!(
            "{lock:<width$}  {held:>7}  {left:>7}  {holds:>5}  {waiters:>7}  {token:<16}  {of}\n"
        )
    };
    let of = if by == By::Owner { "session" } else { "owner" };
    let names = ["held", "left", "holds", "waiters", "token"];
    let mut text = line("lock", names, &format!("server, {of}"));
    let mut last = None;
    for lock in locks {
        let group = lock.group(by);
        if last.as_ref() != Some(&group) {
            let _ = writeln!(text, "\n{}", group.1);
            last = Some(group);
        }
        let HeldLock { server, holder, .. } = lock;
        let of = match (by, holder.session) {
            (By::Session, _) => format!("{server}  {}", words::name(&holder.owner)),
            (By::Owner, 0) => server.clone(),
            (By::Owner, id) => format!("{server}  session {id} {}", lock.program().0),
        };
        let numbers = [holder.holds, lock.waiters, holder.token].map(|number| number.to_string());
        let [holds, waiters, token] = &numbers;
        let [held, left] = [holder.held_ms, holder.ttl_ms].map(words::length);
        text += &line(&lock.lock, [&held, &left, holds, waiters, token], &of);
    }
    let _ = writeln!(text, "\nheld: {}", locks.len());
    text
}

/// All held locks of a server.
fn read(node: &mut Node) -> Result<Vec<HeldLock>, String> {
    let mut keys = Vec::new();
    let mut cursor = 0;
    loop {
        let (next, found) = node.scan(cursor)??;
        keys.extend(found);
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    // Remove duplicates, because a scan may find a key twice.
    keys.sort_unstable();
    keys.dedup();
    let known = node.all_programs()?.into_iter();
    let known: HashMap<_, _> = known.map(|program| (program.id, program)).collect();
    let mut locks = Vec::new();
    for keys in keys.chunks(LOCKS_AT_ONCE) {
        let both = |key: &Vec<u8>| [on("LOCK.INFO", key), on("LOCK.HOLDERS", key)];
        let answers = node.link.ask_all(keys.iter().flat_map(both))?;
        let answers = answers.into_iter().collect::<Result<Vec<Value>, _>>()?;
        for (key, [info, holders]) in keys.iter().zip(answers.as_chunks::<2>().0) {
            // The lock may have become free since the scan.
            let Some(held) = Held::read(info) else {
                continue;
            };
            let holders = items(holders).iter().filter_map(Holder::read);
            locks.extend(holders.map(|holder| HeldLock {
                server: node.address.clone(),
                lock: words::name(key),
                waiters: held.waiters,
                program: known.get(&holder.session).cloned(),
                holder,
            }));
        }
    }
    Ok(locks)
}

impl HeldLock {
    /// The name of the program, and whether it polls; empty if unknown.
    fn program(&self) -> (String, &'static str) {
        let program = self.program.as_ref();
        program.map_or_else(Default::default, |program| {
            (words::name(&program.name), program.state().word())
        })
    }

    /// The group of the lock. Grants without a session come last.
    fn group(&self, by: By) -> (bool, String) {
        match (by, self.holder.session) {
            (By::Owner, _) => (false, words::name(&self.holder.owner)),
            (By::Session, 0) => (true, "no session".to_owned()),
            (By::Session, id) => {
                let (name, state) = self.program();
                (
                    false,
                    format!("{name} session {id} {state}").trim().to_owned(),
                )
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        let holder = &self.holder;
        let program = self.program.as_ref().map(|_| self.program());
        let (name, state) = program.unzip();
        let session = json!({"id": holder.session, "name": name, "state": state});
        json!({
            "server": self.server,
            "lock": self.lock,
            "owner": words::name(&holder.owner),
            "token": holder.token,
            "holds": holder.holds,
            "lease-ms": holder.lease_ms,
            "ttl-ms": holder.ttl_ms,
            "held-ms": holder.held_ms,
            "session": (holder.session != 0).then_some(session),
            "waiters": self.waiters,
        })
    }
}
