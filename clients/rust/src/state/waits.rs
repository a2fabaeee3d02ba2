//! The rules of waits.

use super::claim::{Claim, FAR, Name, Phase};
use super::{Ended, Id, Reply, State, Time};
use crate::error::{Error, ErrorKind};
use crate::mutex::lock;
use redis::{Cmd, Value};
use std::sync::Arc;
use std::time::Duration;

/// The next step of the caller of an acquire.
#[derive(Debug)]
pub(crate) enum Step {
    Done,
    /// Send this ACQUIRE to this node in this session. The reply, which has this time, is for `answered`.
    Send(Cmd, usize, u64, Duration),
    /// Wait to be woken, no longer than this.
    Rest(Duration),
}

impl State {
    /// Registers a wait before its call is sent: its event may arrive before its reply. Unless it adopts a grant, its
    /// owner is fresh, or that of its task if that may be used again.
    pub(crate) fn ask(&mut self, mut claim: Claim) -> Result<Id, Error> {
        if self.is_closed {
            return Err(Error::closed());
        }
        self.last_id += 1;
        if let Some(owner) = self.usable_owner(&claim) {
            claim.name.owner = owner;
        } else if claim.name.owner.is_empty() {
            claim.name.owner = format!("{}{:x}", self.process, self.last_id).into();
        }
        if let Some(task) = &claim.task {
            *lock(task) = Some(Arc::clone(&claim.name.owner));
        }
        if self.names.contains_key(&claim.name) {
            let why = "this owner already waits for the lock or holds it";
            return Err(Error::misuse(why));
        }
        let (at, reply) = (self.at, self.reply);
        let wait = claim.terms.wait.unwrap_or(FAR);
        let asking = wait.max(reply);
        (claim.holds, claim.lease) = (1, claim.terms.fixed.unwrap_or(self.lease));
        (claim.limit, claim.asked_end) = (reply.min(asking / 2), at.saturating_add(asking));
        claim.end = at.saturating_add(wait);
        claim.last = claim.end.saturating_add(reply);
        self.names.insert(claim.name.clone(), self.last_id);
        self.claims.insert(self.last_id, claim);
        Ok(self.last_id)
    }

    /// The owner of the task, unless a call in its name is unanswered, or it has just given up a wait for this key.
    pub(super) fn usable_owner(&self, claim: &Claim) -> Option<Arc<str>> {
        let owner = lock(claim.task.as_ref()?).clone()?;
        let key = Arc::clone(&claim.name.key);
        let name = Name { key, owner };
        let unfinished = self.unfinished.keys().map(|(name, _)| name);
        let mut called = self.calls.keys().chain(unfinished);
        let is_given_up = |id: &Id| self[*id].caller.given_up.is_cancelled();
        let is_used = called.any(|it| it.owner == name.owner)
            || self.names.get(&name).is_some_and(is_given_up);
        (!is_used).then_some(name.owner)
    }

    /// Returns the next step of an acquire.
    pub(crate) fn next_step(&mut self, id: Id) -> Result<Step, Error> {
        let at = self.at;
        let wait = self.claims.get_mut(&id).expect("a claim");
        let node = &self.nodes[wait.node];
        let end = match wait.phase {
            Phase::Ended => return wait.require_held().map(|()| Step::Done),
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
            let (node, session) = (wait.node, node.session);
            return Ok(Step::Send(self.asked(id), node, session, limit));
        }
        if wait.phase == Phase::Asked {
            node.needed.notify_one(); // ends a pause of the loop
        }
        Ok(Step::Rest(end.saturating_sub(at)))
    }

    /// The pause before the next try to acquire, at most this long: it ends with the time to ask.
    pub(crate) fn pause(&self, id: Id, longest: Duration) -> Duration {
        longest.min(self[id].asked_end.saturating_sub(self.at))
    }

    /// Has a wait that is not in line ask there.
    pub(crate) fn ask_at(&mut self, id: Id, node: usize) {
        if self[id].phase == Phase::Asked {
            self[id].node = node;
        }
    }

    /// Registers an ACQUIRE in the current session, and returns its command, for `answered`.
    pub(super) fn asked(&mut self, id: Id) -> Cmd {
        let wait = &self[id];
        let command = wait.acquire_command(self.nodes[wait.node].session, self.at);
        let name = wait.name.clone();
        self.begin_call(&name);
        command
    }

