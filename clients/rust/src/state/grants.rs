//! The rules of grants.

use super::claim::{FAR, Name, Phase, millis};
use super::{Id, Reply, State};
use crate::error::{Error, ErrorKind};
use redis::Cmd;
use std::time::Duration;

impl State {
    pub(super) fn lose(&mut self, id: Id, reason: String) {
        if !self[id].is_lost() {
            self.end(id, Error::new(ErrorKind::Lost, reason));
            self[id].renounce_owner();
        }
    }

    /// Why the server has reported that the grant is lost, while a reply may still name it.
    fn reported(&self, id: Id) -> Option<String> {
        self.losses.get(&self[id].ended()).cloned()
    }

    /// A reply shows that the grant is lost: for the reason that the server reported, or else by that reply.
    fn gone(&mut self, id: Id, fault: &Error) {
        let doubt = self[id].doubt.map(ToOwned::to_owned);
        let reason = doubt.or_else(|| self.reported(id));
        let reason = reason.unwrap_or_else(|| format!("gone ({})", fault.word));
        self.lose(id, reason);
    }

    /// Applies the last reply to a re-entry.
    pub(crate) fn entered(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        self.confirmed(id, reply)?;
        self[id].holds += 1;
        Ok(())
    }

    /// The command that gives the grant this lease, for `confirmed`. `leaves`: it also takes the grant out of its
    /// session, for `left`. Until it is answered, no POLL counts.
    pub(crate) fn renew(&mut self, id: Id, lease: Duration, leaves: bool) -> Cmd {
        let at = self.at;
        let claim = self.claims.get_mut(&id).expect("a claim");
        let node = &mut self.nodes[claim.node];
        let ended = claim.ended();
        let is_repeated = claim.from == FAR && node.leaving.contains(&ended);
        if leaves && !is_repeated && claim.session != 0 && claim.session == node.session {
            node.leaving.push(ended);
        }
        (claim.sure, claim.from) = (claim.sure.min(at.saturating_add(lease)), FAR);
        let mut command = claim.renew_command(leaves.then_some(("SESSION", 0)));
        command.arg("PX").arg(millis(lease));
        command
    }

    /// Applies the last reply to a check, a re-entry, a renewal or a raise, which changes the token.
    pub(crate) fn confirmed(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        let (at, fault) = (self.at, reply.fault());
        let claim = &mut self[id];
        if fault.is_some_and(|fault| fault.is_open) {
            claim.renounce_owner();
        } else if claim.from == FAR {
            claim.from = at;
        }
        if let Some(fault) = fault.filter(|fault| fault.is_gone()) {
            self.gone(id, fault);
        }
        if let Some((token, lease)) = reply.grant()
            && self[id].phase == Phase::Held
        {
            let claim = &mut self[id];
            (claim.token, claim.lease) = (token, lease);
            claim.sure = claim.sure.max(reply.sent + lease);
            self.changed.push(id); // it may end at another time
            if let Some(reason) = self.reported(id) {
                self.lose(id, reason); // it was reported before this reply named the token
            }
        }
        self[id].require_held()?;
        fault.map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Applies the last reply to a renewal that takes the grant out of its session.
    pub(crate) fn left(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        let (ended, node) = (self[id].ended(), self[id].node);
        if reply.fault().is_some_and(|fault| !fault.is_open) {
            self.nodes[node].end_leave(&ended);
        }
        self.confirmed(id, reply)?;
        self.nodes[node].grants.remove(&id);
        (self[id].session, self[id].is_handed_over) = (0, true);
        Ok(())
    }

    /// Applies the last reply to a renewal that leaves the grant to others.
    pub(crate) fn detached(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        self.left(id, reply)?;
        self.end(id, Error::released());
        self[id].renounce_owner();
        Ok(())
    }

    /// Takes a hold away, and returns the command for it: from here on it is not held.
    pub(crate) fn release(&mut self, id: Id) -> Cmd {
        self[id].holds -= 1;
        if self[id].holds == 0 {
            self.end(id, Error::released());
        }
        self[id].release_command()
    }

    /// Applies the last reply to a release.
    pub(crate) fn released(&mut self, id: Id, reply: &Reply) -> Result<(), Error> {
        let (claim, fault) = (&self[id], reply.fault());
        if reply.was_open || fault.is_some_and(|fault| fault.is_open) {
            claim.renounce_owner();
        }
        let Some(fault) = fault else { return Ok(()) };
        let (is_last, node) = (claim.holds == 0, claim.node);
        if fault.is_gone() {
            if is_last && reply.was_open && self.reported(id).is_none() {
                return Ok(());
            }
            self.gone(id, fault);
            return self[id].require_held();
        }
        if is_last && fault.is_passing() {
            let again = (node, claim.release_command());
            self.unfinished.insert(claim.ended(), again);
        } else if is_last {
            // The server would go on to renew the grant: leave its session.
            let is_in = claim.session != 0 && claim.session == self.nodes[node].session;
            self.nodes[node].is_leaving |= is_in;
        } // else a re-entry may have come between, so it is not repeated
        Err(fault.clone())
    }

    /// When a grant ends by itself: at its maximum time, or with its fixed lease. At that time it is lost, and the
    /// command that releases it is returned, for `released`. None: it has ended before.
    pub(crate) fn expire(&mut self, id: Id) -> Option<Result<Cmd, Duration>> {
        let at = self.at;
        let claim = &mut self[id];
        let most = claim.terms.at_most.unwrap_or(FAR);
        let most = claim.taken.saturating_add(most);
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
        Some(Ok(self[id].release_command()))
    }

    /// Marks a grant that another node of the cluster may have. It is unsure until `moved`.
    pub(super) fn doubt(&mut self, id: Id, reason: &'static str) {
        let at = self.at;
        let claim = &mut self[id];
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
        let Some(claim) = self.claims.get(&id) else {
            return;
        };
        let is_moving = match session {
            0 => claim.doubt.is_some(),
            _ => self.nodes[node].grants.contains(&id),
        };
        if claim.phase != Phase::Held || !is_moving {
            return;
        }
        let (doubt, last) = (claim.doubt, claim.node);
        match (reply.grant(), reply.fault(), self.reported(id)) {
            (Some(_), _, Some(reported)) => self.lose(id, reported),
            (Some((_, lease)), ..) => {
                self.nodes[last].grants.remove(&id);
                self.nodes[node].grants.insert(id);
                self.nodes[node].moves |= session == 0;
                let claim = &mut self[id];
                (claim.node, claim.session, claim.doubt) = (node, session, None);
                if reply.sent > claim.from {
                    // No other RENEW was under way.
                    (claim.sure, claim.from) = (claim.sure.max(reply.sent + lease), at);
                }
            }
            (_, Some(fault), _) if fault.is_gone() => self.gone(id, fault),
            _ if doubt == Some("deleted") => self.lose(id, "deleted".to_owned()),
            (_, Some(fault), _) if session != 0 && self.is_cluster && fault.redirects() => {
                self.doubt(id, "moved");
            }
            _ => {
                self[id].doubt = None; // it is asked for again
                self.nodes[last].moves = true;
            }
        }
    }

    /// Has a claim asked for where its key is now: not at this node of the cluster any more, but at the other.
    pub(crate) fn relocate(&mut self, id: Id, from: usize, to: usize) {
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        if claim.node == from && claim.is_waiting() {
            claim.node = to;
            self.ask_again(id);
        } else if claim.node == from && claim.phase == Phase::Held && claim.doubt.is_none() {
            self.doubt(id, "moved");
        }
    }
}
