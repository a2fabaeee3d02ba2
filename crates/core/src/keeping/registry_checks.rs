//! What always holds inside the registry.

use super::grants::GrantName;
use super::registry::KeptGrants;
use crate::Deadline;

impl KeptGrants {
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
            assert!(self.timers.contains(&(node.timer, id)), "a timer");
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
