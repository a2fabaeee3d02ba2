//! An iteration of the server's event loop, as the module lives it; and what must be so after each.

use super::world::{MILLI, Mode, Name, World, database, lease, name_of, with};
use crate::keeping::KeptGrant;

/// After `ms` a silent connection is closed within this.
const SILENT_FOR_LONGER: u64 = 2_000_000;

impl World {
    /// Time passes, tick by tick.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now + ms * MILLI;
        while self.now < end {
            let start = self.now;
            let next = (start + self.tick).min(end);
            self.send_until(next, self.mode == Mode::Paused);
            if self.mode == Mode::Paused {
                self.stalled += next - start;
            }
            self.now = next;
            self.iterate();
        }
        self.agree();
    }

    /// Time passes, and nothing is done. Commands may come before the next iteration.
    pub(super) fn stall(&mut self, ms: u64) {
        let end = self.now + ms * MILLI;
        self.send_until(end, true);
        self.stalled += end - self.now;
        self.stall += end - self.now;
        self.now = end;
        self.reached.insert("stalled");
    }

    /// Clients send what they send until then. Who is paused or finds the server stalled is told nothing,
    /// and sends once.
    fn send_until(&mut self, end: u64, stands_still: bool) {
        for index in 0..self.clients.len() {
            let client = self.clients[index];
            if client.pace == 0 || !client.is_open || client.sends_next > end {
                continue;
            }
            let now = self.now;
            if !stands_still {
                self.now = client.sends_next.max(now);
            }
            self.send(index);
            self.now = now;
            self.clients[index].sends_next = end + client.pace;
        }
    }

    fn iterate(&mut self) {
        let now = self.time();
        self.registry.tick(now, self.mode == Mode::Paused);
        while let Some(grant) = self.registry.take_ended(now.unix) {
            self.look_at(&grant);
        }
        for _ in 0..32 {
            if let Some(grant) = self.registry.next_to_look_at() {
                self.look_at(&grant);
            }
        }
        self.ask();
        let is_due = self
            .keeping
            .keys()
            .any(|name| self.is_due(*name) && !matches!(self.mode, Mode::Down(_)));
        let to_try = self.registry.to_try(now);
        assert!(
            to_try.is_some() || !is_due || self.resumed.is_some(),
            "one to try"
        );
        if matches!(self.mode, Mode::NoWrites | Mode::Paused) {
            while let Some(grant) = self.registry.take_short(now) {
                self.cannot_renew(&grant);
            }
        } else {
            self.renew_due();
        }
        self.registry.sweep(2);
        self.standing.retain(|name, standing| {
            self.keeping.contains_key(name)
                || standing.deadline.is_none_or(|end| end >= now.unix.millis())
        });
        self.check();
        // Now what the clients have sent is read.
        if !self.lags {
            self.cached = self.wall();
        }
        let second = self.cached / 1_000_000;
        for client in &mut self.clients {
            if std::mem::take(&mut client.is_unread) {
                client.noted = second;
            }
        }
        self.cached = self.wall();
        self.stall = 0;
    }

    /// The module looks at a lock: the grant stands there, or not.
    fn look_at(&mut self, grant: &KeptGrant) -> bool {
        let name = name_of(grant);
        assert_eq!(self.keeping[&name].client, grant.client_id);
        let now = self.time();
        if let Some(standing) = self.stands(name) {
            let close = with(name, |name| {
                self.registry.seen(name, standing.deadline(), now)
            });
            assert_eq!(close, None);
            let standing = self.standing.get_mut(&name).expect("it stands");
            if std::mem::take(&mut standing.is_unseen) {
                standing.began = now.monotonic.0;
            }
            return true;
        }
        let close = with(name, |name| self.registry.lost(name));
        assert_eq!(close, Some(grant.client_id));
        self.standing.remove(&name);
        self.closed(grant.client_id);
        self.reached.insert("lease ended");
        false
    }

    fn ask(&mut self) {
        let now = self.time();
        for id in self.registry.to_ask(now, 2) {
            let alive = self.alive();
            let may_be = self
                .may_be_silent(id)
                .expect("a client that keeps something");
            let client = *self.client(id).expect("a client");
            assert!(client.is_open);
            if !self.registry.heard(id, client.noted, now) {
                self.reached.insert("asked in vain");
                continue;
            }
            let was_silent = match client.was_silent {
                (silent, at) if at + 1_000_000 >= alive => silent.max(alive - client.sent),
                _ => alive - client.sent,
            };
            assert!(
                was_silent >= may_be,
                "{id} was silent for {was_silent} of {may_be}"
            );
            self.closed(id);
            self.reached.insert("silent");
        }
    }

    fn cannot_renew(&mut self, grant: &KeptGrant) {
        let name = name_of(grant);
        let now = self.time();
        let standing = self.standing[&name];
        let close = with(name, |name| {
            self.registry.cannot_renew(name, standing.deadline(), now)
        });
        assert!(
            self.is_due(name) || standing.is_lifted,
            "only who is due is held up"
        );
        assert_eq!(close, self.is_short(&standing).then_some(grant.client_id));
        if let Some(id) = close {
            self.closed(id);
            self.reached.insert("a third left");
        }
    }

    /// Renews a grant, where it stands and has an end.
    fn renew(&mut self, grant: &KeptGrant) {
        let name = name_of(grant);
        if !self.look_at(grant) {
            return;
        }
        if self.mode == Mode::Down(name.0) {
            if self.standing[&name].deadline.is_some() {
                self.cannot_renew(grant);
            }
            return;
        }
        let (now, began, end) = (self.time(), self.now, self.millis());
        let standing = self.standing.get_mut(&name).expect("it stands");
        if standing.deadline.is_none() {
            self.reached.insert("persisted");
            return;
        }
        assert!(
            standing.is_lifted || began - standing.began >= standing.third(),
            "too early"
        );
        assert_eq!(grant.lease.millis(), standing.lease);
        standing.deadline = Some(end + standing.lease);
        standing.began = began;
        standing.is_lifted = false;
        let standing = *standing;
        with(name, |name| {
            let lease = lease(standing.lease);
            self.registry.renewed(name, lease, standing.deadline(), now);
        });
        self.reached.insert("renewed");
    }

    fn renew_due(&mut self) {
        let now = self.time();
        let due: Vec<_> = self
            .keeping
            .keys()
            .copied()
            .filter(|name| self.is_due(*name))
            .collect();
        let latest = due.iter().map(|name| {
            let standing = &self.standing[name];
            self.now - standing.began - standing.third()
        });
        // Nobody was looked at in vain meanwhile.
        let is_late = latest
            .max()
            .is_some_and(|late| late > 50 * MILLI && !matches!(self.mode, Mode::Down(_)));
        let mut ends = Vec::new();
        while let Some(grant) = self.registry.take_due(now) {
            let standing = self.stands(name_of(&grant));
            ends.extend(standing.and_then(|standing| standing.deadline));
            self.renew(&grant);
        }
        let is_sorted = ends.is_sorted();
        if is_late && self.resumed.is_none() {
            assert!(is_sorted, "nearest end first: {ends:?}");
            if ends.len() > 1 {
                self.reached.insert("several late");
            }
        }
        self.check_none_is_due();
    }

    /// What is due on a lock is done before a command on it.
    pub(super) fn before_command(&mut self, lock: u8) {
        let now = self.time();
        self.registry.check_due_of(database(lock), &[lock], now);
        let due: Vec<_> = self.registry.due_of(database(lock), &[lock], now);
        if !due.is_empty() {
            self.reached.insert("due before a command");
        }
        for grant in due {
            // One connection may keep two of them.
            if self.keeping.contains_key(&name_of(&grant)) {
                self.renew(&grant);
            }
        }
        let of_lock = self.keeping.keys().filter(|name| name.0 == lock);
        let of_lock: Vec<Name> = of_lock.copied().collect();
        assert!(!of_lock.into_iter().any(|name| self.is_overdue(name)));
    }

    fn is_overdue(&self, name: Name) -> bool {
        let is_down = self.mode == Mode::Down(name.0) || self.standing[&name].is_unseen;
        self.stands(name).is_some() && self.is_due(name) && !is_down
    }

    fn check_none_is_due(&mut self) {
        // A lock that was down is tried again after a thirtieth of the lease.
        if let Some(at) = self.resumed {
            if self.now < at + 1_000_000 + self.tick {
                return;
            }
            self.resumed = None;
        }
        for name in self.keeping.keys() {
            assert!(
                !self.is_overdue(*name),
                "{name:?}: {:?} at {}",
                self.standing[name],
                self.now
            );
        }
    }

    fn check(&mut self) {
        for (name, kept) in &self.keeping {
            assert!(self.stands(*name).is_some(), "a lost grant is told");
            let is_down = matches!(self.mode, Mode::NoWrites | Mode::Paused)
                || self.mode == Mode::Down(name.0);
            let standing = &self.standing[name];
            if is_down && self.is_due(*name) && !standing.is_lifted {
                assert!(
                    !self.is_short(standing),
                    "{name:?} of {kept:?}: a third is left"
                );
            }
        }
        for client in &self.clients {
            let Some(may_be) = self.may_be_silent(client.id).filter(|_| client.is_open) else {
                continue;
            };
            // Where a second came again, it may have been heard in either.
            let set_back = self.set_back - client.set_back;
            let longest = may_be + SILENT_FOR_LONGER + set_back;
            let silent = self.alive() - client.sent;
            assert!(
                silent <= longest,
                "{} silent for {silent} of {may_be}",
                client.id
            );
        }
    }

    /// Nothing is written, or not everything, or all again.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        if matches!(self.mode, Mode::Down(_)) {
            self.resumed = Some(self.now);
        }
        self.mode = mode;
    }

    /// The wall clock is set.
    pub(super) fn set_clock(&mut self, by: i64) {
        self.ahead = self.ahead.saturating_add_signed(by * 1000);
        self.set_back += by.min(0).unsigned_abs() * MILLI;
        self.reached.insert("the clock was set");
    }
}
