//! The rules of the session: its beginning and end, and what is due before a POLL.

use super::claim::{Phase, Target};
use super::reply::{field, grant_in, list, number};
use super::time::{FAR, Time};
use super::{Ended, Id, Name, Reply, State};
use crate::error::Error;
use redis::Cmd;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// What is known of one server: its session.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) address: String,
    /// Its loop runs.
    pub(crate) is_started: bool,
    /// To the observer.
    pub(crate) is_down: bool,
    /// A call needs the session: it ends a pause of the loop.
    pub(crate) needed: Arc<Notify>,
    /// 0: none.
    pub(crate) session: u64,
    /// That the session renews, or will.
    pub(super) grants: HashSet<Id>,
    /// The number of the last event that was applied.
    pub(super) seen: u64,
    /// Grants that this client takes out of the session, until their `taken`.
    pub(super) leaving: Vec<Ended>,
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
    pub(super) fault: Option<Error>,
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

    /// Ends a leave: it has happened, or was refused.
    pub(super) fn end_leave(&mut self, grant: &Ended) {
        if let Some(place) = self.leaving.iter().position(|it| it == grant) {
            self.leaving.swap_remove(place);
        }
    }
}

/// A command that is sent before a POLL, and what applies its reply: the time of sending goes in with it.
pub(crate) type Due = (Cmd, Box<dyn FnOnce(&mut State, Time, &Reply) + Send>);

impl State {
    /// Begins a session.
    pub(crate) fn opened(&mut self, node: usize, session: u64) {
        let it = &mut self.nodes[node];
        (it.session, it.seen, it.excess, it.fault) = (session, 0, None, None);
        it.is_outside = true;
        self.wake_waits(node);
    }

    pub(super) fn wake_waits(&mut self, node: usize) {
        let is_there = |id: &&Id| self.claims[id].to.node == node && self.claims[id].is_waiting();
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
        node.leaving.clear();
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
        let mut due = Vec::<Due>::new();
        let session = self.nodes[node].session;
        if std::mem::take(&mut self.nodes[node].is_outside) {
            for &id in &self.nodes[node].grants {
                let claim = &self.claims[&id];
                if claim.session == session {
                    continue;
                }
                if claim.to.is_asking {
                    due.push((redis::cmd("ASKING"), Box::new(|_, _, _| {})));
                }
                let moved = move |state: &mut Self, sent: Time, reply: &Reply| {
                    state.moved(node, id, session, sent, reply);
                };
                due.push((claim.renew_command(session), Box::new(moved)));
            }
            self.queue_again(node, &mut due);
        }
        for (ended, (at, command)) in &self.unfinished {
            if *at == node {
                let ended = ended.clone();
                let finished = move |state: &mut Self, _, reply: &Reply| {
                    state.finished(&ended, reply);
                };
                due.push((command.clone(), Box::new(finished)));
            }
        }
        let it = &self.nodes[node];
        if it.excess.is_some_and(|since| self.at > since + self.lease) {
            let called = self.calls.values().cloned().collect();
            let listed = move |state: &mut Self, _, reply: &Reply| {
                state.listed(node, called, reply);
            };
            let list = command!["LOCK.SESSION", "GRANTS", session];
            due.push((list, Box::new(listed)));
        }
        for (&old, &since) in &it.left {
            let has_grants = it.grants.iter().any(|id| self.claims[id].session == old);
            if self.at > since + 2 * self.reply && !has_grants {
                let closed = move |state: &mut Self, _, reply: &Reply| {
                    let goes_on = |fault: &Error| fault.is_passing() && !fault.is("NOSESSION");
                    if !reply.as_ref().is_err_and(goes_on) {
                        state.nodes[node].left.remove(&old);
                    }
                };
                due.push((command!["LOCK.SESSION", "CLOSE", old], Box::new(closed)));
            }
        }
        due
    }

    /// Asks for the places that went with an earlier session, in the order of their asking.
    fn queue_again(&mut self, node: usize, due: &mut Vec<Due>) {
        let session = self.nodes[node].session;
        let is_out = |id: &Id| {
            let claim = &self.claims[id];
            claim.to.node == node
                && claim.phase == Phase::InLine
                && claim.session != session
                && claim.end > self.at
        };
        let mut waits: Vec<Id> = self.names.values().copied().filter(is_out).collect();
        waits.sort_unstable();
        for id in waits {
            let asked = self.asked(id);
            let command = asked.command.clone();
            let queued = move |state: &mut Self, _, reply: &Reply| {
                state.answered(&asked, reply);
                state.nodes[node].is_outside |= reply.is_err();
            };
            due.push((command, Box::new(queued)));
        }
    }

    /// Applies the reply to the RENEW of a grant that was not in this session.
    pub(crate) fn moved(&mut self, node: usize, id: Id, session: u64, sent: Time, reply: &Reply) {
        if !self.nodes[node].grants.contains(&id) {
            return;
        }
        let at = self.at;
        match reply {
            Err(fault) if fault.is_gone() => self.gone(id, fault),
            Err(fault) if self.is_cluster && fault.redirection().is_some() => {
                self.nodes[node].grants.remove(&id); // until it is relocated
                self.displaced
                    .push((self.ended_of(id), node, fault.clone()));
            }
            Err(_) => self.nodes[node].is_outside = true,
            Ok(_) => {
                let lease = grant_in(reply).map_or(Duration::ZERO, |(_, lease)| lease);
                let claim = self.claim(id);
                claim.session = session;
                claim.reason.clear();
                if sent > claim.from {
                    // No other RENEW was under way.
                    (claim.sure, claim.from) = (claim.sure.max(sent + lease), at);
                }
            }
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
    pub(crate) fn sessions(&self) -> Vec<(Target, u64)> {
        let of_node = |(node, it): (usize, &Node)| {
            let all: Vec<u64> = it.left.keys().copied().chain([it.session]).collect();
            let is_asking = false;
            let to = Target { node, is_asking };
            all.into_iter().map(move |session| (to, session))
        };
        let all = self.nodes.iter().enumerate().flat_map(of_node);
        all.filter(|(_, session)| *session != 0).collect()
    }

    /// Ends all waits and grants. It returns the grants: their names, servers and sessions, and the commands that release
    /// them.
    pub(crate) fn close(&mut self) -> Vec<(Name, Target, u64, Cmd)> {
        self.is_closed = true;
        self.nodes.iter().for_each(|node| node.needed.notify_one()); // ends their pauses
        let mut grants = Vec::new();
        for id in self.names.values().copied().collect::<Vec<_>>() {
            if self.claims[&id].phase != Phase::Held {
                self.end_wait(id, Error::closed());
                continue;
            }
            self.forget(id);
            self.changed.push(id);
            let claim = self.claim(id);
            (claim.phase, claim.holds) = (Phase::Released, 0);
            let (name, release) = (claim.name.clone(), claim.release_command());
            grants.push((name, claim.to, claim.session, release));
        }
        grants
    }
}
