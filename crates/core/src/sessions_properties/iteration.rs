//! An iteration of the event loop, as the module does it, and a command on a lock.

use super::model::{Grant, Name};
use super::world::{World, database, deadline, id, name_of, with};
use crate::sessions::{LossReason, Presence, SessionGrant, Timeout};

impl World {
    /// One iteration, which does `slice` of each thing that takes long. `forget`: one grant that is due cannot
    /// be renewed.
    pub(super) fn iterate(&mut self, slice: usize, forget: bool) {
        self.find_ended();
        let mut forget = forget;
        if !self.writes_blocked {
            self.renew(slice, &mut forget);
            for _ in 0..slice {
                let Some(grant) = self.sessions.take_to_release() else {
                    assert!(self.model.to_release.is_empty());
                    assert!(!self.sessions.has_to_release());
                    break;
                };
                self.is_released(&grant);
            }
        }
        let is_more = self.sessions.sweep(slice);
        assert!(!is_more || slice < usize::MAX);
        self.answer_polls(slice, &mut forget);
        self.find_timeouts();
    }

    /// A LOCK command on this lock begins.
    pub(super) fn command(&mut self, lock: u8) {
        if self.writes_blocked {
            return;
        }
        let now = self.now();
        let may_have = self.sessions.has_due_of_lock(database(lock), &[lock], now);
        let before = (
            self.model.to_release.len(),
            self.model.renewals,
            self.model.losses,
        );
        self.release_closed(lock);
        while let Some(grant) = self.sessions.next_due_of_lock(database(lock), &[lock], now) {
            assert_eq!(name_of(&grant).0, lock);
            self.look(&grant, false);
        }
        let after = (
            self.model.to_release.len(),
            self.model.renewals,
            self.model.losses,
        );
        assert!(may_have || before == after);
        let due = |grant: &&Grant| grant.name.0 == lock && grant.due <= self.model.now;
        let left: Vec<_> = self.model.grants.iter().filter(due).copied().collect();
        for grant in left {
            let parked = (grant.name, grant.due);
            assert!(
                !self.model.is_due(&grant) || self.parked.contains(&parked),
                "{grant:?} is due"
            );
            self.parked.push(parked);
        }
    }

    /// The grants of closed sessions on this lock are released.
    pub(super) fn release_closed(&mut self, lock: u8) {
        while let Some(grant) = self.sessions.take_to_release_of(database(lock), &[lock]) {
            assert_eq!(name_of(&grant).0, lock);
            self.is_released(&grant);
        }
        assert!(
            self.model
                .to_release
                .iter()
                .all(|grant| grant.name.0 != lock)
        );
    }

    fn is_released(&mut self, grant: &SessionGrant) {
        let name = name_of(grant);
        let before = self.model.to_release.len();
        self.model.to_release.retain(|grant| grant.name != name);
        assert_eq!(self.model.to_release.len(), before - 1, "{name:?}");
        self.end_hold(name);
    }

    fn find_ended(&mut self) {
        let now = self.now();
        let wall = self.model.wall();
        while let Some(grant) = self.sessions.next_ended(now) {
            let name = name_of(&grant);
            let ends = self.model.grants.iter().filter_map(|grant| grant.end);
            assert_eq!(
                Some(grant.deadline),
                ends.min().map(|end| deadline(Some(end)))
            );
            let end = self.hold(name).map(|hold| hold.end);
            match end {
                Some(end) => self.saw(name, end),
                None => self.is_lost(name),
            }
        }
        let mut ends = self.model.grants.iter().filter_map(|grant| grant.end);
        assert!(ends.all(|end| end >= wall), "all ends are found");
    }

    fn renew(&mut self, slice: usize, forget: &mut bool) {
        for _ in 0..slice {
            let Some(grant) = self.sessions.next_due(self.now()) else {
                let due = self
                    .model
                    .grants
                    .iter()
                    .find(|grant| self.model.is_due(grant));
                assert!(due.is_none(), "{due:?} is due");
                return;
            };
            self.look(&grant, std::mem::take(forget));
        }
    }

    /// A grant that is due was taken: looks at its lock.
    fn look(&mut self, grant: &SessionGrant, forget: bool) {
        let name = name_of(grant);
        let found = self.model.find(name).copied().expect("a grant");
        assert!(self.model.is_due(&found), "{found:?} is not due");
        let now = self.now();
        if forget {
            let again = self.model.again(found.lease);
            self.model.find(name).unwrap().due = again;
            return self.sessions.not_renewed(grant, now);
        }
        let wall = self.model.wall();
        match self.hold(name) {
            None => self.is_lost(name),
            Some(hold) if hold.end.is_none() || found.end.is_none() => {
                let end = hold.end;
                self.saw(name, end);
            }
            Some(hold) => {
                let end = Some(wall + found.lease);
                hold.end = end;
                self.sessions.renewed(grant, deadline(end), now);
                let due = self.model.due(found.lease);
                let grant = self.model.find(name).unwrap();
                (grant.end, grant.due) = (end, due);
                self.model.renewals += 1;
            }
        }
    }

    fn is_lost(&mut self, name: Name) {
        self.end_hold(name);
        let reason = LossReason::Deleted;
        with(name, |grant| self.sessions.lost(grant, reason, self.now()));
        self.model.lose(reason, |grant| grant.name == name);
    }

    fn saw(&mut self, name: Name, end: Option<u64>) {
        let now = self.now();
        with(name, |grant| self.sessions.seen(grant, deadline(end), now));
        let before = self.model.find(name).copied().unwrap();
        let due = match (before.end, end) {
            (_, None) => self.model.again(before.lease),
            (None, Some(_)) => self.model.now + before.lease * 1000 / 3,
            (Some(_), Some(_)) => before.due,
        };
        let grant = self.model.find(name).unwrap();
        (grant.end, grant.due) = (end, due);
    }

    fn answer_polls(&mut self, slice: usize, forget: &mut bool) {
        let now = self.now();
        let mut is_late = slice == 1;
        while let Some(session) = self.sessions.next_poll(now) {
            let number = session.number();
            assert!(self.model.polls().contains(&number));
            if std::mem::take(&mut is_late) {
                self.sessions.answer_later(session, now);
                continue;
            }
            while !self.writes_blocked
                && let Some(grant) = self.sessions.next_due_of(session, now)
            {
                assert_eq!(grant.session, session);
                self.look(&grant, std::mem::take(forget));
            }
            let due = |grant: &Grant| grant.due <= self.model.now;
            assert!(self.writes_blocked || !self.model.grants_of(number).iter().any(due));
            self.answer(number);
        }
        assert!(self.model.polls().is_empty(), "{:?}", self.model.polls());
    }

    fn find_timeouts(&mut self) {
        while let Some(timeout) = self.sessions.take_timeout(self.now()) {
            let (silent, away) = self.model.timeouts();
            match timeout {
                Timeout::Ended(session) => {
                    assert!(silent.contains(&session.number()));
                    self.model.end(session.number());
                    self.model.silent += 1;
                }
                Timeout::Away(session) => {
                    assert!(away.contains(&session.number()));
                    self.model.live(session.number()).unwrap().is_away = true;
                    assert_eq!(self.sessions.presence(id(session.number())), Presence::Away);
                }
            }
        }
        assert_eq!(self.model.timeouts(), (Vec::new(), Vec::new()));
    }
}
