//! The rules of the session: its beginning and end, and what is due before a POLL.

use super::claim::Phase;
use super::reply::{field, grant_in, list, number};
use super::time::{FAR, Time};
use super::waits::Asked;
use super::{Ended, Fault, Id, Name, Reply, State};
use crate::error::Error;
use redis::Cmd;
use std::collections::{HashMap, HashSet};

/// What is known of one server: its session.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) address: String,
    /// 0: none.
    pub(crate) session: u64,
    /// That the session renews, or will.
    pub(super) grants: HashSet<Id>,
    /// The number of the last event that was applied.
    pub(super) seen: u64,
    /// By POLL; each reaches less far than those before it.
    pub(super) sures: Vec<Sure>,
    /// No grant's time ends before.
    pub(super) soonest: Time,
    /// A grant or place may belong to an earlier session.
    pub(super) is_outside: bool,
    /// Since when every reply shows more grants than are known.
    pub(super) excess: Option<Time>,
    /// When the tries that failed began.
    pub(super) tries: Vec<Time>,
    /// Of the last try.
    pub(super) fault: Option<Fault>,
    /// A release was refused.
    pub(super) is_leaving: bool,
    /// Sessions that were left, and when.
    left: HashMap<u64, Time>,
}

/// Until when a POLL makes grants sure.
pub(super) struct Sure {
    pub(super) sent: Time,
    pub(super) till: Time,
}

impl Node {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            soonest: FAR,
            ..Self::default()
        }
    }
}

/// A command that is sent before a POLL, and what its reply is about, for `State::apply`.
pub(crate) type Due = (Cmd, Then);

/// What the reply to a command before a POLL is about.
pub(crate) enum Then {
    Moved(Id),
    Queued(Asked),
    Finished(Ended),
    Listed(HashSet<Name>),
    Closed(u64),
}

impl State {
    /// Nothing depends on the session.
    pub(crate) fn is_idle(&self, node: usize) -> bool {
        let needs = |id: &Id| {
            let claim = &self.claims[id];
            claim.node == node && !(claim.is_fixed && claim.is_handed_over)
        };
        !self.names.values().any(needs)
            && !self.unfinished.values().any(|how| how.node == node)
            && self.nodes[node].left.is_empty()
            && self.calls.is_empty()
    }

    /// Begins a session.
    pub(crate) fn opened(&mut self, node: usize, session: u64) {
        let it = &mut self.nodes[node];
        (it.session, it.seen, it.excess, it.fault) = (session, 0, None, None);
        it.is_outside = true;
        self.wake_waits(node);
    }

    pub(super) fn wake_waits(&mut self, node: usize) {
        let is_there = |id: &&Id| self.claims[id].node == node && self.claims[id].is_waiting();
        self.changed.extend(self.names.values().filter(is_there));
    }

    /// Forgets the session. The leases of its grants run on.
    pub(crate) fn session_ended(&mut self, node: usize) {
        for id in self.nodes[node].grants.clone() {
            let sure = self.sure(id);
            self.claim(id).sure = sure;
        }
        let node = &mut self.nodes[node];
        node.session = 0;
        node.sures.clear();
    }

    /// Leaves a session with a grant whose release was refused, so that the grant is not renewed forever.
    pub(crate) fn leave_session(&mut self, node: usize) {
        let (at, it) = (self.at, &mut self.nodes[node]);
        if std::mem::take(&mut it.is_leaving) && it.session != 0 {
            it.left.insert(it.session, at);
            self.session_ended(node);
        }
    }

    /// What is due before a POLL of the session, in the order of sending.
    pub(crate) fn due(&mut self, node: usize) -> Vec<Due> {
        let mut due = Vec::new();
        let session = self.nodes[node].session;
        if std::mem::take(&mut self.nodes[node].is_outside) {
            for id in &self.nodes[node].grants {
                let claim = &self.claims[id];
                if claim.session != session && claim.doubt.is_none() {
                    due.push((claim.renew_command(session), Then::Moved(*id)));
                }
            }
            self.queue_again(node, &mut due);
        }
        for (ended, how) in self.unfinished.iter().filter(|(_, how)| how.node == node) {
            due.push((how.command.clone(), Then::Finished(ended.clone())));
        }
        let it = &self.nodes[node];
        if it.excess.is_some_and(|since| self.at > since + self.lease) {
            let called = self.calls.values().cloned().collect();
            let list = command!["LOCK.SESSION", "GRANTS", session];
            due.push((list, Then::Listed(called)));
        }
        for (&old, &since) in &it.left {
            let has_grants = it.grants.iter().any(|id| self.claims[id].session == old);
            if self.at > since + 2 * self.reply && !has_grants {
                due.push((command!["LOCK.SESSION", "CLOSE", old], Then::Closed(old)));
            }
        }
        due
    }

