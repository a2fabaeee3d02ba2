//! Follows calls from the grant until the reply is sent.
//!
//! A client may disconnect before it gets the reply. Its call then gives back its hold, or the whole grant if no other
//! call of the grant was answered or is pending.

use super::call::{Amount, HolderName, Stage};
use super::line::Line;
use super::{Call, CallId, Calls, GiveBack, Taken};
use crate::shards::Shards;
use crate::{Deadline, LockId, Token, UnixTime};

/// Above this number of sent replies, those whose lease has ended are removed.
pub(super) const MAX_SENT: usize = 64;

/// The calls of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfClient {
    /// The call that blocks the client. It waits or was granted the lock.
    pub(super) blocked: Option<CallId>,
    /// The last call whose reply was written or sent.
    pub(super) answered: Option<CallId>,
}

/// A granted call whose reply may not have been sent yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: CallId,
    pub(super) token: Token,
    /// True if another call of the grant was answered.
    others_keep_grant: bool,
}

/// The pending calls of one grant. The token alone does not tell it: `RAISE` may lift a grant to the token of an
/// earlier owner.
fn of_grant<'a, A>(
    pending: &'a mut [Pending],
    table: &'a Shards<CallId, Box<Call<A>>>,
    holder: HolderName<'a>,
    token: Token,
) -> impl Iterator<Item = &'a mut Pending> {
    pending.iter_mut().filter(move |pending| {
        let call = || table.get(&pending.id);
        pending.token == token && call().is_some_and(|call| call.holder_name() == holder)
    })
}

impl<A: Default> Calls<A> {
    /// Records that a waiting call is granted the lock. `is_new` is false for a re-entry. Returns the call.
    pub fn grant(&mut self, id: CallId, taken: Taken, is_new: bool) -> Option<&mut Call<A>> {
        self.leave_line(id)?;
        let holder = self.table.get(&id)?.holder_name();
        let mut siblings = of_grant(&mut self.pending, &self.table, holder, taken.token);
        // A re-entry into a grant without pending calls: an earlier call of the grant was answered. If there are
        // pending calls, any of them knows whether one was.
        let others_keep_grant = !is_new
            && siblings
                .next()
                .is_none_or(|sibling| sibling.others_keep_grant);
        drop(siblings);
        self.pending.push(Pending {
            id,
            token: taken.token,
            others_keep_grant,
        });
        let call = self.table.get_mut(&id)?;
        call.stage = Stage::Granted(taken);
        Some(call)
    }

    /// Records that a queued call is granted the lock, and removes the call. It never has to be given back, because its
    /// session keeps the event until the program acknowledges it.
    pub fn grant_queued(&mut self, id: CallId, token: Token) -> Option<Call<A>> {
        self.leave_line(id)?;
        let call = *self.table.remove(&id)?;
        self.answered(call.holder_name(), token);
        Some(call)
    }

    /// The call that blocks a client.
    #[must_use]
    pub fn blocked_by(&self, client: u64) -> Option<CallId> {
        self.clients.get(&client)?.blocked
    }

    /// The calls that block a client. Those that were granted the lock come first.
    pub fn blocked(&self) -> impl Iterator<Item = CallId> {
        let granted = self.pending.iter().map(|pending| pending.id);
        let granted = granted.filter(|id| matches!(self.stage(*id), Some(Stage::Granted(_))));
        let waiting = self.clients.iter().filter_map(|(_, calls)| calls.blocked);
        granted.chain(waiting.filter(|id| matches!(self.stage(*id), Some(Stage::Waiting))))
    }

    /// Records that the reply is written to a client that was blocked. The server may still drop the reply, because it
    /// lets the module write replies even to a client that it is about to close.
    pub fn reply_written(&mut self, client: u64) {
        let Some(calls) = self.clients.get_mut(&client) else {
            return;
        };
        let (written, before) = (calls.blocked.take(), calls.answered.take());
        calls.answered = written;
        if let Some(before) = before {
            self.reply_sent(before);
            self.forget(before);
        }
        if let Some(call) = written.and_then(|id| self.table.get_mut(&id))
            && let Stage::Granted(taken) = call.stage
        {
            call.stage = Stage::ReplyWritten(taken);
            call.attached = A::default();
        }
    }

