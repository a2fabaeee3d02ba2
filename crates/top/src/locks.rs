//! All held locks, printed once, for an incident: who holds what.

use crate::arguments::{By, Listing};
use crate::node::Node;
use crate::snapshot::Held;
use crate::source::Source;
use redis::Value;
use redis_lock_tool::{Program, items, json, on, record, words};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;

/// How many locks are asked about at once.
const LOCKS_AT_ONCE: usize = 500;

record! {
    /// A holder of a lock: an element of `LOCK.HOLDERS`.
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    struct Holder {
        owner: String,
        #[serde(skip)]
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
struct HeldLock {
    server: String,
    lock: String,
    #[serde(flatten)]
    holder: Holder,
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

/// A server that could not be read.
#[derive(Serialize)]
struct NotRead {
    server: String,
    error: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report {
    locks: Vec<HeldLock>,
    not_read: Vec<NotRead>,
}

/// The text to print, and whether all servers could be read.
pub(crate) fn list(source: &mut Source, listing: &Listing) -> (String, bool) {
    source.find_primaries();
    let (mut locks, mut not_read) = (Vec::new(), Vec::new());
    for node in &mut source.nodes {
        match read(node) {
            Ok(found) => locks.extend(found),
            Err(error) => not_read.push(NotRead {
                server: node.address.clone(),
                error,
            }),
        }
    }
    locks.sort_by_cached_key(|lock| {
        (
            group(lock, listing.by),
            lock.lock.clone(),
            lock.holder.token,
        )
    });
    let report = Report { locks, not_read };
    let text = if listing.json {
        json(&report)
    } else {
        table(&report, listing.by)
    };
    (text, report.not_read.is_empty())
}

/// The group of a lock. Grants in no session come last.
fn group(lock: &HeldLock, by: By) -> (bool, String) {
    match (by, &lock.session) {
        (By::Owner, _) => (false, lock.holder.owner.clone()),
        (By::Session, None) => (true, "no session".to_owned()),
        (By::Session, Some(session)) => {
            let name = session.name.as_deref().unwrap_or_default();
            let state = session.state.unwrap_or_default();
            let text = format!("{name} session {} {state}", session.id);
            (false, text.trim().to_owned())
        }
    }
}

/// A line for each group, and one for each of its locks.
fn table(report: &Report, by: By) -> String {
    let mut text = String::new();
    let widest = report.locks.iter().map(|lock| lock.lock.chars().count());
    let width = widest.max().unwrap_or(0).max(4);
    let _ = writeln!(
        text,
        "{:<width$}  {:>7}  {:>7}  {:>5}  {:>7}  {:<16}  server, {}",
        "lock",
        "held",
        "left",
        "holds",
        "waiters",
        "token",
        if by == By::Owner { "session" } else { "owner" }
    );
    let mut last = None;
    for lock in &report.locks {
        let group = group(lock, by);
        if last.as_ref() != Some(&group) {
            let _ = writeln!(text, "\n{}", group.1);
            last = Some(group);
        }
        let of = match (by, &lock.session) {
            (By::Session, _) => format!("  {}", lock.holder.owner),
            (By::Owner, Some(session)) => {
                let name = session.name.as_deref().unwrap_or_default();
                format!("  session {} {name}", session.id)
            }
            (By::Owner, None) => String::new(),
        };
        let _ = writeln!(
            text,
            "{:<width$}  {:>7}  {:>7}  {:>5}  {:>7}  {:<16}  {}{of}",
            lock.lock,
            words::length(lock.holder.held_ms),
            words::length(lock.holder.ttl_ms),
            lock.holder.holds,
            lock.waiters,
            lock.holder.token,
            lock.server
        );
    }
    let _ = writeln!(text, "\nheld: {}", report.locks.len());
    for server in &report.not_read {
        let _ = writeln!(text, "not read: {}: {}", server.server, server.error);
    }
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
                session: session(holder.session, &known),
                holder,
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
