//! What always holds inside the registry.

use std::collections::BTreeSet;

use super::grants::GrantName;
use super::hearing::Now;
use super::registry::KeptGrants;
use crate::{Deadline, LockId};

impl KeptGrants {
    /// Panics when what is told to be due of a lock is not what a look at each kept grant finds.
    pub(crate) fn check_due_of(&self, database: i32, key: &[u8], now: Now) {
        let due = self.due_of(database, key, now).into_iter();
        let due: BTreeSet<_> = due.map(|grant| grant.token).collect();
        let of_lock = self.grants.iter().filter(|(id, node)| {
            let LockId {
                database: of,
                key: name,
            } = &node.lock_id;
            (*of, &**name) == (database, key) && self.is_kept(*id)
        });
        let naive = of_lock
            .map(|(_, node)| node)
            .filter(|node| node.due.is_held_up || node.due.timer <= now.monotonic);
        let naive: BTreeSet<_> = naive.map(|node| node.token).collect();
        assert_eq!(due, naive, "what is due of a lock");
        assert_eq!(self.has_due_of(database, key, now), !due.is_empty());
    }

    /// Panics when an order, an index or a count does not fit the grants.
    pub(crate) fn check(&self) {
        let mut kept = 0;
        let mut in_ends = 0;
        for (id, node) in self.grants.iter() {
            let name = GrantName {
                database: node.lock_id.database,
                key: &node.lock_id.key,
                token: node.token,
            };
            assert_eq!(self.grants.find(name), Some(id), "the index");
            assert!(self.timers.contains(&(node.due.timer, id)), "a timer");
            if node.in_ends {
                in_ends += 1;
                let Deadline::At(end) = node.deadline else {
                    panic!("an end of what has none");
                };
                assert!(self.ends.contains(&(end, id)), "an end");
            }
            let connection = &self.connections[&node.connection];
            assert!(connection.grants.contains(&id), "a connection's grant");
            kept += usize::from(!connection.is_forgotten);
        }
        self.grants.check_due();
        assert_eq!(self.timers.len(), self.grants.len(), "one timer each");
        assert_eq!(self.ends.len(), in_ends, "one end each");
        assert_eq!(self.kept, kept, "the count");
        let mut asks = 0;
        for (id, connection) in &self.connections {
            if connection.is_forgotten {
                assert!(self.forgotten.contains(id), "to be put away");
                continue;
            }
            assert_eq!(self.clients.get(&connection.client_id), Some(id));
            let nodes = connection
                .grants
                .iter()
                .filter_map(|id| self.grants.get(*id));
            let shortest = nodes.map(|node| node.silence).min();
            assert!(shortest.is_some(), "a connection keeps something");
            assert_eq!(connection.silence(), shortest, "the shortest silence");
            let at = connection.ask_at.expect("a time to ask");
            assert!(self.asks.contains(&(at, *id)), "an ask");
            asks += 1;
        }
        assert_eq!(self.asks.len(), asks, "one ask each");
        assert_eq!(self.clients.len(), asks, "one client each");
        if self.is_idle() && self.forgotten.is_empty() {
            assert!(self.connections.is_empty() && self.grants.is_bare());
        }
    }
}
