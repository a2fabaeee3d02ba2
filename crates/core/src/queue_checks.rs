//! Invariants of the queues, for tests and fuzzing.

use super::{BTreeSet, Links, List, Node, Queues, WaiterId};

impl Queues {
    /// Panics unless the lists, their ends, their lengths and the sums agree.
    pub(crate) fn check(&self) {
        let mut calls = 0;
        for (database, queues) in &self.databases {
            assert!(!queues.is_empty(), "a database without a queue");
            for (key, queue) in queues {
                assert!(queue.all.length > 0, "a queue without a call");
                let all = self.walk(queue.all, |node| node.in_queue);
                assert!(all.is_sorted(), "not in the order of joining: {all:?}");
                for id in &all {
                    let lock_id = &self.nodes[id].lock_id;
                    assert_eq!((lock_id.database, &lock_id.key), (*database, key));
                }
                let mut of_owners = 0;
                for (owner, list) in &queue.owners {
                    assert!(list.length > 0, "an owner without a call");
                    let of_owner = self.walk(*list, |node| node.of_owner);
                    let mut own = all.clone();
                    own.retain(|id| self.nodes[id].waiter.owner == *owner);
                    assert_eq!(of_owner, own, "the calls of an owner");
                    of_owners += of_owner.len();
                }
                assert_eq!(of_owners, all.len(), "calls of no owner");
                let since = all.iter().map(|id| self.nodes[id].waiter.since.0);
                let since_sum: u128 = since.map(u128::from).sum();
                assert_eq!(
                    queue.since_sum, since_sum,
                    "the sum of the starts of the waits"
                );
                calls += all.len();
            }
        }
        assert_eq!(calls, self.nodes.len(), "calls in no queue");
        let ends: BTreeSet<_> = self
            .nodes
            .iter()
            .filter_map(|(id, node)| Some((node.waiter.until?, *id)))
            .collect();
        assert_eq!(self.ends, ends, "the ends of the waits");
    }

    /// The ids of a list, checked to be the same in both directions.
    fn walk(&self, list: List, links: impl Fn(&Node) -> Links) -> Vec<WaiterId> {
        let follow = |start: Option<WaiterId>, next: fn(Links) -> Option<WaiterId>| {
            std::iter::successors(start, |id| next(links(&self.nodes[id])))
                .take(list.length + 1)
                .collect::<Vec<_>>()
        };
        let forward = follow(list.first, |links| links.next);
        let mut backward = follow(list.last, |links| links.previous);
        backward.reverse();
        assert_eq!(forward, backward, "the directions of a list");
        assert_eq!(forward.len(), list.length, "the length of a list");
        forward
    }

    /// How many entries there are, of any kind.
    pub(crate) fn entries(&self) -> usize {
        self.databases.len() + self.nodes.len() + self.ends.len()
    }
}
