//! The rules of the session: its beginning and end, and what is due before a POLL.

use super::claim::Phase;
use super::reply::{field, list, number};
use super::{Ended, Id, Name, Reply, State, Time};
use crate::error::Error;
use redis::Cmd;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
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
    pub(super) grants: BTreeSet<Id>,
    /// The number of the last event that was applied.
    pub(super) seen: u64,
    /// Grants that this client takes out of the session, until their `taken`.
    pub(super) leaving: Vec<Ended>,
    /// A grant or place may belong to an earlier session.
    pub(super) moves: bool,
    /// Since when every reply shows more grants than are known.
    pub(super) excess: Option<Time>,
    /// Of the last try.
    pub(super) fault: Option<Error>,
    /// A release was refused.
    pub(super) is_leaving: bool,
    /// The session that was left, until it is closed, and when.
    pub(super) left: Option<(u64, Time)>,
}

impl Node {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            ..Self::default()
        }
    }

    /// Ends a leave: it has happened, or was refused. It returns false if there was none.
    pub(super) fn end_leave(&mut self, grant: &Ended) -> bool {
        let place = self.leaving.iter().position(|it| it == grant);
        place.map(|place| self.leaving.swap_remove(place)).is_some()
    }
}

/// A command that is sent before a POLL, and what applies its reply.
pub(crate) type Due = (Cmd, Box<dyn FnOnce(&mut State, &Reply) + Send>);

impl State {
    /// Begins a session.
    pub(crate) fn opened(&mut self, node: usize, session: u64) {
        let it = &mut self.nodes[node];
        (it.session, it.seen, it.excess, it.moves) = (session, 0, None, true);
        it.leaving.clear();
        self.wake_waits(node);
    }

    pub(super) fn wake_waits(&mut self, node: usize) {
        let is_there = |id: &&Id| self.claims[id].to.node == node && self.claims[id].is_waiting();
        self.changed.extend(self.names.values().filter(is_there));
    }

    /// Leaves a session with a grant whose release was refused, so that the grant is not renewed forever.
    pub(crate) fn leave_session(&mut self, node: usize) {
        let (at, it) = (self.at, &mut self.nodes[node]);
        if it.is_leaving && it.left.is_none() && it.session != 0 {
            (it.left, it.session, it.is_leaving) = (Some((it.session, at)), 0, false);
        }
    }

    /// What is due before a POLL of the session, in the order of sending.
    pub(crate) fn due(&mut self, node: usize) -> Vec<Due> {
        let mut due = Vec::<Due>::new();
        let session = self.nodes[node].session;
        if std::mem::take(&mut self.nodes[node].moves) {
            self.move_grants(node, session, &mut due);
            self.queue_again(node, session, &mut due);
        }
        for (ended, (_, command)) in self.unfinished.iter().filter(|(_, (at, _))| *at == node) {
            let ended = ended.clone();
            let finished = move |state: &mut Self, reply: &Reply| {
                if reply.fault().is_some_and(Error::redirects) {
                    state.unfinished.remove(&ended); // the caller sends it there
                }
                state.finished(&ended, reply);
            };
            due.push((command.clone(), Box::new(finished)));
        }
        let it = &self.nodes[node];
        if it.excess.is_some_and(|since| self.at > since + self.lease) {
            let called = self.calls.keys().cloned().collect();
            let listed = move |state: &mut Self, reply: &Reply| state.listed(called, reply);
            let list = command!["LOCK.SESSION", "GRANTS", session];
            due.push((list, Box::new(listed)));
        }
        if let Some((old, since)) = it.left
            && self.at > since + 2 * self.reply
            && !it.grants.iter().any(|id| self.claims[id].session == old)
        {
            let closed = |state: &mut Self, reply: &Reply| {
                let goes_on = |fault: &Error| fault.is_passing() && !fault.is("NOSESSION");
                if !reply.fault().is_some_and(goes_on) {
                    state.nodes[reply.node].left = None;
                }
            };
            due.push((command!["LOCK.SESSION", "CLOSE", old], Box::new(closed)));
        }
        due
    }

    /// Moves the grants of earlier sessions to this one.
    fn move_grants(&self, node: usize, session: u64, due: &mut Vec<Due>) {
        for &id in &self.nodes[node].grants {
            let claim = &self.claims[&id];
            if claim.session != session && claim.doubt.is_none() {
                let moved = move |state: &mut Self, reply: &Reply| state.moved(id, session, reply);
                due.push((claim.renew_command(Some(session)), Box::new(moved)));
            }
        }
    }

    /// Asks for the places that went with an earlier session, in the order of their asking.
    fn queue_again(&mut self, node: usize, session: u64, due: &mut Vec<Due>) {
        let is_out = |id: &Id| {
            let claim = &self.claims[id];
            (claim.phase, claim.to.node) == (Phase::InLine, node)
                && claim.session != session
                && claim.end > self.at
        };
        let mut waits: Vec<Id> = self.names.values().copied().filter(is_out).collect();
        waits.sort_unstable();
        for id in waits {
            let name = self.claims[&id].name.clone();
            let queued = move |state: &mut Self, reply: &Reply| {
                state.answered(id, &name, session, reply);
                state.nodes[node].moves |= reply.fault().is_some();
            };
            due.push((self.asked(id), Box::new(queued)));
        }
    }

    /// Releases the grants of the session that nobody knows, and nobody called about meanwhile.
    fn listed(&mut self, mut called: HashSet<Name>, reply: &Reply) {
        self.nodes[reply.node].excess = None;
        called.extend(self.calls.keys().cloned());
        let Ok(rows) = &reply.value else { return };
        for row in list(rows) {
            let name = Name::of(field(row, "key"), field(row, "owner"));
            let token = number(field(row, "token"));
            let is_known = called.contains(&name) || self.names.contains_key(&name);
            let ended = (name, token);
            if !is_known && !self.unfinished.contains_key(&ended) {
                self.give_back(reply.node, ended.0, token);
            }
        }
    }
}
