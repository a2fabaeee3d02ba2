//! The rules of waits.

use super::claim::{Claim, Name, Phase, Target};
use super::reply::grant_in;
use super::{Id, Reply, State, Time};
use crate::error::{Error, ErrorKind};
use redis::{Cmd, Value};
use std::time::Duration;

/// The next step of the caller of an acquire.
#[derive(Debug)]
pub(crate) enum Step {
    Done,
    /// Send this ACQUIRE.
    Send(Asked),
    /// Wait to be woken, no longer than this.
    Rest(Duration),
}

/// An ACQUIRE that is sent, for `answered`.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) command: Cmd,
    pub(crate) id: Id,
    pub(crate) call: u64,
    pub(crate) name: Name,
    pub(crate) to: Target,
    pub(crate) session: u64,
    pub(crate) sent: Time,
    /// The time for the reply.
    pub(crate) limit: Duration,
}

impl State {
    /// Registers a wait before its call is sent: its event may arrive before its reply.
    pub(crate) fn ask(&mut self, claim: Claim) -> Result<Id, Error> {
        if self.is_closed {
            return Err(Error::closed());
        }
        if self.names.contains_key(&claim.name) {
            return Err(Error::misuse(
                "this owner already waits for the lock or holds it",
            ));
        }
        self.last_id += 1;
        self.names.insert(claim.name.clone(), self.last_id);
        self.claims.insert(self.last_id, claim);
        Ok(self.last_id)
    }

    /// The next step of the caller of an acquire.
    pub(crate) fn next_step(&mut self, id: Id) -> Result<Step, Error> {
        let (at, sure) = (self.at, self.sure(id));
        let wait = self
            .claims
            .get_mut(&id)
            .expect("a claim that its caller has");
        let node = &self.nodes[wait.to.node];
        let end = match wait.phase {
            Phase::Over => return Err(wait.cause.clone().unwrap_or_else(Error::closed)),
            Phase::Lost | Phase::Released => return self.require_held(id).map(|()| Step::Done),
            Phase::Held if sure > at => {
                wait.is_handed_over = !wait.is_fixed; // else when it has left the session
                return Ok(Step::Done);
            }
            Phase::Held => return Ok(Step::Rest(Duration::from_millis(5))), // the next POLL makes it sure
            Phase::InLine => wait.last,
            Phase::Asked => wait.asked_end,
        };
        let refused = node.fault.as_ref().filter(|fault| !fault.is_passing());
        if let Some(fault) = refused.filter(|_| node.session == 0) {
            return Err(fault.clone().at(&node.address));
        }
        if at >= end && wait.phase == Phase::InLine && wait.session == node.session {
            return Err(Error::new(ErrorKind::Busy, "the time to wait is over"));
        }
        if at >= end {
            let cause = wait.cause.as_ref().or(node.fault.as_ref()).cloned();
            let cause = cause.unwrap_or_else(|| Error::unsent("no answer in time"));
            return Err(cause.at(&node.address));
        }
        if wait.phase != Phase::Asked {
            return Ok(Step::Rest(end.saturating_sub(at)));
        }
        if at < wait.resume {
            return Ok(Step::Rest(end.min(wait.resume).saturating_sub(at)));
        }
        if node.session == 0 {
            return Ok(Step::Rest(end.saturating_sub(at)));
        }
        Ok(Step::Send(self.asked(id)))
    }

    /// Registers the ACQUIRE that is sent next.
    pub(super) fn asked(&mut self, id: Id) -> Asked {
        let sent = self.at;
        let name = self.claims[&id].name.clone();
        let call = self.begin_call(name.clone());
        let wait = self.claims.get_mut(&id).expect("a wait");
        wait.open += 1;
        let (to, session) = (wait.to, self.nodes[wait.to.node].session);
        Asked {
            command: wait.acquire_command(session, sent),
            id,
            call,
            name,
            to,
            session,
            sent,
            limit: wait.limit.min(wait.last.saturating_sub(sent)),
        }
    }

    /// Applies the reply to an ACQUIRE, and ends its call.
    pub(crate) fn answered(&mut self, asked: &Asked, reply: &Reply) {
        if let Some(wait) = self.claims.get_mut(&asked.id) {
            if reply.as_ref().is_err_and(Error::may_arrive) {
                wait.renounce_owner();
            } else {
                wait.open = wait.open.saturating_sub(1);
            }
        }
        self.apply_acquire(asked, reply);
        self.end_call(asked.call);
    }

