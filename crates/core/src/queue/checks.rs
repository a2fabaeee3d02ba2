//! Invariants of the queues, for tests and fuzzing.

use std::collections::BTreeMap;

use super::{BTreeSet, Limit, Links, List, Node, OwnerWaits, Queues, WaiterId};

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
                self.check_exclusive(*database, key, &all);
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
        self.check_owners();
        let ends: BTreeSet<_> = self
            .nodes
            .iter()
            .filter_map(|(id, node)| Some((node.waiter.until?, *id)))
            .collect();
        assert_eq!(self.ends, ends, "the ends of the waits");
    }

    /// Panics unless the calls of limit 1 that are found are those of a look at each call before.
    fn check_exclusive(&self, database: i32, key: &[u8], all: &[WaiterId]) {
        let queue = self.queue(database, key).expect("a queue");
        let limit = |id: &WaiterId| self.nodes[id].waiter.limit;
        let wider = all.iter().filter(|id| limit(id) > Limit::ONE).count();
        assert_eq!(
            queue.exclusive.wider(),
            wider,
            "the calls with a wider limit"
        );
        let is_first = |id: &WaiterId| self.nodes[id].of_owner.previous.is_none();
        let exclusive = |id: &&WaiterId| limit(id) == Limit::ONE && is_first(id);
        let first = all.iter().find(exclusive).copied();
        assert_eq!(self.first_exclusive(database, key, None), first);
        for id in all {
            let before = first.filter(|first| first < id);
            assert_eq!(self.first_exclusive(database, key, Some(*id)), before);
        }
    }

    /// Panics unless each owner's lists have its calls, queue by queue.
    fn check_owners(&self) {
        let mut lists = BTreeMap::<_, Vec<_>>::new();
        for (id, node) in self.nodes.iter().collect::<BTreeMap<_, _>>() {
            let lock_id = &node.lock_id;
            let queue = self.queue(lock_id.database, &lock_id.key).expect("a queue");
            let owner = node.waiter.owner.as_owner().bytes();
            lists.entry((owner, queue.id)).or_default().push(*id);
        }
        let found = self.owners.lists();
        assert_eq!(found.len(), lists.len(), "lists without a call");
        for (owner, queue, list, only) in found {
            let owner = owner.as_owner().bytes();
            let of_owner = self.walk(list, |node| node.of_owner);
            assert_eq!(
                Some(&of_owner),
                lists.get(&(owner, queue)),
                "an owner's calls"
            );
            let locks = lists.keys().filter(|(name, _)| *name == owner).count();
            assert_eq!(only, locks == 1, "an owner's locks");
            let waits = if only {
                OwnerWaits::One(queue, of_owner[0])
            } else {
                OwnerWaits::Several
            };
            assert_eq!(self.waits_of(owner), waits);
        }
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
        self.databases.len() + self.nodes.len() + self.owners.len() + self.ends.len()
    }
}