    /// Applies the reply to an ACQUIRE that was sent in this session, and ends its call.
    pub(crate) fn answered(&mut self, id: Id, name: &Name, session: u64, reply: &Reply) {
        let (node, fault) = (reply.node, reply.fault());
        let current = self.nodes[node].session;
        if fault.is_some_and(|fault| fault.is("NOSESSION")) && session == current {
            self.nodes[node].session = 0;
        }
        let phase = self.claims.get(&id).map(|wait| wait.phase); // none: its caller has let go of it
        match (&reply.value, reply.grant(), phase) {
            (_, Some((token, lease)), _) => {
                let grant = (name.clone(), token);
                let is_known = self.granted(node, &grant, session, reply.sent + lease);
                if !is_known {
                    self.give_back(node, grant);
                }
            }
            (Ok(Value::Int(_)), _, Some(Phase::Asked | Phase::InLine)) => {
                let wait = &mut self[id];
                let is_current = session == current && wait.node == node;
                if is_current && reply.sent >= wait.from {
                    (wait.phase, wait.session) = (Phase::InLine, session); // else it has ended already
                }
            }
            (Ok(Value::Int(_)), _, Some(Phase::Held)) => {}
            (Ok(Value::Int(_)), ..) => self.give_back(node, (name.clone(), 0)),
            (Err(fault), _, Some(phase)) if fault.is_passing() => {
                let wait = &mut self[id];
                if fault.is_open {
                    wait.is_open = true;
                    wait.renounce_owner();
                }
                if wait.is_waiting() {
                    wait.failure = Some(fault.clone());
                }
                if phase == Phase::InLine && wait.session != current && fault.redirects() {
                    self.ask_again(id); // its place has gone
                }
            }
            (_, _, Some(Phase::Asked | Phase::InLine)) => {
                let busy = || Error::new(ErrorKind::Busy, "it is not free");
                self.end(id, fault.cloned().unwrap_or_else(busy));
            }
            _ => {}
        }
        self.end_call(name);
    }

    /// Forgets a wait. If the server may know it, it returns the command that cancels it, for `cancelled`, and the time
    /// that this may take.
    pub(crate) fn give_up(&mut self, id: Id) -> Option<(Cmd, Duration)> {
        let wait = &self[id];
        let is_known = wait.is_open || matches!(wait.phase, Phase::InLine | Phase::Held);
        if wait.phase != Phase::Ended {
            self.end(id, Error::released());
        }
        if !is_known {
            return None;
        }
        let wait = &self[id];
        wait.renounce_owner(); // an event of this wait may arrive after the cancel
        let limit = self.reply.min(wait.last.saturating_sub(self.at));
        let (node, name) = (wait.node, wait.name.clone());
        self.begin_call(&name);
        let cancel = command!["LOCK.RELEASE", &name, "ALL"];
        self.give_back(node, (name, 0));
        Some((cancel, limit))
    }

    /// Applies the reply to the cancel of a wait that was given up.
    pub(crate) fn cancelled(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        self.finished(&(self[id].name.clone(), 0), reply);
        reply.fault().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Follows the loss of a place in line.
    pub(super) fn ask_again(&mut self, id: Id) {
        (self[id].phase, self[id].session) = (Phase::Asked, 0);
        self.changed.push(id);
    }

    /// Applies a grant. It returns false if the grant has to be given back.
    pub(super) fn granted(&mut self, node: usize, of: &Ended, session: u64, till: Time) -> bool {
        let token = of.1;
        let known = self.names.get(&of.0).copied();
        if self.losses.contains_key(of) {
            // Its loss was reported before: it is no grant.
            if let Some(id) = known.filter(|id| self[*id].is_waiting()) {
                self.ask_again(id);
            }
            return true;
        }
        let Some(id) = known else { return false };
        let at = self.at;
        let claim = self.claims.get_mut(&id).expect("a claim");
        if claim.phase != Phase::Held || token > claim.token && !claim.is_handed_over {
            self.nodes[claim.node].grants.remove(&id);
            (claim.phase, claim.node) = (Phase::Held, node);
            (claim.token, claim.session) = (token, session);
            (claim.sure, claim.from) = (till, at);
            self.nodes[node].grants.insert(id);
        } else if token > claim.token {
            return false; // the user counts on the earlier one
        } else if token < claim.token || claim.session == 0 || claim.node != node {
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
