//! The rules of grants.

use super::claim::{Caller, Name, Phase, words_of};
use super::time::{FAR, millis};
use super::{Id, Reply, State, Target};
use crate::error::{Error, ErrorKind};
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;

impl State {
    /// Fails if the grant has ended.
    pub(crate) fn require_held(&self, id: Id) -> Result<(), Error> {
        let claim = &self.claims[&id];
        let failure = claim.failure.as_ref();
        let failure = failure.filter(|_| claim.phase == Phase::Ended);
        failure.map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// How long it is sure that nobody else has the lock.
    pub(crate) fn remaining(&self, id: Id) -> Duration {
        let claim = &self.claims[&id];
        let held = (claim.phase == Phase::Held).then_some(claim.sure);
        held.unwrap_or_default().saturating_sub(self.at)
    }

    /// Why the grant was lost, once the user had it.
    pub(crate) fn loss(&self, id: Id) -> Option<Error> {
        let claim = &self.claims[&id];
        let loss = claim.failure.clone();
        let loss = loss.filter(|_| claim.is_lost() && claim.is_handed_over);
        loss.map(|loss| loss.of("hold", &claim.name.key))
    }

    /// The caller of a claim that has changed, its loss, and whether the grant is to be looked for by `find`.
    pub(crate) fn notice(&self, id: Id) -> Option<(Id, Arc<Caller>, Option<Error>, bool)> {
        let claim = self.claims.get(&id)?;
        let is_sought = claim.phase == Phase::Held && claim.doubt.is_some();
        Some((id, claim.caller.upgrade()?, self.loss(id), is_sought))
    }

    pub(super) fn lose(&mut self, id: Id, reason: String) {
        if !self.claims[&id].is_lost() {
            self.end(id, Error::new(ErrorKind::Lost, reason));
            self.claim(id).renounce_owner();
        }
    }

    /// A reply shows that the grant is lost: for the reason that the server reported, or else by that reply.
    fn gone(&mut self, id: Id, fault: &Error) {
        let claim = &self.claims[&id];
        let reported = self.losses.get(&claim.ended()).cloned();
        let doubt = claim.doubt.map(ToOwned::to_owned);
        let reason = doubt.or(reported);
        let reason = reason.unwrap_or_else(|| format!("gone ({})", fault.word));
        self.lose(id, reason);
    }

    /// The command that asks whether the grant stands, for `confirmed`.
    pub(crate) fn check(&mut self, id: Id) -> Cmd {
        let claim = &self.claims[&id];
        command!["LOCK.FENCE", &*claim.name.key, claim.token]
    }

    /// The command that adds a hold, for `entered`.
    pub(crate) fn enter(&mut self, id: Id, limit: Option<u32>) -> Cmd {
        let claim = &self.claims[&id];
        let (lease, holds) = (("PX", millis(claim.lease)), ("HOLDS", claim.holds + 1));
        let (name, token) = (&claim.name, ("TOKEN", claim.token));
        command!["LOCK.ACQUIRE", name, words_of(limit), lease, holds, token]
    }

    /// Applies what became of a re-entry.
    pub(crate) fn entered(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        self.confirmed(id, reply)?;
        self.claim(id).holds += 1;
        Ok(())
    }

    /// The command that lifts the token of the grant, for `confirmed`.
    pub(crate) fn raise(&mut self, id: Id, token: u64) -> Cmd {
        let mut command = self.claims[&id].renew_command(None);
        command.arg("RAISE").arg(token);
        command
    }

    /// The command that gives the grant this lease, for `confirmed`. `leaves`: it also takes the grant out of its
    /// session, for `left`. Until it is answered, no POLL counts.
    pub(crate) fn renew(&mut self, id: Id, lease: Duration, leaves: bool) -> Cmd {
        let at = self.at;
        let claim = self.claims.get_mut(&id).expect("a claim");
        let node = &mut self.nodes[claim.to.node];
        let ended = claim.ended();
        let is_repeated = claim.from == FAR && node.leaving.contains(&ended);
        if leaves && !is_repeated && claim.session != 0 && claim.session == node.session {
            node.leaving.push(ended);
        }
        (claim.sure, claim.from) = (claim.sure.min(at + lease), FAR);
        let mut command = claim.renew_command(leaves.then_some(0));
        command.arg("PX").arg(millis(lease));
        command
    }

    /// Applies what became of a check, a re-entry, a renewal or a raise, which changes the token.
    pub(crate) fn confirmed(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        let (at, fault) = (self.at, reply.fault());
        let claim = self.claim(id);
        if fault.is_some_and(|fault| fault.is_open) {
            claim.renounce_owner();
        } else if claim.from == FAR {
            claim.from = at;
        }
        if let Some(fault) = fault.filter(|fault| fault.is_gone()) {
            self.gone(id, fault);
        }
        self.require_held(id)?;
        if let Some((token, lease)) = reply.grant() {
            let claim = self.claim(id);
            (claim.token, claim.lease) = (token, lease);
            claim.sure = claim.sure.max(reply.sent + lease);
            let ended = claim.ended();
            if let Some(reason) = self.losses.get(&ended).cloned() {
                self.lose(id, reason); // it was reported before this reply named the token
            }
        }
        self.require_held(id)?;
        fault.map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Applies what became of a renewal that takes the grant out of its session.
    pub(crate) fn left(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        let (ended, node) = (self.claims[&id].ended(), self.claims[&id].to.node);
        if reply.fault().is_some_and(|fault| !fault.is_open) {
            self.nodes[node].end_leave(&ended);
        }
        self.confirmed(id, reply)?;
        self.nodes[node].grants.remove(&id);
        let claim = self.claim(id);
        (claim.session, claim.is_handed_over) = (0, true);
        Ok(())
    }

    /// Forgets a grant that is left to others.
    pub(crate) fn let_go(&mut self, id: Id) {
        self.end(id, Error::released());
        self.claim(id).renounce_owner();
    }

    /// Takes a hold away, and returns the command for it: from here on it is not held.
    pub(crate) fn release(&mut self, id: Id) -> Cmd {
        let claim = self.claim(id);
        claim.holds -= 1;
        if claim.holds == 0 {
            self.end(id, Error::released());
        }
        self.claims[&id].release_command()
    }

    /// Applies what became of a release.
    pub(crate) fn released(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        let claim = &self.claims[&id];
        let fault = reply.fault();
        if reply.was_open || fault.is_some_and(|fault| fault.is_open) {
            claim.renounce_owner();
        }
        let Some(fault) = fault else { return Ok(()) };
        let (ended, node) = (claim.ended(), &mut self.nodes[claim.to.node]);
        if fault.is_gone() {
            if claim.holds == 0 && reply.was_open && !self.losses.contains_key(&ended) {
                return Ok(());
            }
            self.gone(id, fault);
            return self.require_held(id);
        }
        if claim.holds > 0 {
            // Its release is not repeated: a re-entry may have come between.
        } else if fault.is_passing() {
            let again = (claim.to.node, claim.release_command());
            self.unfinished.insert(ended, again);
        } else {
            // The server would go on to renew the grant: leave its session.
            node.is_leaving |= claim.session != 0 && claim.session == node.session;
        }
        Err(fault.clone())
    }

    /// When a grant ends by itself: at its maximum time, or with its fixed lease. At that time it is lost, and the
    /// command that releases it is returned, for `released`. None: it has ended before.
    pub(crate) fn expire(&mut self, id: Id) -> Option<Result<Cmd, Duration>> {
        let at = self.at;
        let claim = self.claim(id);
        let most = claim.terms.at_most.map_or(FAR, |most| claim.taken + most);
        let (end, reason) = match claim.terms.fixed {
            Some(_) if claim.sure <= most => (claim.sure, "expired"),
            _ => (most, "its maximum time is over"),
        };
        if claim.phase != Phase::Held {
            return None;
        }
        if at < end {
            return Some(Err(end.saturating_sub(at)));
        }
        claim.holds = 0;
        let name = claim.name.clone();
        self.begin_call(&name);
        self.lose(id, reason.to_owned());
        Some(Ok(self.claims[&id].release_command()))
    }

    /// Marks a grant that another node of the cluster may have. It is unsure until `moved`.
    pub(super) fn doubt(&mut self, id: Id, reason: &'static str) {
        let at = self.at;
        let claim = self.claim(id);
        if reason != "moved" {
            claim.sure = claim.sure.min(at);
        }
        (claim.doubt, claim.session) = (Some(reason), 0);
        self.changed.push(id);
    }

    /// The command that looks for a grant in the cluster, for `moved`; none: there is nothing to look for any more.
    pub(crate) fn find(&mut self, id: Id) -> Option<(Name, Cmd)> {
        let claim = self.claims.get(&id).filter(|claim| claim.doubt.is_some())?;
        let (name, find) = (claim.name.clone(), claim.renew_command(None));
        self.begin_call(&name);
        Some((name, find))
    }

    /// Applies the reply to the RENEW of a grant that was not in this session of a node. Session 0: it was looked for in
    /// the cluster, and the loop of the node that has it moves it to its session.
    pub(crate) fn moved(&mut self, id: Id, session: u64, reply: &Reply) {
        let (at, node) = (self.at, reply.node);
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        let is_moving = match session {
            0 => claim.doubt.is_some(),
            _ => self.nodes[node].grants.contains(&id),
        };
        if claim.phase != Phase::Held || !is_moving {
            return;
        }
        let reported = self.losses.get(&claim.ended()).cloned();
        match (reply.grant(), reply.fault()) {
            (Some((_, lease)), _) if reported.is_none() => {
                self.nodes[claim.to.node].grants.remove(&id);
                self.nodes[node].grants.insert(id);
                self.nodes[node].moves |= session == 0;
                (claim.to.node, claim.session, claim.doubt) = (node, session, None);
                if reply.sent > claim.from {
                    // No other RENEW was under way.
                    (claim.sure, claim.from) = (claim.sure.max(reply.sent + lease), at);
                }
            }
            (Some(_), _) => self.lose(id, reported.unwrap_or_default()),
            (_, Some(fault)) if fault.is_gone() => self.gone(id, fault),
            _ if claim.doubt == Some("deleted") => self.lose(id, "deleted".to_owned()),
            (_, Some(fault)) if session != 0 && self.is_cluster && fault.redirects() => {
                self.doubt(id, "moved");
            }
            _ => {
                claim.doubt = None; // it is asked for again
                let node = claim.to.node;
                self.nodes[node].moves = true;
            }
        }
    }

    /// The waits and grants that depend on the session of a node of a cluster, with their keys, for `relocate`.
    pub(crate) fn at_node(&self, node: usize) -> Vec<(Id, Arc<[u8]>)> {
        let is_there = |id: &&Id| self.claims[id].to.node == node;
        let there = self.names.values().filter(is_there);
        let key = |id: &Id| (*id, Arc::clone(&self.claims[id].name.key));
        there.map(key).collect()
    }

    /// Has a claim asked for where its key is now: not at this node of the cluster any more, but at the other.
    pub(crate) fn relocate(&mut self, id: Id, from: usize, to: usize) {
        let claim = self.claims.get_mut(&id);
        let Some(claim) = claim.filter(|claim| claim.to.node == from) else {
            return;
        };
        if claim.is_waiting() {
            claim.to = Target::of(to);
            self.ask_again(id);
        } else if claim.phase == Phase::Held && claim.doubt.is_none() {
            self.doubt(id, "moved");
        }
    }
}
