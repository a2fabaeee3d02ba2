//! A snapshot of all servers.

use redis::Value;
use redis_lock_tool::{Names, Program, Reply, Waiter, number};
use std::time::Instant;

/// A lock's name, and the server that serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockId {
    pub(crate) server: String,
    pub(crate) key: Vec<u8>,
}

/// A program's session, and its server.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProgramId {
    pub(crate) server: String,
    pub(crate) session: i64,
}

/// A held lock: the reply of `LOCK.INFO`.
#[allow(clippy::struct_field_names)] // as the server calls them
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) owner: Vec<u8>,
    pub(crate) token: i64,
    pub(crate) holds: i64,
    pub(crate) lease_ms: i64,
    pub(crate) ttl_ms: i64,
    pub(crate) held_ms: i64,
    pub(crate) waiters: i64,
}

/// A hot key: an element of `LOCK.HOTKEYS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    pub(crate) key: Vec<u8>,
    pub(crate) waits: i64,
    pub(crate) timeouts: i64,
    pub(crate) expirations: i64,
    pub(crate) total_wait_ms: i64,
    pub(crate) max_wait_ms: i64,
}

/// A lock that is held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    pub(crate) id: LockId,
    pub(crate) held: Held,
    /// The first waiter; read only for the longest queues.
    pub(crate) first: Option<Waiter>,
}

/// A lock that a program holds, or waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: Vec<u8>,
    /// How long it has waited; none: it holds the lock.
    pub(crate) waited_ms: Option<i64>,
    /// The time left of the lease, or of the wait; -1: without end.
    pub(crate) left_ms: i64,
}

/// One server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) info: Names,
    /// How many keys of all kinds it has.
    pub(crate) keys: i64,
    /// True when all its keys were scanned once.
    pub(crate) searched: bool,
    /// Why it could not be read, or not completely.
    pub(crate) error: Option<String>,
}

/// All servers, locks, programs and hot keys at one time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) servers: Vec<Server>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) hot: Vec<(LockId, Hot)>,
    pub(crate) programs: Vec<(ProgramId, Program)>,
}

impl Held {
    /// `None` when the lock is free.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let fields = Reply::read(value)?;
        Some(Self {
            owner: fields.bytes("owner")?,
            token: fields.number("token")?,
            holds: fields.number("holds")?,
            lease_ms: fields.number("lease-ms")?,
            ttl_ms: fields.number("ttl-ms")?,
            held_ms: fields.number("held-ms")?,
            waiters: fields.number("waiters")?,
        })
    }
}

impl Hot {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let fields = Reply::read(value)?;
        Some(Self {
            key: fields.bytes("key")?,
            waits: fields.number("waits")?,
            timeouts: fields.number("timeouts")?,
            expirations: fields.number("expirations")?,
            total_wait_ms: fields.number("total-wait-ms")?,
            max_wait_ms: fields.number("longest-wait-ms")?,
        })
    }
}

impl Snapshot {
    pub(crate) fn empty() -> Self {
        Self {
            at: Instant::now(),
            servers: Vec::new(),
            locks: Vec::new(),
            hot: Vec::new(),
            programs: Vec::new(),
        }
    }

    /// A field of each server that has it.
    fn numbers(&self, field: &str) -> impl Iterator<Item = i64> {
        let servers = self.servers.iter();
        servers.filter_map(move |server| number(&server.info, field))
    }

    /// The sum of a field over the servers; `None` when no server has it.
    pub(crate) fn sum(&self, field: &str) -> Option<i64> {
        self.numbers(field).reduce(i64::saturating_add)
    }

    /// The largest value of a field.
    pub(crate) fn largest(&self, field: &str) -> Option<i64> {
        self.numbers(field).max()
    }

    /// The increase of a counter per second since an earlier snapshot, over all servers. A counter that is
    /// lower than before is that of a restarted server, and counts from 0.
    pub(crate) fn rate(&self, field: &str, before: &Self) -> Option<f64> {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64();
        let mut total = None;
        for server in &self.servers {
            let earlier = before.servers.iter().find(|s| s.address == server.address);
            let earlier = earlier.and_then(|server| number(&server.info, field));
            let (Some(earlier), Some(now)) = (earlier, number(&server.info, field)) else {
                continue;
            };
            let steps = if now < earlier { now } else { now - earlier };
            total = Some(total.unwrap_or(0) + steps);
        }
        #[allow(clippy::cast_precision_loss)] // shown with one decimal
        total
            .filter(|_| seconds > 0.0)
            .map(|steps| steps as f64 / seconds)
    }

    /// The program of a session, where it is known.
    pub(crate) fn program(&self, server: &str, session: i64) -> Option<&Program> {
        let mut programs = self.programs.iter();
        let found = programs.find(|(id, _)| id.session == session && id.server == server);
        found.map(|(_, program)| program)
    }

    /// Whether no client of its own waits for this call. A call of an unknown session counts as queued, because
    /// killing the client of a queued call would cut off a whole program.
    pub(crate) fn is_queued(&self, server: &str, call: &Waiter) -> bool {
        let polls = |program: &Program| program.client_id == call.client_id;
        call.session != 0
            && (call.client_id == 0 || self.program(server, call.session).is_none_or(polls))
    }
}

#[cfg(test)]
mod tests {
    use super::{Server, Snapshot};
    use redis_lock_tool::lines;
    use std::time::Duration;

    fn snapshot(grants: &[(&str, i64)]) -> Snapshot {
        let server = |(address, grants): &(&str, i64)| Server {
            address: (*address).to_owned(),
            info: lines(&format!("lock_grants:{grants}")),
            ..Server::default()
        };
        Snapshot {
            servers: grants.iter().map(server).collect(),
            ..Snapshot::empty()
        }
    }

    #[test]
    #[allow(clippy::float_cmp)] // halves are exact
    fn a_rate_is_over_all_servers_that_were_there_before() {
        let before = snapshot(&[("a", 100), ("b", 50)]);
        let mut now = snapshot(&[("a", 110), ("b", 5), ("c", 1000)]);
        now.at = before.at + Duration::from_secs(2);
        // 10 on a; 5 on b, which was restarted; c is new, so its increase is unknown.
        assert_eq!(now.rate("lock_grants", &before), Some(7.5));
        assert_eq!(now.rate("lock_refusals", &before), None);
        assert_eq!(now.sum("lock_grants"), Some(1115));
        assert_eq!(now.largest("lock_grants"), Some(1000));
    }
}