    /// Asks for the places that went with an earlier session, in the order of their asking.
    fn queue_again(&mut self, node: usize, due: &mut Vec<Due>) {
        let session = self.nodes[node].session;
        let is_out = |id: &Id| {
            let claim = &self.claims[id];
            claim.node == node
                && claim.phase == Phase::InLine
                && claim.session != session
                && claim.end > self.at
        };
        let mut waits: Vec<Id> = self.names.values().copied().filter(is_out).collect();
        waits.sort_unstable();
        for id in waits {
            let asked = self.asked(id);
            let command = self.claims[&id].acquire_command(session, self.at);
            due.push((command, Then::Queued(asked)));
        }
    }

    /// Applies the reply to a command that was due and sent at this time.
    pub(crate) fn apply(
        &mut self,
        node: usize,
        session: u64,
        sent: Time,
        then: Then,
        reply: &Reply,
    ) {
        match then {
            Then::Moved(id) => self.moved(node, id, session, sent, reply),
            Then::Queued(asked) => {
                self.answered(&asked, reply);
                self.nodes[node].is_outside |= reply.is_err();
            }
            Then::Finished(ended) => {
                let redirection = reply.as_ref().err().and_then(Fault::redirection);
                if redirection.is_some() {
                    let how = self.unfinished.remove(&ended);
                    let misplaced = how.map(|how| (ended.0.key, how.command));
                    self.misplaced.extend(misplaced);
                } else {
                    self.finished(&ended, reply);
                }
            }
            Then::Listed(called) => self.listed(node, called, reply),
            Then::Closed(old) => {
                let goes_on = |fault: &Fault| fault.is_passing() && !fault.is("NOSESSION");
                if !reply.as_ref().is_err_and(goes_on) {
                    self.nodes[node].left.remove(&old);
                }
            }
        }
    }

    /// Applies the reply to the RENEW of a grant that was not in this session.
    fn moved(&mut self, node: usize, id: Id, session: u64, sent: Time, reply: &Reply) {
        if !self.nodes[node].grants.contains(&id) {
            return;
        }
        let at = self.at;
        if let Some((_, lease)) = grant_in(reply) {
            let claim = self.claim(id);
            claim.session = session;
            if sent > claim.from {
                // No other RENEW was under way.
                claim.sure = claim.sure.max(sent + lease);
                claim.from = at;
            }
            return;
        }
        match reply {
            Err(fault) if fault.is_gone() => {
                self.gone(id, fault);
            }
            Err(fault) if self.is_cluster && fault.redirection().is_some() => {
                self.doubtful(id, "moved");
            }
            _ => self.nodes[node].is_outside = true,
        }
    }

    /// Releases the grants of the session that nobody knows, and nobody called about meanwhile.
    fn listed(&mut self, node: usize, mut called: HashSet<Name>, reply: &Reply) {
        self.nodes[node].excess = None;
        called.extend(self.calls.values().cloned());
        let Ok(rows) = reply else { return };
        for row in list(rows) {
            let name = Name::of(field(row, "key"), field(row, "owner"));
            let token = number(field(row, "token"));
            let is_known = called.contains(&name) || self.names.contains_key(&name);
            let ended = (name, token);
            if !is_known && !self.unfinished.contains_key(&ended) {
                self.give_back(node, ended.0, token);
            }
        }
    }

    /// The sessions of all nodes, those that were left too.
    pub(crate) fn sessions(&self) -> Vec<(usize, u64)> {
        let of_node = |(node, it): (usize, &Node)| {
            let all: Vec<u64> = it.left.keys().copied().chain([it.session]).collect();
            all.into_iter().map(move |session| (node, session))
        };
        let all = self.nodes.iter().enumerate().flat_map(of_node);
        all.filter(|(_, session)| *session != 0).collect()
    }

    /// Ends all waits and grants. It returns the grants.
    pub(crate) fn close(&mut self) -> Vec<Id> {
        self.is_closed = true;
        let mut grants = Vec::new();
        for id in self.names.values().copied().collect::<Vec<_>>() {
            if self.claims[&id].phase != Phase::Held {
                self.end_wait(id, Error::closed());
                continue;
            }
            self.forget(id);
            let claim = self.claim(id);
            (claim.phase, claim.holds) = (Phase::Released, 0);
            self.changed.push(id);
            grants.push(id);
        }
        grants
    }
}
