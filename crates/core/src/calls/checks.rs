//! Invariants of the table, for tests and fuzzing.

use std::collections::BTreeMap;

use super::call::Stage;
use super::line::Line;
use super::{Call, CallId, Calls, Limit, LockId, Monotonic, OwnerWaits, Waiter};
use crate::{Deadline, Owner, OwnerBuf};

impl<A> Calls<A> {
    /// Panics unless the lists and the indexes agree with the table.
    pub(crate) fn check(&self) {
        let mut waiting = 0;
        for line in self.lines.iter() {
            assert!(!line.is_unused(), "a line without a call");
            let (database, key) = (line.lock_id.database, &line.lock_id.key);
            let all: Vec<_> = self.iter(database, key).map(|(id, _)| id).collect();
            assert!(all.is_sorted(), "the order of joining");
            assert_eq!(
                self.first(database, key),
                all.first().copied(),
                "the first in a line"
            );
            let eligible = all.iter().find(|id| !self.call(**id).is_passed_over);
            assert_eq!(
                line.first_eligible,
                eligible.copied(),
                "the first that is not passed over"
            );
            assert_eq!(line.waiting, all.len(), "the length of a line");
            for id in &all {
                assert_eq!(self.call(*id).lock_id, line.lock_id);
            }
            self.check_exclusive(line, &all);
            let since = all.iter().map(|id| self.call(*id).waiter.since.0);
            let since_sum: u128 = since.map(u128::from).sum();
            assert_eq!(line.since_sum, since_sum, "the starts of the waits");
            waiting += all.len();
        }
        let is_waiting = |(_, call): &(CallId, &Call<A>)| call.is_waiting();
        let really_waiting = self.all().filter(is_waiting).count();
        assert_eq!(waiting, really_waiting, "calls in no line");
        assert_eq!(waiting, self.len(), "the number of waiting calls");
        self.check_owners();
        self.check_grants();
        self.check_ends();
        self.check_ready();
        for (id, call) in self.all() {
            let Some(client) = call.waiter.client_id else {
                assert!(call.is_waiting(), "a queued call that was granted");
                continue;
            };
            let index = self.clients.get(&client);
            let index = index.map(|calls| (calls.blocked, calls.answered));
            let of_client = match call.stage {
                Stage::Waiting | Stage::Granted(_) => index.and_then(|calls| calls.0),
                Stage::ReplyWritten(_) | Stage::ReplySent(_) => index.and_then(|calls| calls.1),
                Stage::GivesBack(..) => Some(id),
            };
            assert_eq!(of_client, Some(id), "the call of a client");
        }
    }

    /// The locks with waiting calls.
    pub(crate) fn lock_ids(&self) -> Vec<LockId> {
        self.turns.values().cloned().collect()
    }

    fn all(&self) -> impl Iterator<Item = (CallId, &Call<A>)> {
        self.table.iter().map(|(id, call)| (*id, &**call))
    }

    fn call(&self, id: CallId) -> &Call<A> {
        self.get(id).expect("a call")
    }

    /// Panics unless the index finds the same call with limit 1 as a linear search.
    fn check_exclusive(&self, line: &Line, all: &[CallId]) {
        let (database, key) = (line.lock_id.database, &line.lock_id.key);
        let limit = |id: &CallId| self.call(*id).waiter.limit;
        let wider = all.iter().filter(|id| limit(id) > Limit::ONE).count();
        assert_eq!(line.wider, wider, "calls with a wider limit");
        let is_first = |id: &CallId| {
            let owner = |id: &CallId| &self.call(*id).waiter.owner;
            all.iter().find(|other| owner(other) == owner(id)) == Some(id)
        };
        let exclusive = |id: &&CallId| limit(id) == Limit::ONE && is_first(id);
        let first = all.iter().find(exclusive).copied();
        assert_eq!(self.first_exclusive(database, key, None), first);
        for id in all {
            let before = first.filter(|first| first < id);
            assert_eq!(self.first_exclusive(database, key, Some(*id)), before);
        }
    }

    /// Panics unless each owner's calls are found, line by line.
    fn check_owners(&self) {
        let mut lists = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (id, call) in self.all().collect::<BTreeMap<_, _>>() {
            if call.is_waiting() {
                let LockId { database, key } = &call.lock_id;
                let line = self.lines.get(*database, key).expect("a line").id;
                let owner = call.waiter.owner.as_owner().bytes();
                let first = *lists.entry(owner).or_default().entry(line).or_insert(id);
                assert_eq!(self.first_of(*database, key, owner), Some(first));
                let eligible = self.iter(*database, key).find(|(_, other)| {
                    !other.is_passed_over && other.waiter.owner == call.waiter.owner
                });
                let found = self.first_eligible_of(*database, key, owner);
                assert_eq!(found, eligible.map(|(id, _)| id));
            }
        }
        assert_eq!(self.owners.len(), lists.len(), "owners without a call");
        let in_lines = self.in_line.len() + self.passed_over.len();
        assert_eq!(in_lines, self.len(), "the calls in lines");
        assert!(self.unjudged.is_subset(&self.in_line), "left out");
        let queued = |(_, call): &(CallId, &Call<A>)| call.is_waiting() && call.waiter.is_queued();
        assert_eq!(
            self.queued,
            self.all().filter(queued).count(),
            "queued calls"
        );
        for (owner, lines) in lists {
            let waits = match lines.first_key_value() {
                Some((line, first)) if lines.len() == 1 => OwnerWaits::One(*line, *first),
                _ => OwnerWaits::Several,
            };
            assert_eq!(self.waits_of(owner), waits);
        }
    }

