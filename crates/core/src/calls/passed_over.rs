//! Passes over calls: they keep their place, but calls behind them are granted first.

use super::{CallId, Calls, LineId, of_line};
use crate::LockId;
use crate::sessions::SessionId;

/// Where [`Calls::pass_over`] continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassOverPlace(LineId, CallId);

impl<A> Calls<A> {
    /// Changes whether the waiting calls of a session are passed over, for at most `max` calls from `from` on. Returns
    /// where to continue, if calls are left. A lock becomes ready if the first eligible call in its line changes.
    ///
    /// Update all calls of a session before you serve any of their locks. Until then it is unknown which call is next
    /// in a line with calls of the session.
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

    /// Like [`Calls::pass_over`], but for one waiting call.
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
        // If the owner of the call holds the lock, the call can be granted from any place in the line.
        if line.first_eligible != first_before || !is_passed_over {
            line.make_ready(&mut self.ready_keys);
        }
    }
}
