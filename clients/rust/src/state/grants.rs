//! The rules of grants.

use super::claim::{Caller, Mode, Phase};
use super::reply::grant_in;
use super::time::{FAR, millis};
use super::{Ended, Id, Reply, State, Time};
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

impl State {
    /// Until when nobody else has the lock.
    pub(crate) fn sure(&self, id: Id) -> Time {
        let claim = &self.claims[&id];
        let node = &self.nodes[claim.to.node];
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

    /// The caller of a claim that has changed, and the loss, if it is to be reported now.
    pub(crate) fn notice(&self, id: Id) -> Option<(Arc<Caller>, Option<Error>)> {
        let claim = self.claims.get(&id)?;
        let caller = Arc::clone(&claim.caller);
        if claim.phase != Phase::Lost || !claim.is_handed_over {
            return Some((caller, None));
        }
        let loss = Error::new(ErrorKind::Lost, claim.reason.clone()).of("hold", &claim.name.key);
        let is_new = caller.loss.set(loss.clone()).is_ok();
        Some((caller, is_new.then_some(loss)))
    }

    pub(super) fn lose(&mut self, id: Id, reason: String) {
        if self.claims[&id].phase == Phase::Lost {
            return;
        }
        self.forget(id);
        let claim = self.claim(id);
        claim.phase = Phase::Lost;
        if claim.reason.is_empty() {
            claim.reason = reason;
        }
        claim.renounce_owner();
        self.changed.push(id);
    }

    pub(super) fn ended_of(&self, id: Id) -> Ended {
        let claim = &self.claims[&id];
        (claim.name.clone(), claim.token)
    }

    /// A reply shows that the grant is lost: for the reason that the server reported, or else by that reply.
    pub(super) fn gone(&mut self, id: Id, fault: &Error) {
        let reported = self.losses.get(&self.ended_of(id));
        let reason = reported.map(|(reason, _)| reason.clone());
        let reason = reason.unwrap_or_else(|| format!("gone ({})", fault.word()));
        self.lose(id, reason);
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
    /// session, for `left`. Until it is answered, no POLL counts.
    pub(crate) fn renew(&mut self, id: Id, lease: Duration, leaves: bool) -> Result<Cmd, Error> {
        self.require_held(id)?;
        let sure = self.sure(id).min(self.at + lease);
        let ended = self.ended_of(id);
        let claim = self.claims.get_mut(&id).expect("held");
        let node = &mut self.nodes[claim.to.node];
        let is_repeated = claim.from == FAR && node.leaving.contains(&ended);
        if leaves && !is_repeated && claim.session != 0 && claim.session == node.session {
            node.leaving.push(ended);
        }
        (claim.sure, claim.from) = (sure, FAR);
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
        if fault.is_some_and(Error::may_arrive) {
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
            return Err(fault.clone().at(&self.nodes[claim.to.node].address));
        }
        if let Some((_, lease)) = grant_in(&answer.reply) {
            claim.lease = lease;
            claim.sure = sure.max(answer.sent + lease);
        }
        Ok(())
    }

    /// Applies what became of a renewal that takes the grant out of its session.
    pub(crate) fn left(&mut self, id: Id, answer: &Answer) -> Result<(), Error> {
        let (ended, node) = (self.ended_of(id), self.claims[&id].to.node);
        if answer
            .reply
            .as_ref()
            .is_err_and(|fault| !fault.may_arrive())
        {
            self.nodes[node].end_leave(&ended);
        }
        self.confirmed(id, answer)?;
        self.nodes[node].grants.remove(&id);
        let claim = self.claim(id);
        (claim.session, claim.is_handed_over) = (0, true);
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
        if answer.was_open || fault.is_some_and(Error::may_arrive) {
            claim.renounce_owner();
        }
        let Some(fault) = fault else { return Ok(()) };
        let (ended, holds, node) = (self.ended_of(id), claim.holds, claim.to.node);
        if fault.is_gone() {
            if holds == 0 && answer.was_open && !self.losses.contains_key(&ended) {
                return Ok(());
            }
            self.gone(id, fault);
            return Err(Error::new(ErrorKind::Lost, self.claims[&id].reason.clone()));
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
        Err(fault.clone().at(&self.nodes[node].address))
    }

    /// When a grant ends by itself, and why: at this maximum time, or with its fixed lease. None: it has ended.
    pub(crate) fn end_of(&self, id: Id, most: Time) -> Option<(Time, &'static str)> {
        let (sure, claim) = (self.sure(id), &self.claims[&id]);
        let end = if claim.is_fixed && sure <= most {
            (sure, "expired")
        } else {
            (most, "its maximum time is over")
        };
        (claim.phase == Phase::Held).then_some(end)
    }

    /// Ends a grant for this reason. It returns the command that releases it, for `released`.
    pub(crate) fn end(&mut self, id: Id, reason: &str) -> Cmd {
        self.lose(id, reason.to_owned());
        let claim = self.claim(id);
        claim.holds = 0;
        claim.release_command()
    }

    /// Has the loop ask whether a grant that is reported lost is at another node of the cluster. It is unsure until then.
    pub(super) fn doubt(&mut self, id: Id, reason: String) {
        let (at, sure) = (self.at, self.sure(id));
        let claim = self.claim(id);
        (claim.sure, claim.session, claim.reason) = (sure.min(at), 0, reason);
        let node = claim.to.node;
        self.nodes[node].is_outside = true;
    }

    /// Follows the reply that has lifted the token of a grant. Its loss may have been reported before.
    pub(crate) fn raised(&mut self, id: Id, token: u64) {
        self.claim(id).token = token;
        if let Some((reason, _)) = self.losses.get(&self.ended_of(id)) {
            self.lose(id, reason.clone());
        }
    }
}
