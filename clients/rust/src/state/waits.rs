//! The rules of waits.

use super::claim::{Claim, Name, Phase, Target, TaskOwner};
use super::time::FAR;
use super::{Id, Reply, State, Time};
use crate::error::{Error, ErrorKind};
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// The next step of the caller of an acquire.
#[derive(Debug)]
pub(crate) enum Step {
    Done,
    /// Send this ACQUIRE there in this session. The reply, which has this time, is for `answered`.
    Send(Cmd, Target, u64, Duration),
    /// Wait to be woken, no longer than this.
    Rest(Duration),
}

impl State {
    /// Registers a wait before its call is sent: its event may arrive before its reply. Its owner is fresh, unless its
    /// task has one that it may use again.
    pub(crate) fn ask(&mut self, mut claim: Claim) -> Result<Id, Error> {
        if self.is_closed {
            return Err(Error::closed());
        }
        if let Some(task) = &claim.task {
            if let Some(owner) = self.usable_owner(task, &claim.name.key) {
                claim.name.owner = owner;
            }
            task.set(Some(Arc::clone(&claim.name.owner)));
        }
        if self.names.contains_key(&claim.name) {
            let why = "this owner already waits for the lock or holds it";
            return Err(Error::misuse(why));
        }
        let (at, reply) = (self.at, self.reply);
        let most = FAR.saturating_sub(at + reply);
        let wait = claim.terms.wait.map_or(most, |wait| wait.min(most));
        let asking = wait.max(reply);
        (claim.holds, claim.lease) = (1, claim.terms.fixed.unwrap_or(self.lease));
        (claim.limit, claim.asked_end) = (reply.min(asking / 2), at + asking);
        (claim.end, claim.last) = (at + wait, at + wait + reply);
        self.last_id += 1;
        self.names.insert(claim.name.clone(), self.last_id);
        self.claims.insert(self.last_id, claim);
        Ok(self.last_id)
    }

    /// The owner of a task, unless a call in its name is unanswered, or it has just given up a wait for this key.
    pub(super) fn usable_owner(&self, task: &TaskOwner, key: &Arc<[u8]>) -> Option<Arc<str>> {
        let (key, owner) = (Arc::clone(key), task.get()?);
        let name = Name { key, owner };
        let unfinished = self.unfinished.keys().map(|(name, _)| name);
        let mut called = self.calls.keys().chain(unfinished);
        let known = self.names.get(&name);
        let waiting = known.and_then(|id| self.claims[id].caller.upgrade());
        let is_used = called.any(|it| it.owner == name.owner)
            || waiting.is_some_and(|it| it.given_up.is_cancelled());
        (!is_used).then_some(name.owner)
    }

    /// Returns the next step of an acquire.
    pub(crate) fn next_step(&mut self, id: Id) -> Result<Step, Error> {
        let at = self.at;
        let wait = self.claims.get_mut(&id).expect("a claim");
        let node = &self.nodes[wait.to.node];
        let end = match wait.phase {
            Phase::Ended => return self.require_held(id).map(|()| Step::Done),
            Phase::Held if wait.sure > at => {
                wait.taken = at;
                wait.is_handed_over = wait.terms.fixed.is_none(); // else when it has left the session
                return Ok(Step::Done);
            }
            Phase::Held => return Ok(Step::Rest(Duration::from_millis(5))), // the next POLL makes it sure
            Phase::InLine => wait.last,
            Phase::Asked => wait.asked_end,
        };
        let refused = node.fault.as_ref().filter(|fault| !fault.is_passing());
        if let Some(fault) = refused.filter(|_| node.session == 0) {
            return Err(fault.clone());
        }
        if at >= end && wait.phase == Phase::InLine && wait.session == node.session {
            return Err(Error::new(ErrorKind::Busy, "the time to wait is over"));
        }
        if at >= end {
            let cause = wait.failure.as_ref().or(node.fault.as_ref()).cloned();
            return Err(cause.unwrap_or_else(|| Error::unsent(&node.address, "no answer in time")));
        }
        if wait.phase == Phase::Asked && node.session != 0 {
            let limit = wait.limit.min(wait.last.saturating_sub(at));
            let (to, session) = (wait.to, node.session);
            return Ok(Step::Send(self.asked(id), to, session, limit));
        }
        if wait.phase == Phase::Asked {
            node.needed.notify_one(); // ends a pause of the loop
        }
        Ok(Step::Rest(end.saturating_sub(at)))
    }

    /// The pause before the next try to acquire, at most this long: it ends with the time to ask.
    pub(crate) fn pause(&self, id: Id, longest: Duration) -> Duration {
        longest.min(self.claims[&id].asked_end.saturating_sub(self.at))
    }

    /// Has a wait that is not in line ask there.
    pub(crate) fn ask_at(&mut self, id: Id, to: Target) {
        let wait = self.claim(id);
        if wait.phase == Phase::Asked {
            wait.to = to;
        }
    }

    /// Registers an ACQUIRE in the current session, and returns its command, for `answered`.
    pub(super) fn asked(&mut self, id: Id) -> Cmd {
        let wait = &self.claims[&id];
        let command = wait.acquire_command(self.nodes[wait.to.node].session, self.at);
        let name = wait.name.clone();
        self.begin_call(&name);
        command
    }

