//! The invariants of the registry.

use std::collections::{BTreeMap, BTreeSet};

use super::grants::GrantName;
use super::registry::{Counts, Sessions};
use super::session::State;
use crate::Deadline;

impl Sessions {
    /// Panics unless the orders, indexes and counts fit the sessions and their grants.
    pub(crate) fn check(&self) {
        let mut counts = Counts::default();
        let (mut due, mut ends, mut all) = (BTreeSet::new(), BTreeSet::new(), 0);
        let (mut timeouts, mut polls) = (BTreeSet::new(), BTreeSet::new());
        let unfiled: Vec<_> = self.unfiled().map(|node| node.grant.session).collect();
        for (id, session) in self.table.iter() {
            assert_eq!(session.filed, session.to_file(), "where it is filed");
            let filed = session.due.len();
            let unfiled = unfiled.iter().filter(|of| *of == id).count();
            assert_eq!(session.grants, filed + unfiled);
            assert!(unfiled == 0 || session.is_live());
            all += session.grants;
            assert!(session.ends.len() <= session.due.len());
            let mut leases = BTreeMap::new();
            for (at, grant) in &session.due {
                let node = self.grants.get(*grant).expect("a grant");
                let grant_of = &node.grant;
                assert_eq!((node.due, grant_of.session), (*at, *id));
                assert!(!self.unfiled.has(*grant));
                let name = GrantName {
                    database: grant_of.lock_id.database,
                    key: &grant_of.lock_id.key,
                    token: grant_of.token,
                };
                assert_eq!(self.grants.find(name), Some((*grant, *id)));
                let end = match grant_of.deadline {
                    Deadline::At(end) => session.ends.contains(&(end, *grant)),
                    Deadline::Never => !session.ends.iter().any(|(_, id)| id == grant),
                };
                assert!(end, "the order of ends");
                if grant_of.deadline != Deadline::Never {
                    *leases.entry(grant_of.lease).or_insert(0) += 1;
                }
            }
            assert_eq!(session.leases, leases);
            due.extend(session.filed.due.map(|at| (at, *id)));
            ends.extend(session.filed.end.map(|end| (end, *id)));
            timeouts.extend(session.filed.timeout.map(|at| (at, *id)));
            polls.extend(session.filed.poll.map(|at| (at, *id)));
            let client = (session.client_id, *id);
            assert_eq!(
                self.clients.contains(&client),
                session.is_live() && session.is_attached
            );
            let is_in = |list: &std::collections::VecDeque<_>| list.contains(id);
            match session.state {
                State::Live => {
                    counts.sessions += 1;
                    counts.detached += usize::from(!session.is_attached);
                    counts.grants += session.grants;
                }
                State::Releasing => assert!(is_in(&self.releasing)),
                State::Forgotten => assert!(is_in(&self.forgotten)),
            }
        }
        assert_eq!(all, self.grants.len(), "no grant is left behind");
        assert_eq!(self.orders.due, due);
        assert_eq!(self.orders.ends, ends);
        assert_eq!(self.orders.timeouts, timeouts);
        assert_eq!(self.orders.polls, polls);
        let told = self.counts();
        assert_eq!(
            (told.sessions, told.detached),
            (counts.sessions, counts.detached)
        );
        assert_eq!(told.grants, counts.grants);
        self.grants.check();
    }
}
