//! What the reply to a POLL says, and what its absence means.

use super::claim::Phase;
use super::reply::{bytes, field, list, number, text};
use super::session::Sure;
use super::time::{FAR, Time};
use super::{Id, Name, State};
use crate::error::{Error, ErrorKind};
use redis::Value;
use std::time::Duration;

impl State {
    /// How long a POLL that is sent now may block.
    pub(crate) fn block(&mut self, node: usize) -> Duration {
        if self.is_unsure(node) {
            Duration::from_millis(100)
        } else {
            self.lease / 3
        }
    }

    /// The time of a grant has passed, so that the next reply decides.
    pub(crate) fn is_unsure(&mut self, node: usize) -> bool {
        if self.at >= self.nodes[node].soonest {
            let sures = self.nodes[node].grants.iter().map(|id| self.sure(*id));
            self.nodes[node].soonest = sures.min().unwrap_or(FAR);
        }
        self.at >= self.nodes[node].soonest
    }

    /// Applies the reply to a POLL that was sent at this time.
    pub(crate) fn polled(&mut self, node: usize, sent: Time, reply: &Value) {
        let till = match field(reply, "sure-ms") {
            Value::Int(ms @ 0..) => sent + Duration::from_millis(ms.unsigned_abs()),
            _ => sent + self.lease,
        };
        for event in list(field(reply, "events")) {
            self.event(node, list(event), till);
        }
        let known = self.nodes[node].grants.len() + self.unfinished.len();
        let it = &mut self.nodes[node];
        while it.sures.pop_if(|sure| sure.till <= till).is_some() {}
        it.sures.push(Sure { sent, till });
        let has_more = number(field(reply, "grants")) > known as u64;
        it.excess = has_more.then(|| it.excess.unwrap_or(sent));
        it.fault = None;
        it.tries.clear();
        self.silent(node, sent);
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
        let name = Name::of(key, owner);
        let known = self.names.get(&name).copied();
        let (token, more) = (number(about), more.first());
        let ended = (name.clone(), token);
        let leaves = self.nodes[node].leaving.contains(&ended);
        match bytes(kind) {
            b"granted" if leaves => {}
            b"taken" if leaves && more.is_some_and(|session| number(session) == 0) => {
                self.nodes[node].end_leave(&ended);
            }
            b"granted" => {
                let is_known = self.granted(node, &name, token, session, till);
                if !is_known && !self.is_called(&name) {
                    self.give_back(node, name, token); // it was given up
                }
            }
            b"ended" => {
                if let Some(id) = known.filter(|id| self.claims[id].is_waiting()) {
                    self.wait_ended(id, &text(about));
                }
            }
            b"taken" => self.lost(node, name, token, "taken".to_owned()),
            b"lost" => {
                let reason = more.map_or_else(|| "lost".to_owned(), text);
                self.lost(node, name, token, reason);
            }
            _ => {}
        }
    }

    fn lost(&mut self, node: usize, name: Name, token: u64, reason: String) {
        let known = self.names.get(&name).map(|id| (*id, &self.claims[id]));
        let known = known.filter(|(_, claim)| {
            (claim.phase, claim.token, claim.to.node) == (Phase::Held, token, node)
        });
        if let Some((id, claim)) = known
            && self.is_cluster
            && reason == "deleted"
            && claim.reason.is_empty()
        {
            return self.doubt(id, reason);
        }
        let (id, ended) = (known.map(|(id, _)| id), (name, token));
        self.unfinished.remove(&ended); // nothing is left to release
        if !self.calls.is_empty() {
            self.losses.insert(ended, (reason.clone(), self.last_call));
        }
        if let Some(id) = id {
            self.lose(id, reason);
        }
    }

    /// Applies the end of a wait without a grant.
    fn wait_ended(&mut self, id: Id, why: &str) {
        let fault = Error::reply(why);
        let node = &self.nodes[self.claims[&id].to.node];
        if why == "timeout" || why == "cancelled" {
            let ended = format!("the wait has ended: {why}");
            self.end_wait(id, Error::new(ErrorKind::Busy, ended));
        } else if fault.is_passing() {
            self.set(id, Phase::Asked);
            let at = self.at;
            let wait = self.claim(id);
            (wait.cause, wait.from) = (Some(fault), at);
        } else {
            let failure = fault.at(&node.address);
            self.end_wait(id, failure);
        }
    }

    /// Applies a try to connect or to poll that began at this time and failed. One that failed at once counts only after
    /// a reply timeout of tries.
    pub(crate) fn failed(&mut self, node: usize, began: Time, fault: &Error) {
        let it = &mut self.nodes[node];
        it.tries.push(began);
        it.fault = Some(fault.clone());
        if self.is_cluster {
            self.displace(node, fault);
        }
        while let Some(&first) = self.nodes[node].tries.first()
            && self.at >= first + self.reply
        {
            self.silent(node, first);
            self.nodes[node].tries.remove(0);
        }
        if !fault.is_passing() {
            self.wake_waits(node);
        }
    }

    /// Ends the grants that a POLL or connect which began then has not made sure again.
    fn silent(&mut self, node: usize, since: Time) {
        if since <= self.nodes[node].soonest {
            return;
        }
        let mut soonest = FAR;
        for id in self.nodes[node].grants.clone() {
            let (sure, claim) = (self.sure(id), &self.claims[&id]);
            if sure >= since {
                soonest = soonest.min(sure);
                continue;
            }
            let (name, token) = (claim.name.clone(), claim.token);
            self.give_back(node, name, token);
            self.lose(id, "silence".to_owned());
        }
        self.nodes[node].soonest = soonest;
    }
}