    fn apply_acquire(&mut self, asked: &Asked, reply: &Reply) {
        let (id, node, session) = (asked.id, asked.to.node, self.nodes[asked.to.node].session);
        let name = asked.name.clone();
        if let Some((token, lease)) = grant_in(reply) {
            if !self.granted(node, &name, token, asked.session, asked.sent + lease) {
                self.give_back(node, name, token);
            }
            return;
        }
        match (reply, self.claims.get_mut(&id)) {
            (Ok(Value::Int(_)), Some(wait)) if wait.is_waiting() => {
                let is_current = asked.session == session && wait.to.node == node;
                let has_ended = asked.sent < wait.from; // the place may be the one that has ended since
                if is_current && !has_ended {
                    (wait.phase, wait.session) = (Phase::InLine, session);
                } else {
                    self.changed.push(id);
                }
            }
            (Ok(Value::Int(_)), Some(wait)) if wait.phase == Phase::Held => {}
            (Ok(Value::Int(_)), _) => self.give_back(node, name, 0),
            (_, None) => {}
            (Ok(_), _) => self.end_wait(id, Error::new(ErrorKind::Busy, "it is not free")),
            (Err(fault), Some(wait)) if fault.is_passing() => {
                let is_out = wait.phase == Phase::InLine && wait.session != session;
                if is_out && fault.redirection().is_some() {
                    wait.phase = Phase::Asked; // its place has gone
                }
                wait.cause = Some(fault.clone());
                self.changed.push(id);
                if fault.is("NOSESSION") && asked.session == session {
                    self.session_ended(node);
                }
            }
            (Err(fault), _) => {
                let error = fault.clone().at(&self.nodes[node].address);
                self.end_wait(id, error);
            }
        }
    }

    /// Forgets a wait. It returns true if the server may know it: then its cancel is sent, for `finished`.
    pub(crate) fn give_up(&mut self, id: Id) -> bool {
        let wait = &self.claims[&id];
        let is_known = wait.open > 0 || matches!(wait.phase, Phase::InLine | Phase::Held);
        if !matches!(wait.phase, Phase::Lost | Phase::Released) {
            self.forget(id);
            self.claim(id).phase = Phase::Over;
        }
        if is_known {
            let wait = &self.claims[&id];
            wait.renounce_owner(); // an event of this wait may arrive after the cancel
            let (node, name) = (wait.to.node, wait.name.clone());
            self.give_back(node, name, 0);
        }
        is_known
    }

    pub(super) fn end_wait(&mut self, id: Id, failure: Error) {
        if self.claims[&id].is_waiting() {
            self.forget(id);
            self.set(id, Phase::Over);
            self.claim(id).cause = Some(failure);
        }
    }

    pub(super) fn set(&mut self, id: Id, phase: Phase) {
        let wait = self.claim(id);
        (wait.phase, wait.session) = (phase, 0);
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
        if self.losses.contains_key(&(name.clone(), token)) {
            // Its loss was reported before: it is no grant.
            if let Some(id) = known.filter(|id| self.claims[id].is_waiting()) {
                self.set(id, Phase::Asked);
            }
            return true;
        }
        let Some(id) = known else { return false };
        let (at, sure) = (self.at, self.sure(id));
        let claim = self.claims.get_mut(&id).expect("named");
        if claim.phase != Phase::Held || token > claim.token && !claim.is_handed_over {
            self.nodes[claim.to.node].grants.remove(&id);
            claim.phase = Phase::Held;
            (claim.to.node, claim.token, claim.session) = (node, token, session);
            (claim.sure, claim.from) = (till, at);
            let node = &mut self.nodes[node];
            node.grants.insert(id);
            node.soonest = node.soonest.min(till);
        } else if token > claim.token {
            return false; // the user counts on the earlier one
        } else if token < claim.token || claim.session == 0 || claim.to.node != node {
            return true; // an earlier grant, or one that has left the session since
        } else {
            claim.sure = sure.max(till);
            claim.session = session;
            claim.from = claim.from.max(at);
        }
        let node = &mut self.nodes[node];
        node.is_outside |= session != node.session;
        self.changed.push(id);
        true
    }
}
