//! Calls from the grant to the reply that is sent.
//!
//! A client may disconnect before it has got the reply. Then the call gives back its hold, or the whole grant
//! when no other call of the grant was answered or is pending.

use super::call::{Amount, HolderName, Stage};
use super::line::Line;
use super::{Call, CallId, Calls, GiveBack, Taken};
use crate::shards::Shards;
use crate::{Deadline, LockId, Token, UnixTime};

/// More sent replies than these are searched for those whose lease is over.
pub(super) const MAX_SENT: usize = 64;

/// The calls of one client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfClient {
    /// The call that blocks it, which waits or was granted the lock.
    pub(super) blocked: Option<CallId>,
    /// The last call whose reply was written or sent.
    pub(super) answered: Option<CallId>,
}

/// A granted call whose reply is not known to be sent.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: CallId,
    pub(super) token: Token,
    /// Another call of the grant was answered.
    others_keep_grant: bool,
}

/// The pending calls of one grant. The token alone does not tell it: `RAISE` may lift a grant to the token of an
/// earlier owner.
fn of_grant<'a, A>(
    pending: &'a mut [Pending],
    table: &'a Shards<CallId, Box<Call<A>>>,
    (database, key, owner): HolderName<'a>,
    token: Token,
) -> impl Iterator<Item = &'a mut Pending> {
    pending.iter_mut().filter(move |pending| {
        let is_same = |call: &Call<A>| {
            call.lock_id.is(database, key) && call.waiter.owner.as_owner() == owner
        };
        let call = || table.get(&pending.id);
        pending.token == token && call().is_some_and(|call| is_same(call))
    })
}

impl<A: Default> Calls<A> {
    /// A waiting call is granted the lock; `is_new` is false for a re-entry. Returns the call.
    pub fn grant(&mut self, id: CallId, taken: Taken, is_new: bool) -> Option<&mut Call<A>> {
        self.leave_line(id)?;
        let holder = self.table.get(&id)?.holder_name();
        let mut siblings = of_grant(&mut self.pending, &self.table, holder, taken.token);
        // A re-entry. If the grant has no pending calls, it was answered before; if it has, all of them know the same.
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

    /// A queued call is granted the lock with this token. It leaves the table, since nothing is given back: its session
    /// keeps the event until the program acknowledges it.
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

    /// The calls that block a client: first those that were granted the lock.
    pub fn blocked(&self) -> impl Iterator<Item = CallId> {
        let granted = self.pending.iter().map(|pending| pending.id);
        let granted = granted.filter(|id| matches!(self.stage(*id), Some(Stage::Granted(_))));
        let waiting = self.clients.iter().filter_map(|(_, calls)| calls.blocked);
        granted.chain(waiting.filter(|id| matches!(self.stage(*id), Some(Stage::Waiting))))
    }

    /// The reply of the call that blocked this client is written to it. The server may drop the reply, because it has
    /// replies written even to a client that it is about to close.
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

    /// The server has sent every written reply, as far as the clients read.
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

    /// The written reply of a call is sent. The call is kept only when no other call of the grant was answered
    /// or is pending: only then does it matter if the client disconnects with part of the reply unsent.
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

    /// True when there are calls whose reply is sent.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        !self.sent_ends.is_empty()
    }

    /// Forgets the call of a client whose reply is sent.
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

    /// A client has disconnected. Abandons its last answered call, if that is pending. True when a sent reply may
    /// be incomplete, behind output that the client did not read. (The server reports the disconnect of a
    /// blocked client separately.)
    pub fn client_closed(&mut self, client: u64) -> bool {
        let id = self.answered_of(client);
        id.is_some_and(|id| !self.abandon(id))
    }

    /// The reply of this client's last answered call was not sent as a whole: the call gives back the grant.
    pub fn reply_is_unsent(&mut self, client: u64) {
        if let Some(id) = self.answered_of(client)
            && let Some(Stage::ReplySent(taken)) = self.stage(id)
        {
            self.sent_ends.remove(&(taken.deadline, id));
            self.give_back(id, taken, Amount::UnchangedGrant);
        }
    }

    /// The client of a call has disconnected. True when the call has a pending grant, which it gives back.
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

    /// A call is no longer pending. True when another call of the grant was answered or is pending.
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

    /// Another call of this grant was answered, or its session has the event: the grant now outlives the pending
    /// calls.
    pub fn answered(&mut self, holder: HolderName<'_>, token: Token) {
        for pending in of_grant(&mut self.pending, &self.table, holder, token) {
            pending.others_keep_grant = true;
        }
    }

    /// The token of a grant was raised: its pending calls stay calls of that grant.
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

    /// The server has renewed a grant, without notifying any client. Calls that took this grant get its new deadline.
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

    /// Has the call give back `amount` of what it took, before the next command on its lock.
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

    /// True when this lock has give-backs.
    #[must_use]
    pub fn gives_back(&self, database: i32, key: &[u8]) -> bool {
        // Every command asks this about its lock.
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
