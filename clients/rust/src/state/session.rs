//! The rules of the session: its beginning and end, what is due before a POLL, and what its reply says.

use super::claim::Phase;
use super::reply::{bytes, field, list, number, text};
use super::{Ended, Id, Name, Reply, State, Time};
use crate::error::{Error, ErrorKind};
use redis::{Cmd, Value};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// What is known of one server: its session.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) address: String,
    /// Its loop runs.
    pub(crate) is_started: bool,
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
    /// Why the last try to connect and poll failed; none: it did not.
    pub(crate) fault: Option<Error>,
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
    /// The waits at a node, in the order of their asking.
    fn waits_at(&self, node: usize) -> Vec<Id> {
        let is_waiting = |id: &Id| self[*id].node == node && self[*id].is_waiting();
        let mut waits: Vec<Id> = self.names.values().copied().filter(is_waiting).collect();
        waits.sort_unstable();
        waits
    }

    /// The claims that depend on the session of a node: first the grants, then the waits.
    pub(crate) fn claims_at(&self, node: usize) -> Vec<Id> {
        let grants = self.nodes[node].grants.iter().copied();
        grants.chain(self.waits_at(node)).collect()
    }

    /// The sessions that are open, with their nodes.
    pub(crate) fn sessions(&self) -> Vec<(usize, u64)> {
        let sessions = self.nodes.iter().enumerate().flat_map(|(node, it)| {
            let left = it.left.map_or(0, |(session, _)| session);
            [(node, left), (node, it.session)]
        });
        sessions.filter(|(_, session)| *session != 0).collect()
    }

    /// Begins a session.
    pub(crate) fn opened(&mut self, node: usize, session: u64) {
        let it = &mut self.nodes[node];
        (it.session, it.seen, it.excess, it.moves) = (session, 0, None, true);
        it.leaving.clear();
        self.changed.extend(self.waits_at(node));
    }

    /// Leaves a session with a grant whose release was refused, so that the grant is not renewed forever.
    pub(crate) fn leave_session(&mut self, node: usize) {
        let (at, it) = (self.at, &mut self.nodes[node]);
        if it.is_leaving && it.left.is_none() && it.session != 0 {
            (it.left, it.session, it.is_leaving) = (Some((it.session, at)), 0, false);
        }
    }

    /// Ends the session of a node that has left the cluster, so that its loop may end, unless a claim depends on it.
    pub(crate) fn abandon(&mut self, node: usize) -> bool {
        let is_free = self.claims_at(node).is_empty();
        if is_free {
            self.unfinished.retain(|_, (at, _)| *at != node); // a lease ends what they release
            (self.nodes[node].session, self.nodes[node].is_started) = (0, false);
        }
        is_free
    }

    /// What is due before a POLL of the session, in the order of sending.
    pub(crate) fn due(&mut self, node: usize) -> Vec<Due> {
        let mut due = Vec::<Due>::new();
        let session = self.nodes[node].session;
        if std::mem::take(&mut self.nodes[node].moves) {
            for id in self.claims_at(node) {
                let claim = &self[id];
                match claim.phase {
                    _ if claim.session == session || claim.doubt.is_some() => {}
                    Phase::Held => {
                        let renewal = claim.renew_command(Some(("SESSION", session)));
                        let moved = move |state: &mut Self, reply: &Reply| {
                            state.moved(id, session, reply);
                        };
                        due.push((renewal, Box::new(moved)));
                    }
                    Phase::InLine if claim.end > self.at => {
                        let name = claim.name.clone();
                        let queued = move |state: &mut Self, reply: &Reply| {
                            state.answered(id, &name, session, reply);
                            state.nodes[node].moves |= reply.fault().is_some();
                        };
                        due.push((self.asked(id), Box::new(queued)));
                    }
                    _ => {}
                }
            }
        }
        for (ended, (_, command)) in self.unfinished.iter().filter(|(_, (at, _))| *at == node) {
            let ended = ended.clone();
            let finished = move |state: &mut Self, reply: &Reply| {
                if !reply.fault().is_some_and(Error::redirects) {
                    state.finished(&ended, reply);
                } else if let Some((_, command)) = state.unfinished.remove(&ended) {
                    state.misplaced.push((ended.0, command));
                }
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
            && !it.grants.iter().any(|id| self[*id].session == old)
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

    /// Releases the grants of the session that nobody knows, and nobody called about meanwhile.
    fn listed(&mut self, mut called: HashSet<Name>, reply: &Reply) {
        self.nodes[reply.node].excess = None;
        called.extend(self.calls.keys().cloned());
        let Ok(rows) = &reply.value else { return };
        for row in list(rows) {
            let name = Name::of(field(row, "key"), field(row, "owner"));
            let is_known = called.contains(&name) || self.names.contains_key(&name);
            let stray = (name, number(field(row, "token")));
            if !is_known && !self.unfinished.contains_key(&stray) {
                self.give_back(reply.node, stray);
            }
        }
    }

    /// How long a POLL that is sent now may block: briefly if its reply decides about a grant.
    pub(crate) fn block(&self, node: usize) -> Duration {
        if self.is_unsure(node) {
            Duration::from_millis(100)
        } else {
            self.lease / 3
        }
    }

    /// The time of a grant has passed, so that the next reply decides.
    pub(crate) fn is_unsure(&self, node: usize) -> bool {
        let mut grants = self.nodes[node].grants.iter();
        grants.any(|id| self.at >= self[*id].sure)
    }

    /// Applies the reply to a POLL that was sent at this time.
    pub(crate) fn polled(&mut self, node: usize, sent: Time, reply: &Value) {
        let till = match field(reply, "sure-ms") {
            Value::Int(ms @ 0..) => sent + Duration::from_millis(ms.unsigned_abs()),
            _ => sent + self.lease,
        };
        let it = &self.nodes[node];
        for id in &it.grants {
            let claim = self.claims.get_mut(id).expect("a claim");
            if claim.session == it.session && sent > claim.from {
                claim.sure = claim.sure.max(till); // it was known then
            }
        }
        for event in list(field(reply, "events")) {
            self.event(node, list(event), till);
        }
        let known = self.nodes[node].grants.len() + self.unfinished.len();
        let it = &mut self.nodes[node];
        let has_more = number(field(reply, "grants")) > known as u64;
        it.excess = has_more.then(|| it.excess.unwrap_or(sent));
        self.silent(node, sent, Duration::ZERO);
    }

    /// Applies one event.
    fn event(&mut self, node: usize, event: &[Value], till: Time) {
        let [count, kind, key, owner, about, more @ ..] = event else {
            return;
        };
        let it = &mut self.nodes[node];
        if number(count) <= it.seen {
            return; // answered before
        }
        it.seen = number(count);
        let session = it.session;
        let (ended, more) = ((Name::of(key, owner), number(about)), more.first());
        match bytes(kind) {
            b"granted" if it.leaving.contains(&ended) => {}
            b"granted" => {
                let is_known = self.granted(node, &ended, session, till);
                if !is_known && !self.calls.contains_key(&ended.0) {
                    self.give_back(node, ended); // it was given up
                }
            }
            b"ended" => self.wait_ended(&ended.0, &text(about)),
            b"lost" => self.lost(node, &ended, more.map_or_else(|| "lost".to_owned(), text)),
            b"taken" => {
                let is_left = more.is_some_and(|session| number(session) == 0);
                if !is_left || !it.end_leave(&ended) {
                    self.lost(node, &ended, "taken".to_owned()); // not by this client
                }
            }
            _ => {}
        }
    }

    /// Applies the loss of a grant. In a cluster, one that was deleted may be at another node: the search decides.
    fn lost(&mut self, node: usize, ended: &Ended, reason: String) {
        self.unfinished.remove(ended); // nothing is left to release
        let may_have_moved = self.is_cluster && reason == "deleted";
        let is_it = |id: &Id| (self[*id].phase, self[*id].token) == (Phase::Held, ended.1);
        let held = self.names.get(&ended.0).copied().filter(is_it);
        let is_final = held.is_none() || !may_have_moved;
        if is_final && self.calls.contains_key(&ended.0) {
            self.losses.insert(ended.clone(), reason.clone());
        }
        match held {
            Some(id) if self[id].node != node || self[id].is_sought() => {}
            Some(id) if may_have_moved => self.doubt(id, "deleted"),
            Some(id) => self.lose(id, reason),
            None => {}
        }
    }

    /// Applies the end of a wait without a grant.
    fn wait_ended(&mut self, name: &Name, why: &str) {
        let known = self.names.get(name).copied();
        let Some(id) = known.filter(|id| self[*id].is_waiting()) else {
            return;
        };
        let fault = Error::reply(&self.nodes[self[id].node].address, why);
        if why == "timeout" || why == "cancelled" {
            let ended = format!("the wait has ended: {why}");
            self.end(id, Error::new(ErrorKind::Busy, ended));
        } else if fault.is_passing() {
            self.ask_again(id);
            (self[id].failure, self[id].from) = (Some(fault), self.at);
        } else {
            self.end(id, fault);
        }
    }

    /// Applies a try to connect or to poll that began at this time and failed. One that failed at once counts only after
    /// a reply timeout of tries.
    pub(crate) fn failed(&mut self, node: usize, began: Time, fault: &Error) {
        self.silent(node, began, self.reply);
        if !fault.is_passing() {
            self.changed.extend(self.waits_at(node));
        }
    }

    /// Ends the grants that a POLL or connect which began then has not made sure again, nor others for so long.
    fn silent(&mut self, node: usize, since: Time, patience: Duration) {
        let is_unsure = |id: &Id| self[*id].sure < since && self[*id].doubt.is_none();
        let grants = self.nodes[node].grants.iter().copied();
        for id in grants.filter(is_unsure).collect::<Vec<_>>() {
            let at = self.at;
            let claim = &mut self[id];
            if claim.tried <= claim.sure {
                claim.tried = since;
            }
            if at >= claim.tried + patience {
                let ended = claim.ended();
                self.give_back(node, ended);
                self.lose(id, "silence".to_owned());
            }
        }
    }
}
