//! All held locks, printed once, for an incident: who holds what.

use crate::node::Node;
use crate::snapshot::Held;
use crate::source::Source;
use crate::{By, Listing};
use redis::Value;
use redis_lock_tool::{Program, items, json, on, record, words};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;

/// How many locks are asked about at once.
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
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct HeldLock {
    server: String,
    lock: String,
    owner: String,
    token: i64,
    holds: i64,
    lease_ms: i64,
    ttl_ms: i64,
    held_ms: i64,
    /// None: it is in no session.
    session: Option<Session>,
    waiters: i64,
}

/// The session that a grant is in.
#[derive(Serialize)]
struct Session {
    id: i64,
    /// None: the user may not list sessions.
    name: Option<String>,
    state: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report<'a> {
    locks: &'a [HeldLock],
    not_read: Vec<serde_json::Value>,
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
    locks.sort_by_cached_key(|lock| (lock.group(listing.by), lock.lock.clone(), lock.token));
    let text = if listing.json {
        let error = |(server, error): &_| serde_json::json!({"server": server, "error": error});
        json(&Report {
            locks: &locks,
            not_read: not_read.iter().map(error).collect(),
        })
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
        let of = match (by, &lock.session) {
            (By::Session, _) => format!("{}  {}", lock.server, lock.owner),
            (By::Owner, None) => lock.server.clone(),
            (By::Owner, Some(Session { id, name, .. })) => {
                let name = name.as_deref().unwrap_or_default();
                format!("{}  session {id} {name}", lock.server)
            }
        };
        let numbers = [lock.holds, lock.waiters, lock.token].map(|number| number.to_string());
        let [holds, waiters, token] = &numbers;
        let (held, left) = (words::length(lock.held_ms), words::length(lock.ttl_ms));
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
    // A scan may find a key twice.
    keys.sort_unstable();
    keys.dedup();
    let known = node.all_programs()?.into_iter();
    let known: HashMap<_, _> = known.map(|program| (program.id, program)).collect();
    let mut locks = Vec::new();
    for keys in keys.chunks(LOCKS_AT_ONCE) {
        let both = |key: &Vec<u8>| [on("LOCK.INFO", key), on("LOCK.HOLDERS", key)];
        let answers = node.ask_all(keys.iter().flat_map(both))?;
        let answers = answers.into_iter().collect::<Result<Vec<Value>, _>>()?;
        for (key, [info, holders]) in keys.iter().zip(answers.as_chunks::<2>().0) {
            // A lock that has become free has neither.
            let Some(held) = Held::read(info) else {
                continue;
            };
            let holders = items(holders).iter().filter_map(Holder::read);
            locks.extend(holders.map(|holder| HeldLock {
                server: node.address.clone(),
                lock: words::name(key),
                owner: words::name(&holder.owner),
                token: holder.token,
                holds: holder.holds,
                lease_ms: holder.lease_ms,
                ttl_ms: holder.ttl_ms,
                held_ms: holder.held_ms,
                session: session(holder.session, &known),
                waiters: held.waiters,
            }));
        }
    }
    Ok(locks)
}

fn session(id: i64, known: &HashMap<i64, Program>) -> Option<Session> {
    let program = known.get(&id);
    (id != 0).then(|| Session {
        id,
        name: program.map(|program| words::name(&program.name)),
        state: program.map(|program| program.state().word()),
    })
}

impl HeldLock {
    /// Its group. Grants in no session come last.
    fn group(&self, by: By) -> (bool, String) {
        match (by, &self.session) {
            (By::Owner, _) => (false, self.owner.clone()),
            (By::Session, None) => (true, "no session".to_owned()),
            (By::Session, Some(Session { id, name, state })) => {
                let name = name.as_deref().unwrap_or_default();
                let text = format!("{name} session {id} {}", state.unwrap_or_default());
                (false, text.trim().to_owned())
            }
        }
    }
}
