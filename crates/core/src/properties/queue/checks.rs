//! The table of calls against the model.

use std::collections::BTreeSet;

use super::history::{OWNERS, SESSIONS};
use super::system::{System, key_of};
use crate::CallId;
use crate::model::call::{Call, Stage};
use crate::model::lock::Key;
use crate::model::queue::Queue;
use crate::properties::locks::history::KEYS;
use crate::properties::locks::numbers::{name, number_of};

impl System {
    /// The table has the calls of the model, in the same stages and in the same order.
    pub(super) fn check(&self, model: &Queue) {
        let calls = &self.calls;
        calls.check();
        self.locks.check(&model.locks);
        assert_eq!(self.ended, model.ended);
        assert_eq!(self.ids.len(), model.joined);
        let blocked: Vec<_> = calls.blocked().map(|id| self.numbers[&id]).collect();
        let of = |stage: fn(Stage) -> bool| {
            let calls = model.calls.iter();
            let calls = calls.filter(move |call| stage(call.stage) && !call.is_queued);
            calls.map(|call| call.number).collect::<BTreeSet<_>>()
        };
        let granted = of(|stage| matches!(stage, Stage::Granted(_)));
        let (first, rest) = blocked.split_at(granted.len());
        assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), granted);
        assert_eq!(
            rest.iter().copied().collect::<BTreeSet<_>>(),
            of(|stage| stage == Stage::Waiting)
        );
        let mut sent = model.calls.iter().map(|call| call.stage);
        assert_eq!(
            calls.has_sent(),
            sent.any(|stage| matches!(stage, Stage::Sent(_)))
        );
        assert_eq!(calls.len(), model.waiting().count());
        assert_eq!(calls.is_empty(), model.waiting().next().is_none());
        let queued = model.waiting().filter(|call| call.is_queued);
        assert_eq!(calls.queued(), queued.count());
        let next_end = calls
            .next_wait_end()
            .map(|(end, id)| (end.0, self.numbers[&id]));
        assert_eq!(next_end, model.next_wait_end());
        for key in KEYS {
            let (database, name_of_key) = (key.0, [key.1]);
            let line = calls.iter(database, &name_of_key);
            let line: Vec<_> = line
                .map(|(id, call)| (self.numbers[&id], number_of(call.waiter.owner.as_owner())))
                .collect();
            let waiting = model.waiting_at(key);
            let expected: Vec<_> = waiting.map(|call| (call.number, call.owner)).collect();
            assert_eq!(line, expected, "the line of {key:?}");
            assert_eq!(calls.waiting(database, &name_of_key), line.len());
            self.check_line(model, key);
        }
        let lock_ids = calls.lock_ids();
        let waited: BTreeSet<_> = model.waiting().map(|call| call.key).collect();
        assert_eq!(
            (lock_ids.len(), calls.locks()),
            (waited.len(), waited.len())
        );
        assert_eq!(lock_ids.iter().map(key_of).collect::<BTreeSet<_>>(), waited);
    }

    /// The calls that are looked for in a line are found.
    fn check_line(&self, model: &Queue, key: Key) {
        let (calls, database, name_of_key) = (&self.calls, key.0, [key.1]);
        let found = |id: Option<CallId>| id.map(|id| self.numbers[&id]);
        let number = |call: Option<&Call>| call.map(|call| call.number);
        let first = calls.first(database, &name_of_key);
        assert_eq!(found(first), number(model.waiting_at(key).next()));
        let eligible = calls.first_eligible(database, &name_of_key);
        assert_eq!(found(eligible), number(model.eligible_at(key).next()));
        for (before, call) in model.waiting_at(key).enumerate() {
            let place = calls.place(self.ids[call.number]).expect("it waits");
            assert!((before..calls.waiting(database, &name_of_key)).contains(&place));
        }
        for owner in 0..OWNERS {
            let is_own = |call: &&Call| call.owner == owner;
            let name = name(owner);
            let first = calls.first_of(database, &name_of_key, name.bytes());
            assert_eq!(found(first), number(model.waiting_at(key).find(is_own)));
            let eligible = calls.first_eligible_of(database, &name_of_key, name.bytes());
            assert_eq!(found(eligible), number(model.eligible_at(key).find(is_own)));
            for session in 0..SESSIONS {
                for holds in 1..=3 {
                    let repeated = self.repeated(key, owner, Some(session), holds);
                    let expected = model.repeated(key, owner, Some(session), Some(holds));
                    assert_eq!(found(repeated), number(expected));
                }
            }
        }
    }

    /// When every call has ended nothing is left of any.
    pub(super) fn check_at_the_end(&self) {
        assert_eq!(self.calls.entries(), 0);
        assert!(self.calls.is_idle());
    }
}
