//! Gives back grants whose clients got no reply.

use super::call::{Call, Granted, Stage};
use super::lock::{self, Amount, Key, Verb};
use super::queue::Queue;

impl Queue {
    pub(super) fn give_back_later(&mut self, number: usize, only_unchanged: bool) {
        let index = self.index(number);
        let mut call = self.calls.remove(index);
        if let Some(granted) = call.pending() {
            call.stage = Stage::GivesBack(granted, only_unchanged);
        } else if let Stage::Sent(granted) = call.stage {
            call.stage = Stage::GivesBack(granted, only_unchanged);
        }
        // Grants are given back in the order in which the clients disconnected.
        self.calls.push(call);
    }

    pub(super) fn gives_back(&self, key: Key) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| call.gives_back() && call.key == key)
    }

    /// Ends leases and applies give-backs before a command on a lock. Returns true if that may have made room.
    pub(super) fn settle(&mut self, key: Key) -> bool {
        let mut makes_room = self.locks.end_leases(key);
        let gives_back = |call: &Call| call.gives_back() && call.key == key;
        while let Some(index) = self.calls.iter().position(gives_back) {
            let call = self.calls.remove(index);
            if let Stage::GivesBack(granted, only_unchanged) = call.stage {
                self.give_back(key, granted, only_unchanged);
                makes_room = true;
            }
        }
        makes_room
    }

    /// A call whose client did not get the reply gives back its hold. It gives back the whole grant if no other call of
    /// the grant was answered or is about to be; otherwise at least one hold stays.
    fn give_back(&mut self, key: Key, granted: Granted, only_unchanged: bool) {
        let Granted { as_granted, took } = granted;
        let grant = as_granted.grant;
        let holders = self.locks.holders(key).into_iter();
        let Some(holder) = holders.into_iter().find(|holder| holder.grant == grant) else {
            self.cases.insert("given back too late");
            return;
        };
        let is_known = !self.unknown.contains(&grant) || self.is_pending(grant);
        // `PEXPIRE` moves the end of an exclusive lease, but not the end of a holder of a shared lock.
        let lock = &self.locks.locks[&key];
        let mut holders = lock.holders.iter().filter(|_| !lock.is_exclusive());
        let own = holders.find(|own| own.grant == grant).unwrap_or(&holder);
        let is_changed =
            (own.token, own.holds, own.end) != (as_granted.token, as_granted.holds, as_granted.end);
        let (amount, case) = match (only_unchanged, is_known) {
            (true, _) if is_changed => (None, "a changed grant stays"),
            (true, _) => (Some(Amount::All), "an unsent grant given back"),
            (false, false) => (Some(Amount::All), "given back whole"),
            (false, true) if !took => (None, "no hold to give back"),
            (false, true) if holder.holds == 1 => (None, "the last hold stays"),
            (false, true) => (Some(Amount::One), "a hold given back"),
        };
        self.cases.insert(case);
        if let Some(amount) = amount {
            let (owner, token) = (holder.owner, None);
            let verb = Verb::Release(amount);
            self.locks.call(lock::Call {
                key,
                owner,
                token,
                verb,
            });
        }
    }
}