    /// Applies the reply to an ACQUIRE that was sent in this session, and ends its call.
    pub(crate) fn answered(&mut self, id: Id, name: &Name, session: u64, reply: &Reply) {
        if let Some((token, lease)) = reply.grant() {
            if !self.granted(reply.node, name, token, session, reply.sent + lease) {
                self.give_back(reply.node, name.clone(), token);
            }
        } else {
            self.not_granted(id, name, session, reply);
        }
        self.end_call(name);
    }

    fn not_granted(&mut self, id: Id, name: &Name, session: u64, reply: &Reply) {
        let current = self.nodes[reply.node].session;
        match (&reply.value, self.claims.get_mut(&id)) {
            (Ok(Value::Int(_)), Some(wait)) if wait.is_waiting() => {
                let is_current = session == current && wait.to.node == reply.node;
                let has_ended = reply.sent < wait.from; // the place may be the one that has ended since
                if is_current && !has_ended {
                    (wait.phase, wait.session) = (Phase::InLine, session);
                }
            }
            (Ok(Value::Int(_)), Some(wait)) if wait.phase == Phase::Held => {}
            (Ok(Value::Int(_)), _) => self.give_back(reply.node, name.clone(), 0),
            (_, None) => {}
            (Ok(_), _) => self.end_wait(id, Error::new(ErrorKind::Busy, "it is not free")),
            (Err(fault), Some(wait)) if fault.is_passing() => {
                if fault.is_open {
                    wait.is_open = true;
                    wait.renounce_owner();
                }
                let is_out = wait.phase == Phase::InLine && wait.session != current;
                if wait.is_waiting() {
                    wait.failure = Some(fault.clone());
                }
                if is_out && fault.redirects() {
                    self.ask_again(id); // its place has gone
                }
                if fault.is("NOSESSION") && session == current {
                    self.nodes[reply.node].session = 0;
                }
            }
            (Err(fault), _) => self.end_wait(id, fault.clone()),
        }
    }

    /// Forgets a wait. If the server may know it, it returns the command that cancels it, for `cancelled`, and the time
    /// that this may take.
    pub(crate) fn give_up(&mut self, id: Id) -> Option<(Cmd, Duration)> {
        let wait = &self.claims[&id];
        let is_known = wait.is_open || matches!(wait.phase, Phase::InLine | Phase::Held);
        if wait.phase != Phase::Ended {
            self.end(id, Error::released());
        }
        is_known.then(|| {
            let wait = &self.claims[&id];
            wait.renounce_owner(); // an event of this wait may arrive after the cancel
            let limit = self.reply.min(wait.last.saturating_sub(self.at));
            let (node, name) = (wait.to.node, wait.name.clone());
            self.begin_call(&name);
            let cancel = command!["LOCK.RELEASE", &name, "ALL"];
            self.give_back(node, name, 0);
            (cancel, limit)
        })
    }

    /// Applies the reply to the cancel of a wait that was given up.
    pub(crate) fn cancelled(&mut self, id: Id, reply: &Reply) {
        self.finished(&(self.claims[&id].name.clone(), 0), reply);
    }

    pub(super) fn end_wait(&mut self, id: Id, failure: Error) {
        if self.claims[&id].is_waiting() {
            self.end(id, failure);
        }
    }

    /// Follows the loss of a place in line.
    pub(super) fn ask_again(&mut self, id: Id) {
        let wait = self.claim(id);
        (wait.phase, wait.session) = (Phase::Asked, 0);
        self.changed.push(id);
    }

    /// Applies a grant. It returns false if the grant has to be given back.
    pub(super) fn granted(
        &mut self,
        node: usize,
        name: &Name,
        token: u64,
        session: u64,
        till: Time,
    ) -> bool {
        let known = self.names.get(name).copied();
        if !self.losses.is_empty() && self.losses.contains_key(&(name.clone(), token)) {
            // Its loss was reported before: it is no grant.
            if let Some(id) = known.filter(|id| self.claims[id].is_waiting()) {
                self.ask_again(id);
            }
            return true;
        }
        let Some(id) = known else { return false };
        let at = self.at;
        let claim = self.claims.get_mut(&id).expect("a claim");
        if claim.phase != Phase::Held || token > claim.token && !claim.is_handed_over {
            self.nodes[claim.to.node].grants.remove(&id);
            (claim.phase, claim.to.node) = (Phase::Held, node);
            (claim.token, claim.session) = (token, session);
            (claim.sure, claim.from) = (till, at);
            self.nodes[node].grants.insert(id);
        } else if token > claim.token {
            return false; // the user counts on the earlier one
        } else if token < claim.token || claim.session == 0 || claim.to.node != node {
            return true; // an earlier grant, or one that has left the session since
        } else {
            (claim.sure, claim.session) = (claim.sure.max(till), session);
            claim.from = claim.from.max(at);
        }
        let node = &mut self.nodes[node];
        node.moves |= session != node.session;
        self.changed.push(id);
        true
    }
}
