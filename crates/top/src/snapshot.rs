//! A snapshot of all servers.

use crate::reply::{Held, Hot, Info, Waiter};
use std::time::Instant;

/// A lock's name, and the server that serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockId {
    pub(crate) server: String,
    pub(crate) key: Vec<u8>,
}

/// A lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) id: LockId,
    pub(crate) held: Held,
    /// The first waiter; read only for the longest queues.
    pub(crate) first: Option<Waiter>,
}

/// One server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) info: Info,
    /// How many keys of all kinds it has.
    pub(crate) keys: i64,
    /// True when all its keys were scanned once.
    pub(crate) searched: bool,
    /// Why it could not be read, or not completely.
    pub(crate) error: Option<String>,
}

/// All servers, locks and hot keys at one time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) servers: Vec<Server>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) hot: Vec<(LockId, Hot)>,
}

impl Snapshot {
    pub(crate) fn empty() -> Self {
        Self {
            at: Instant::now(),
            servers: Vec::new(),
            locks: Vec::new(),
            hot: Vec::new(),
        }
    }

    /// The sum of a field over the servers; `None` when no server has it.
    pub(crate) fn sum(&self, field: &str) -> Option<i64> {
        let numbers = self
            .servers
            .iter()
            .filter_map(|server| server.info.number(field));
        numbers.reduce(i64::saturating_add)
    }

    /// The largest value of a field.
    pub(crate) fn largest(&self, field: &str) -> Option<i64> {
        let numbers = self
            .servers
            .iter()
            .filter_map(|server| server.info.number(field));
        numbers.max()
    }

    /// The increase of a counter per second since an earlier snapshot, over all servers. A counter that is
    /// lower than before is that of a restarted server, and counts from 0.
    pub(crate) fn rate(&self, field: &str, before: &Self) -> Option<f64> {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64();
        let mut total = None;
        for server in &self.servers {
            let earlier = before.servers.iter().find(|s| s.address == server.address);
            let earlier = earlier.and_then(|server| server.info.number(field));
            let (Some(earlier), Some(now)) = (earlier, server.info.number(field)) else {
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
}

#[cfg(test)]
mod tests {
    use super::{Server, Snapshot};
    use crate::reply::Info;
    use std::time::Duration;

    fn snapshot(grants: &[(&str, i64)]) -> Snapshot {
        let server = |(address, grants): &(&str, i64)| Server {
            address: (*address).to_owned(),
            info: Info::parse(&format!("lock_grants:{grants}")),
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
