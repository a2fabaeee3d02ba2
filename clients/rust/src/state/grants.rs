//! The rules of grants.

use super::claim::{Mode, Phase};
use super::reply::grant_in;
use super::time::{FAR, millis};
use super::{Ended, Fault, Id, Reply, State, Time};
use crate::error::{Error, ErrorKind};
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of a call about a grant.
pub(crate) struct Answer {
    /// When the last try was sent.
    pub(crate) sent: Time,
    pub(crate) reply: Reply,
    /// An earlier try had no reply.
    pub(crate) was_open: bool,
}

/// How a grant with an end of its own goes on.
pub(crate) enum End {
    /// It has ended: send this release, for `ended`.
    Release(Cmd),
    /// It lasts for this long.
    Lasts(Duration),
    /// It is over already.
    Over,
}

impl State {
    /// Until when nobody else has the lock.
    pub(crate) fn sure(&self, id: Id) -> Time {
        let claim = &self.claims[&id];
        let node = &self.nodes[claim.node];
        let polled = || node.sures.iter().find(|sure| sure.sent > claim.from); // the grant was known then
        let is_in_session = claim.session != 0 && claim.session == node.session;
        let polled = if is_in_session { polled() } else { None };
        polled.map_or(claim.sure, |polled| polled.till.max(claim.sure))
    }

    /// Fails if the grant has ended.
    pub(crate) fn require_held(&self, id: Id) -> Result<(), Error> {
        let claim = &self.claims[&id];
        match claim.phase {
            Phase::Lost => Err(Error::new(ErrorKind::Lost, claim.reason.clone())),
            _ if self.is_closed => Err(Error::closed()),
            Phase::Held => Ok(()),
            _ => Err(Error::misuse("it was released already")),
        }
    }

    pub(super) fn lose(&mut self, id: Id, reason: String) {
        if self.claims[&id].phase == Phase::Lost {
            return;
        }
        self.forget(id);
        let claim = self.claim(id);
        (claim.phase, claim.reason, claim.doubt) = (Phase::Lost, reason, None);
        claim.renounce_owner();
        self.changed.push(id);
    }

    fn ended_of(&self, id: Id) -> Ended {
        let claim = &self.claims[&id];
        (claim.name.clone(), claim.token)
    }

    /// A reply shows that the grant is lost. Returns the reason: what the server reported, or else that reply.
    pub(super) fn gone(&mut self, id: Id, fault: &Fault) -> String {
        let reported = self.losses.get(&self.ended_of(id));
        let reason = reported.map_or_else(
            || format!("gone ({})", fault.word()),
            |loss| loss.reason.clone(),
        );
        self.lose(id, reason.clone());
        reason
    }

    /// The command that asks whether the grant stands, for `confirmed`.
    pub(crate) fn check(&self, id: Id) -> Result<Cmd, Error> {
        let claim = &self.claims[&id];
        let command = command!["LOCK.FENCE", &*claim.name.key, claim.token];
        self.require_held(id).map(|()| command)
    }

    /// The command that adds a hold, for `confirmed`.
    pub(crate) fn enter(&self, id: Id, mode: Mode) -> Result<Cmd, Error> {
        let claim = &self.claims[&id];
        let (lease, holds) = (("PX", millis(claim.lease)), ("HOLDS", claim.holds + 1));
        let (name, token) = (&claim.name, claim.token);
        let command = command!["LOCK.ACQUIRE", name, mode, lease, holds, "TOKEN", token];
        self.require_held(id).map(|()| command)
    }

    /// The command that gives the grant this lease, for `confirmed`. `leaves`: it also takes the grant out of its
    /// session. Until it is answered, no POLL counts.
    pub(crate) fn renew(&mut self, id: Id, lease: Duration, leaves: bool) -> Result<Cmd, Error> {
        self.require_held(id)?;
        let sure = self.sure(id).min(self.at + lease);
        let claim = self.claims.get_mut(&id).expect("held");
        (claim.sure, claim.from, claim.leaves) = (sure, FAR, leaves);
        let node = &mut self.nodes[claim.node];
        node.soonest = node.soonest.min(sure);
        let session = leaves.then_some(("SESSION", 0));
        let (lease, token) = (("PX", millis(lease)), ("TOKEN", claim.token));
        Ok(command!["LOCK.RENEW", &claim.name, lease, token, session])
    }

    /// Applies what became of a check, a re-entry or a renewal.
    pub(crate) fn confirmed(&mut self, id: Id, answer: &Answer) -> Result<(), Error> {
        let at = self.at;
        let fault = answer.reply.as_ref().err();
        let claim = self.claim(id);
        if fault.is_some_and(Fault::may_arrive) {
            claim.renounce_owner();
        } else if claim.from == FAR {
            claim.from = at;
        }
        if let Some(fault) = fault.filter(|fault| fault.is_gone()) {
            self.gone(id, fault);
        }
        self.require_held(id)?;
        let sure = self.sure(id);
        let claim = self.claims.get_mut(&id).expect("held");
        if let Some(fault) = fault {
            claim.leaves &= claim.from == FAR;
            return Err(fault.failure(&self.nodes[claim.node].address));
        }
        if let Some((_, lease)) = grant_in(&answer.reply) {
            claim.lease = lease;
            claim.sure = sure.max(answer.sent + lease);
        }
        if claim.leaves {
            claim.session = 0;
            claim.is_handed_over = true;
            self.nodes[claim.node].grants.remove(&id);
        }
        Ok(())
    }

    /// Forgets a grant that is left to others.
    pub(crate) fn let_go(&mut self, id: Id) {
        self.forget(id);
        let claim = self.claim(id);
        claim.phase = Phase::Released;
        claim.renounce_owner();
    }