    /// Records that the server has sent all written replies, as far as the clients have read.
    pub fn replies_sent(&mut self, now: impl FnOnce() -> UnixTime) {
        if self.pending.is_empty() {
            return;
        }
        let pending: Vec<_> = self.pending.iter().map(|pending| pending.id).collect();
        for id in pending {
            self.reply_sent(id);
        }
        if self.sent_ends.len() > MAX_SENT {
            let now = Deadline::At(now().millis());
            while let Some((end, id)) = self.sent_ends.first().copied()
                && end < now
            {
                self.forget(id);
            }
        }
    }

    /// Records that the reply of a call is sent. Keeps the call only if no other call of the grant was answered or is
    /// pending, because only then does an incomplete reply matter.
    fn reply_sent(&mut self, id: CallId) {
        if let Some(Stage::ReplyWritten(taken)) = self.stage(id) {
            let others_keep_grant = self.leave_grant(id, true);
            self.sent_ends.insert((taken.deadline, id));
            if let Some(call) = self.table.get_mut(&id) {
                call.stage = Stage::ReplySent(taken);
            }
            if others_keep_grant {
                self.forget(id);
            }
        }
    }

    /// Returns true if there are calls in the stage `ReplySent`.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        !self.sent_ends.is_empty()
    }

    /// Forgets the last call of a client, if its reply is sent.
    pub fn forget_sent(&mut self, client: u64) {
        if let Some(id) = self.answered_of(client) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: CallId) {
        if let Some(Stage::ReplySent(taken)) = self.stage(id)
            && let Some(call) = self.table.remove(&id)
        {
            self.sent_ends.remove(&(taken.deadline, id));
            self.forget_client(call.waiter.client_id, id);
        }
    }

    /// Handles the disconnect of a client that is not blocked. Abandons its last answered call if that is pending.
    /// Returns true if a sent reply may be incomplete, because the client may not have read the output before it.
    pub fn client_closed(&mut self, client: u64) -> bool {
        let id = self.answered_of(client);
        id.is_some_and(|id| !self.abandon(id))
    }

    /// Gives back the grant of a client's last answered call, because its reply was not sent completely.
    pub fn reply_is_unsent(&mut self, client: u64) {
        if let Some(id) = self.answered_of(client)
            && let Some(Stage::ReplySent(taken)) = self.stage(id)
        {
            self.sent_ends.remove(&(taken.deadline, id));
            self.give_back(id, taken, Amount::UnchangedGrant);
        }
    }

    /// Gives back the pending grant of a call whose client has disconnected. Returns false if it has no pending grant.
    pub fn abandon(&mut self, id: CallId) -> bool {
        let Some(Stage::Granted(taken) | Stage::ReplyWritten(taken)) = self.stage(id) else {
            return false;
        };
        let amount = if self.leave_grant(id, false) {
            Amount::Hold
        } else {
            Amount::Grant
        };
        self.give_back(id, taken, amount);
        true
    }

    /// Removes a call from the pending calls. Returns true if another call of the grant was answered or is pending.
    fn leave_grant(&mut self, id: CallId, is_answered: bool) -> bool {
        let index = self.pending.iter().position(|pending| pending.id == id);
        let (Some(index), Some(call)) = (index, self.table.get(&id)) else {
            return true;
        };
        let mut left = self.pending.remove(index);
        let holder = call.holder_name();
        for sibling in of_grant(&mut self.pending, &self.table, holder, left.token) {
            left.others_keep_grant = true;
            sibling.others_keep_grant |= is_answered;
        }
        left.others_keep_grant
    }

    /// Records that another call of this grant was answered, or that its session has the event. The pending calls then
    /// no longer give back the whole grant.
    pub fn answered(&mut self, holder: HolderName<'_>, token: Token) {
        for pending in of_grant(&mut self.pending, &self.table, holder, token) {
            pending.others_keep_grant = true;
        }
    }

    /// Updates the pending calls of a grant whose token was raised.
    pub fn raise(&mut self, holder: HolderName<'_>, from: Token, to: Token) {
        let pending = of_grant(&mut self.pending, &self.table, holder, from);
        let raised: Vec<_> = pending
            .map(|pending| {
                pending.token = to;
                pending.id
            })
            .collect();
        for id in raised {
            if let Some(call) = self.table.get_mut(&id)
                && let Stage::Granted(taken) | Stage::ReplyWritten(taken) = &mut call.stage
            {
                taken.token = to;
            }
        }
    }

    /// Updates the deadline of the calls of a grant that the server has renewed. No client is notified of such a
    /// renewal, so the grant does not count as changed.
    pub fn renewed(
        &mut self,
        (database, key): (i32, &[u8]),
        token: Token,
        (from, to): (Deadline, Deadline),
    ) {
        let sent = self
            .sent_ends
            .range((from, CallId::FIRST)..=(from, CallId::LAST));
        let sent = sent.map(|(_, id)| *id);
        let pending = self.pending.iter().map(|pending| pending.id);
        let line = self.lines.get(database, key).into_iter();
        let given_back = line.flat_map(|line| line.give_backs.iter().copied());
        for id in sent.chain(pending).chain(given_back).collect::<Vec<_>>() {
            let call = self.table.get_mut(&id);
            let Some(call) = call.filter(|call| call.lock_id.is(database, key)) else {
                continue;
            };
            if let Stage::Granted(taken)
            | Stage::ReplyWritten(taken)
            | Stage::ReplySent(taken)
            | Stage::GivesBack(taken, _) = &mut call.stage
                && (taken.token, taken.deadline) == (token, from)
            {
                taken.deadline = to;
                if self.sent_ends.remove(&(from, id)) {
                    self.sent_ends.insert((to, id));
                }
            }
        }
    }

    /// Makes the call give back `amount`, which is applied before the next command on its lock.
    fn give_back(&mut self, id: CallId, taken: Taken, amount: Amount) {
        if let Some(call) = self.table.get_mut(&id) {
            call.stage = Stage::GivesBack(taken, amount);
            call.attached = A::default();
            let LockId { database, key } = &call.lock_id;
            let line = self.lines.get_or_insert(*database, key);
            line.give_backs.push(id);
            line.make_ready(&mut self.ready_keys);
            self.giving_back += 1;
            let client = call.waiter.client_id;
            self.forget_client(client, id);
        }
    }

    /// Takes the give-backs of a lock, oldest first.
    pub fn take_give_backs(&mut self, database: i32, key: &[u8]) -> Vec<GiveBack> {
        let line = self.lines.get_mut(database, key);
        let calls = line.map_or_else(Vec::new, |line| std::mem::take(&mut line.give_backs));
        self.giving_back -= calls.len();
        let calls = calls.into_iter().filter_map(|id| self.table.remove(&id));
        let give_backs = calls.filter_map(|call| match call.stage {
            Stage::GivesBack(taken, amount) => Some(GiveBack {
                owner: call.waiter.owner,
                client_id: call.waiter.client_id?,
                taken,
                amount,
            }),
            _ => None,
        });
        let give_backs = give_backs.collect();
        self.forget_unused_line(database, key);
        give_backs
    }

    /// Returns true if the lock has give-backs.
    #[must_use]
    pub fn gives_back(&self, database: i32, key: &[u8]) -> bool {
        // Check the total first, because every command asks this.
        let is_given_back = |line: &Line| !line.give_backs.is_empty();
        self.giving_back > 0 && self.lines.get(database, key).is_some_and(is_given_back)
    }

    fn answered_of(&self, client: u64) -> Option<CallId> {
        self.clients.get(&client)?.answered
    }

    fn stage(&self, id: CallId) -> Option<Stage> {
        self.get(id).map(|call| call.stage)
    }
}
