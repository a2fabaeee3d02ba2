//! Adds calls to lines and removes them.

use std::collections::VecDeque;

use super::call::Stage;
use super::line::Lengths;
use super::{Call, CallId, Calls, Waiter, of_line};
use crate::{Limit, LockId};

impl<A> Calls<A> {
    /// Adds a call at the end of the line of a lock.
    pub fn join(&mut self, database: i32, key: &[u8], waiter: Waiter, attached: A) -> CallId {
        let id = CallId::next(self.last_id);
        self.last_id = Some(id);
        let line = self.lines.get_or_insert(database, key);
        if line.waiting == 0 {
            self.turns.insert(line.id, line.lock_id.clone());
        }
        line.since_sum += u128::from(waiter.since.0);
        let place = line.waiting;
        line.waiting += 1;
        self.lengths.grown(line.waiting);
        let is_first = line.first_eligible.is_none();
        line.first_eligible.get_or_insert(id);
        self.in_line.insert((line.id, id));
        self.owners.insert(&waiter.owner, (line.id, false, id));
        let owner = waiter.owner.as_owner().bytes();
        if waiter.limit > Limit::ONE {
            line.wider += 1;
        } else if line.wider > 0 && self.owners.first_of(owner, line.id) == Some(id) {
            self.exclusive.insert((line.id, id));
        }
        if is_first || line.lease_end.is_none() {
            // The tick then finds out when the lease ends. Even a known end may be that of an earlier holder, if all
            // calls before this one are passed over.
            line.make_ready(&mut self.ready_keys);
        }
        let (line_id, lock_id) = (line.id, line.lock_id.clone());
        if let Some(until) = waiter.until {
            self.wait_ends.insert((until, id));
        }
        if let Some(session) = waiter.session {
            self.of_sessions.insert((session, line_id, id));
            *self.session_counts.get_or_insert_with(session, || 0) += 1;
        }
        match waiter.client_id {
            Some(client) => {
                let calls = self.clients.get_or_insert_with(client, Default::default);
                calls.blocked = Some(id);
            }
            None => self.queued += 1,
        }
        self.waiting += 1;
        let call = Call {
            waiter,
            lock_id,
            attached,
            place,
            is_passed_over: false,
            stage: Stage::Waiting,
        };
        self.table.insert(id, Box::new(call));
        id
    }

    /// Removes and returns a waiting call. Calls behind it may have room then.
    pub fn remove(&mut self, id: CallId) -> Option<Call<A>> {
        let was_first = self.leave_line(id)?;
        let call = *self.table.remove(&id)?;
        self.forget_client(call.waiter.client_id, id);
        let LockId { database, key } = &call.lock_id;
        if was_first {
            self.make_ready(*database, key);
        }
        Some(call)
    }

    /// Removes a waiting call from its line. Returns true if it was the first call that is not passed over. The caller
    /// has to set the next stage of the call.
    pub(super) fn leave_line(&mut self, id: CallId) -> Option<bool> {
        let call = self.table.get(&id).filter(|call| call.is_waiting())?;
        let (waiter, LockId { database, key }) = (&call.waiter, &call.lock_id);
        let line = self.lines.get_mut(*database, key)?;
        let was_first = line.first_eligible == Some(id);
        if call.is_passed_over {
            self.passed_over.remove(&(line.id, id));
        } else {
            self.in_line.remove(&(line.id, id));
            self.unjudged.remove(&(line.id, id));
        }
        if was_first {
            line.first_eligible = of_line(&self.in_line, line.id).next();
        }
        let entry = (line.id, call.is_passed_over, id);
        self.owners.remove(&waiter.owner, entry);
        if let Some(until) = waiter.until {
            self.wait_ends.remove(&(until, id));
        }
        if let Some(session) = waiter.session {
            self.of_sessions.remove(&(session, line.id, id));
            match self.session_counts.get_mut(&session) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.session_counts.remove(&session)),
            }
        }
        if waiter.limit > Limit::ONE {
            line.wider -= 1;
        } else {
            self.exclusive.remove(&(line.id, id));
        }
        let owner = waiter.owner.as_owner().bytes();
        if line.wider > 0
            && let Some(next) = self.owners.first_of(owner, line.id)
            && let Some(call) = self.table.get(&next)
            && call.waiter.limit == Limit::ONE
        {
            self.exclusive.insert((line.id, next));
        }
        line.since_sum -= u128::from(waiter.since.0);
        self.lengths.shrunk(line.waiting);
        line.waiting -= 1;
        self.waiting -= 1;
        self.queued -= usize::from(waiter.is_queued());
        if line.waiting == 0 {
            self.turns.remove(&line.id);
            line.is_ready = !line.give_backs.is_empty();
            line.set_lease_end(&mut self.lease_ends, None);
            let LockId { database, key } = call.lock_id.clone();
            self.forget_unused_line(database, &key);
        }
        Some(was_first)
    }

    /// Removes a call from the calls of its client, if it has a client.
    pub(super) fn forget_client(&mut self, client: Option<u64>, id: CallId) {
        let Some(client) = client else { return };
        let Some(calls) = self.clients.get_mut(&client) else {
            return;
        };
        for call in [&mut calls.blocked, &mut calls.answered] {
            call.take_if(|call| *call == id);
        }
        if calls.blocked.is_none() && calls.answered.is_none() {
            self.clients.remove(&client);
        }
    }

    /// Removes a line without calls and give-backs.
    pub(super) fn forget_unused_line(&mut self, database: i32, key: &[u8]) {
        self.lines.remove_unused(database, key);
        if self.lines.is_empty() {
            self.ready_keys = VecDeque::new();
            self.lengths = Lengths::default();
            self.all_ready = 0;
        }
    }
}