    /// Takes a hold away, and returns the command for it: from here on it is not held.
    pub(crate) fn release(&mut self, id: Id) -> Result<Cmd, Error> {
        self.require_held(id)?;
        let claim = self.claim(id);
        claim.holds -= 1;
        if claim.holds == 0 {
            claim.phase = Phase::Released;
            self.forget(id);
        }
        Ok(self.claims[&id].release_command())
    }

    /// Applies what became of a release.
    pub(crate) fn released(&mut self, id: Id, answer: &Answer) -> Result<(), Error> {
        let fault = answer.reply.as_ref().err();
        let claim = &self.claims[&id];
        if answer.was_open || fault.is_some_and(Fault::may_arrive) {
            claim.renounce_owner();
        }
        let Some(fault) = fault else { return Ok(()) };
        let (ended, holds, node) = (self.ended_of(id), claim.holds, claim.node);
        if fault.is_gone() {
            if holds == 0 && answer.was_open && !self.losses.contains_key(&ended) {
                return Ok(());
            }
            return Err(Error::new(ErrorKind::Lost, self.gone(id, fault)));
        }
        if holds > 0 {
            // Its release is not repeated: a re-entry may have come between.
        } else if fault.is_passing() {
            let command = claim.release_command();
            self.finish_later(node, ended, command);
        } else {
            // The server would go on to renew the grant: leave its session.
            let session = claim.session;
            let node = &mut self.nodes[node];
            node.is_leaving |= session != 0 && session == node.session;
        }
        Err(fault.failure(&self.nodes[node].address))
    }

    /// Ends a grant whose maximum time is over, or whose fixed lease is.
    pub(crate) fn end(&mut self, id: Id, most: Time) -> End {
        let sure = self.sure(id);
        let claim = self.claim(id);
        if claim.phase != Phase::Held {
            return End::Over;
        }
        let (end, reason) = if claim.is_fixed && sure <= most {
            (sure, "expired")
        } else {
            (most, "its maximum time is over")
        };
        if self.at < end {
            return End::Lasts(end.saturating_sub(self.at));
        }
        self.claim(id).holds = 0;
        let claim = &self.claims[&id];
        let (node, command, ended) = (claim.node, claim.release_command(), self.ended_of(id));
        self.finish_later(node, ended, command.clone());
        self.lose(id, reason.to_owned());
        End::Release(command)
    }

    /// Applies the reply to the release of `end`.
    pub(crate) fn ended(&mut self, id: Id, reply: &Reply) {
        let ended = self.ended_of(id);
        self.finished(&ended, reply);
    }

    /// Marks a grant that another node of the cluster may have. It is unsure until `found`.
    pub(super) fn doubtful(&mut self, id: Id, reason: &str) {
        let (at, sure) = (self.at, self.sure(id));
        let claim = self.claim(id);
        claim.sure = if reason == "moved" {
            sure
        } else {
            sure.min(at)
        };
        claim.doubt = Some(reason.to_owned());
        claim.session = 0;
        self.elsewhere.push(id);
    }

    /// Applies what became of the RENEW of a grant that another node may have, in this session of it.
    pub(crate) fn found(&mut self, id: Id, node: usize, session: u64, answer: &Answer) {
        let at = self.at;
        let Some(claim) = self.claims.get(&id) else {
            return;
        };
        let Some(doubt) = claim.doubt.clone().filter(|_| claim.phase == Phase::Held) else {
            return; // it was released meanwhile
        };
        let is_lost = self.losses.contains_key(&self.ended_of(id));
        let claim = self.claims.get_mut(&id).expect("held");
        match grant_in(&answer.reply) {
            Some((_, lease)) if !is_lost => {
                self.nodes[claim.node].grants.remove(&id);
                (claim.node, claim.doubt, claim.session, claim.from) = (node, None, session, at);
                claim.sure = claim.sure.max(answer.sent + lease);
                let node = &mut self.nodes[node];
                node.grants.insert(id);
                (node.soonest, node.is_outside) = (node.soonest.min(claim.sure), true);
            }
            _ if doubt == "moved" && answer.reply.as_ref().is_err_and(Fault::is_passing) => {
                claim.doubt = None; // it is asked for again
                self.nodes[claim.node].is_outside = true;
            }
            _ => self.lose(id, doubt),
        }
    }

    /// The grants in the session of a node, and the places in line there, with their keys.
    pub(crate) fn claims_on(&self, node: usize) -> Vec<(Id, Arc<[u8]>)> {
        let is_there = |id: Id| {
            let claim = &self.claims[&id];
            let is_in_line = claim.phase == Phase::InLine && claim.node == node;
            is_in_line || self.nodes[node].grants.contains(&id)
        };
        let claims = self.names.iter().filter(|(_, id)| is_there(**id));
        claims
            .map(|(name, id)| (*id, Arc::clone(&name.key)))
            .collect()
    }

    /// Has a claim asked for at another node of the cluster, which has its key now.
    pub(crate) fn relocate(&mut self, id: Id) {
        let Some(claim) = self.claims.get(&id) else {
            return;
        };
        match claim.phase {
            Phase::InLine => self.set(id, Phase::Asked, None),
            Phase::Held if claim.session != 0 && claim.doubt.is_none() => {
                self.doubtful(id, "moved");
            }
            _ => {}
        }
    }

    /// Follows the reply that has lifted the token of a grant. Its loss may have been reported before.
    pub(crate) fn raised(&mut self, id: Id, token: u64) {
        self.claim(id).token = token;
        if let Some(loss) = self.losses.get(&self.ended_of(id)) {
            let reason = loss.reason.clone();
            self.lose(id, reason);
        }
    }
}