    /// Panics unless each pending call and each give-back is listed.
    fn check_grants(&self) {
        let mut pending = Vec::new();
        for (id, call) in self.all() {
            if let Stage::Granted(taken) | Stage::ReplyWritten(taken) = call.stage {
                pending.push((id, taken.token));
            }
        }
        pending.sort_unstable();
        let listed = self
            .pending
            .iter()
            .map(|pending| (pending.id, pending.token));
        let mut listed: Vec<_> = listed.collect();
        listed.sort_unstable();
        assert_eq!(listed, pending, "pending calls");
        for line in self.lines.iter() {
            let gives_back = |(_, call): &(CallId, &Call<A>)| {
                call.lock_id == line.lock_id && matches!(call.stage, Stage::GivesBack(..))
            };
            let give_backs = self.all().filter(gives_back).count();
            assert_eq!(line.give_backs.len(), give_backs, "what is given back");
        }
    }

    /// Panics unless the indexes by time have each call and each line once.
    fn check_ends(&self) {
        let wait_ends = self.all().filter(|(_, call)| call.is_waiting());
        let wait_ends = wait_ends.filter_map(|(id, call)| Some((call.waiter.until?, id)));
        assert_eq!(self.wait_ends, wait_ends.collect(), "the ends of the waits");
        let of_sessions = self.all().filter(|(_, call)| call.is_waiting());
        let of_sessions = of_sessions.filter_map(|(id, call)| {
            let LockId { database, key } = &call.lock_id;
            let line = self.lines.get(*database, key)?;
            Some((call.waiter.session?, line.id, id))
        });
        assert_eq!(
            self.of_sessions,
            of_sessions.collect(),
            "the calls of sessions"
        );
        let sessions: Vec<_> = self.sessions().collect();
        for session in &sessions {
            let count = self.of_session(*session).count();
            assert_eq!(self.waiting_of_session(*session), count, "of a session");
        }
        assert_eq!(self.session_counts.len(), sessions.len(), "sessions");
        let sent_ends = self.all().filter_map(|(id, call)| match call.stage {
            Stage::ReplySent(taken) => Some((taken.deadline, id)),
            _ => None,
        });
        assert_eq!(self.sent_ends, sent_ends.collect(), "the sent replies");
        let lease_ends = self.lines.iter().filter_map(|line| match line.lease_end {
            Some(Deadline::At(end)) => Some((end, line.id)),
            _ => None,
        });
        assert_eq!(self.lease_ends, lease_ends.collect(), "the ends of leases");
    }

    /// Panics unless each lock with waiting calls has a turn, and each ready lock will be taken.
    fn check_ready(&self) {
        let waited_for = self.lines.iter().filter(|line| line.waiting > 0);
        let turns = waited_for.map(|line| (line.id, line.lock_id.clone()));
        assert_eq!(self.turns, turns.collect(), "the order of the turns");
        let longest = self.lines.iter().map(|line| line.waiting).max();
        assert_eq!(self.max_waiting(), longest.unwrap_or(0), "the longest line");
        for line in self.lines.iter() {
            let is_listed = self.ready_keys.contains(&line.lock_id);
            assert!(!line.is_ready || is_listed, "a ready lock");
            let may_be_ready = line.waiting > 0 || !line.give_backs.is_empty();
            assert!(!line.is_ready || may_be_ready, "ready for nobody");
            assert!(line.is_ready || line.give_backs.is_empty(), "not ready");
        }
    }

    /// The number of entries of any kind.
    pub(crate) fn entries(&self) -> usize {
        let indexes = [
            self.lines.iter().count(),
            self.in_line.len(),
            self.passed_over.len(),
            self.unjudged.len(),
            self.owners.len(),
            self.exclusive.len(),
            self.clients.len(),
            self.of_sessions.len(),
            self.session_counts.len(),
            self.pending.len(),
            self.wait_ends.len(),
            self.sent_ends.len(),
            self.lease_ends.len(),
            self.turns.len(),
            self.ready_keys.len(),
            self.queued,
            self.giving_back,
            self.all_ready,
        ];
        self.table.len() + indexes.iter().sum::<usize>()
    }
}

impl Waiter {
    /// A waiter with limit 1 and no timeout.
    pub(crate) fn of(owner: &[u8], client_id: u64) -> Self {
        Self {
            owner: OwnerBuf::from(Owner::new(owner).expect("an owner")),
            lease: None,
            holds: None,
            limit: Limit::ONE,
            session: None,
            names_limit: false,
            client_id: Some(client_id),
            since: Monotonic(0),
            until: None,
        }
    }
}
