//! Calls that are passed over: they keep their place, and those behind them are granted first.

use super::{CallId, Calls, LineId, of_line};
use crate::LockId;
use crate::sessions::SessionId;

/// Where [`Calls::pass_over`] continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassOverPlace(LineId, CallId);

impl<A> Calls<A> {
    /// The waiting calls of a session from `from` on, at most `max` of them, are passed over from now on, or no
    /// longer. A lock becomes ready when another call is now first in its line. Returns where to continue, if any is
    /// left.
    ///
    /// Update all calls of a session before any of their locks is served: while one program has calls of both
    /// kinds in a line, it is not known which call is next.
    pub fn pass_over(
        &mut self,
        session: SessionId,
        is_passed_over: bool,
        from: Option<PassOverPlace>,
        max: usize,
    ) -> Option<PassOverPlace> {
        let PassOverPlace(line, id) = from.unwrap_or(PassOverPlace(LineId::FIRST, CallId::FIRST));
        let calls = (session, line, id)..=(session, LineId::LAST, CallId::LAST);
        let calls = self.of_sessions.range(calls);
        let calls: Vec<_> = calls.copied().take(max.saturating_add(1)).collect();
        for (_, _, id) in calls.iter().take(max) {
            self.pass_call_over(*id, is_passed_over);
        }
        let (_, line, id) = *calls.get(max)?;
        Some(PassOverPlace(line, id))
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
        let first_before = line.first_eligible;
        if is_passed_over {
            self.in_line.remove(&(line.id, id));
            self.unjudged.remove(&(line.id, id));
            self.passed_over.insert((line.id, id));
            if line.first_eligible == Some(id) {
                line.first_eligible = of_line(&self.in_line, line.id).next();
            }
        } else {
            self.passed_over.remove(&(line.id, id));
            self.in_line.insert((line.id, id));
            self.unjudged.insert((line.id, id));
            line.first_eligible = Some(line.first_eligible.map_or(id, |first| first.min(id)));
        }
        // If its owner holds the lock, it can be granted from any place in the line.
        if line.first_eligible != first_before || !is_passed_over {
            line.make_ready(&mut self.ready_keys);
        }
    }
}
