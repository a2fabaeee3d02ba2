//! Calls that are passed over: they keep their place, and those behind them are granted first.

use super::{CallId, Calls, of_line};
use crate::LockId;
use crate::sessions::SessionId;

impl<A> Calls<A> {
    /// The waiting calls of a session from `from` on, at most `max` of them, are passed over from now on, or no
    /// longer. Locks in whose line another call is first now become ready. Returns the call to go on with, if any
    /// is left.
    ///
    /// Move all calls of a session before any lock is served: a line in which one program has calls of both
    /// kinds has no order.
    pub fn pass_over(
        &mut self,
        session: SessionId,
        is_passed_over: bool,
        from: Option<CallId>,
        max: usize,
    ) -> Option<CallId> {
        let from = from.unwrap_or(CallId::FIRST);
        let all = self
            .of_sessions
            .range((session, from)..=(session, CallId::LAST));
        let ids: Vec<_> = all.map(|(_, id)| *id).take(max.saturating_add(1)).collect();
        for id in ids.iter().take(max) {
            self.pass_call_over(*id, is_passed_over);
        }
        ids.get(max).copied()
    }

    /// As [`Calls::pass_over`], for one call that waits.
    pub fn pass_call_over(&mut self, id: CallId, is_passed_over: bool) {
        let call = self.table.get_mut(&id).filter(|call| call.is_waiting());
        let Some(call) = call.filter(|call| call.is_passed_over != is_passed_over) else {
            return;
        };
        call.is_passed_over = is_passed_over;
        let LockId { database, key } = &call.lock_id;
        let Some(line) = self.lines.get_mut(*database, key) else {
            return;
        };
        let owner = &call.waiter.owner;
        self.owners.remove(owner, (line.id, !is_passed_over, id));
        self.owners.insert(owner, (line.id, is_passed_over, id));
        let first_before = line.first;
        if is_passed_over {
            self.in_line.remove(&(line.id, id));
            self.unjudged.remove(&(line.id, id));
            self.passed_over.insert((line.id, id));
            if line.first == Some(id) {
                line.first = of_line(&self.in_line, line.id).next();
            }
        } else {
            self.passed_over.remove(&(line.id, id));
            self.in_line.insert((line.id, id));
            self.unjudged.insert((line.id, id));
            line.first = Some(line.first.map_or(id, |first| first.min(id)));
        }
        // Its owner may hold the lock: then it may be granted wherever it stands.
        if line.first != first_before || !is_passed_over {
            line.make_ready(&mut self.ready_keys);
        }
    }
}
