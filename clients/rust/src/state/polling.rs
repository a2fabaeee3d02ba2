//! What the reply to a POLL says, and what its absence means.

use super::claim::Phase;
use super::reply::{bytes, field, list, number, text};
use super::{Ended, Id, Name, State, Time};
use crate::error::{Error, ErrorKind};
use redis::Value;
use std::time::Duration;

impl State {
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
        grants.any(|id| self.at >= self.claims[id].sure)
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
        it.fault = None;
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
        let (name, token, more) = (Name::of(key, owner), number(about), more.first());
        let ended = (name.clone(), token);
        match bytes(kind) {
            b"granted" if it.leaving.contains(&ended) => {}
            b"granted" => {
                let is_known = self.granted(node, &name, token, session, till);
                if !is_known && !self.calls.contains_key(&name) {
                    self.give_back(node, name, token); // it was given up
                }
            }
            b"ended" => self.wait_ended(&name, &text(about)),
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
        let held = self.names.get(&ended.0).copied().filter(|id| {
            let claim = &self.claims[id];
            (claim.phase, claim.token) == (Phase::Held, ended.1)
        });
        let is_final = held.is_none() || !may_have_moved;
        if is_final && self.calls.contains_key(&ended.0) {
            self.losses.insert(ended.clone(), reason.clone());
        }
        let is_here = |id: &Id| {
            let claim = &self.claims[id];
            claim.to.node == node && claim.doubt.is_none() // else it is being looked for
        };
        match held.filter(is_here) {
            Some(id) if may_have_moved => self.doubt(id, "deleted"),
            Some(id) => self.lose(id, reason),
            None => {}
        }
    }

    /// Applies the end of a wait without a grant.
    fn wait_ended(&mut self, name: &Name, why: &str) {
        let known = self.names.get(name).copied();
        let Some(id) = known.filter(|id| self.claims[id].is_waiting()) else {
            return;
        };
        let fault = Error::reply(&self.nodes[self.claims[&id].to.node].address, why);
        if why == "timeout" || why == "cancelled" {
            let ended = format!("the wait has ended: {why}");
            self.end(id, Error::new(ErrorKind::Busy, ended));
        } else if fault.is_passing() {
            let at = self.at;
            self.ask_again(id);
            let wait = self.claim(id);
            (wait.failure, wait.from) = (Some(fault), at);
        } else {
            self.end(id, fault);
        }
    }

    /// Applies a try to connect or to poll that began at this time and failed. One that failed at once counts only after
    /// a reply timeout of tries.
    pub(crate) fn failed(&mut self, node: usize, began: Time, fault: &Error) {
        self.nodes[node].fault = Some(fault.clone());
        self.silent(node, began, self.reply);
        if !fault.is_passing() {
            self.wake_waits(node);
        }
    }

    /// Ends the grants that a POLL or connect which began then has not made sure again, nor others for so long.
    fn silent(&mut self, node: usize, since: Time, patience: Duration) {
        let is_unsure = |id: &&Id| self.claims[id].sure < since && self.claims[id].doubt.is_none();
        let unsure: Vec<Id> = self.nodes[node]
            .grants
            .iter()
            .filter(is_unsure)
            .copied()
            .collect();
        for id in unsure {
            let at = self.at;
            let claim = self.claim(id);
            if claim.tried <= claim.sure {
                claim.tried = since;
            }
            if at >= claim.tried + patience {
                let (name, token) = claim.ended();
                self.give_back(node, name, token);
                self.lose(id, "silence".to_owned());
            }
        }
    }
}
