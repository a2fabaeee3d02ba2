//! What a client knows, and the rules by which it changes: sessions, waits, grants, calls under way, and releases that
//! are not finished. It has no I/O, tasks, timers or clock: replies and events go in with the time, and commands that
//! are due come out. Its callers hold a mutex.

/// A command of these words and numbers.
macro_rules! command {
    ($($part:expr),+ $(,)?) => {{
        let mut command = redis::Cmd::new();
        $(command.arg($part);)+
        command
    }};
}
pub(crate) use command;

pub(crate) mod claim;
mod fault;
mod grants;
mod polling;
pub(crate) mod reply;
mod session;
#[cfg(test)]
mod tests;
pub(crate) mod time;
mod waits;

pub(crate) use claim::{Caller, Claim, Mode, Name, Phase, Target, TaskOwner};
pub(crate) use grants::Answer;
pub(crate) use reply::Reply;
pub(crate) use session::Node;
pub(crate) use time::Time;
#[cfg(test)]
use waits::Asked;
pub(crate) use waits::Step;

use crate::error::Error;
use redis::Cmd;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Identifies a claim, in the order of asking.
pub(crate) type Id = u64;

/// What is known of all servers.
#[derive(Default)]
pub(crate) struct State {
    /// The time of this call: its caller sets it, each time later.
    pub(crate) at: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) claims: HashMap<Id, Claim>,
    /// Claims whose callers have to look again.
    pub(crate) changed: Vec<Id>,
    /// Waits, grants and unfinished releases that another node of the cluster may have now.
    pub(crate) displaced: Vec<Displaced>,
    pub(crate) is_closed: bool,
    lease: Duration,
    reply: Duration,
    is_cluster: bool,
    /// Waits, and grants that are held.
    names: HashMap<Name, Id>,
    last_id: Id,
    pub(crate) owners: u64,
    /// Releases that the loop of this node repeats.
    unfinished: HashMap<Ended, (usize, Cmd)>,
    calls: BTreeMap<u64, Name>,
    last_call: u64,
    /// Why grants were lost that a reply may still name, and the last call that was then under way.
    losses: HashMap<Ended, (String, u64)>,
}

/// A grant, by its token; without a token, all that its owner has, a wait too.
pub(crate) type Ended = (Name, u64);

/// A wait, grant or release that another node of the cluster may have now; the node that it was at; and the error of a
/// call there.
pub(crate) type Displaced = (Ended, usize, Error);

impl State {
    /// `lease` is that of the sessions, `reply` how long a reply may take.
    pub(crate) fn new(lease: Duration, reply: Duration, is_cluster: bool) -> Self {
        Self {
            lease,
            reply,
            is_cluster,
            ..Self::default()
        }
    }

    /// Registers a call before it is sent. An owner is not used again while a call in its name is unanswered.
    pub(crate) fn begin_call(&mut self, name: Name) -> u64 {
        self.last_call += 1;
        self.calls.insert(self.last_call, name);
        self.last_call
    }

    /// Follows the application of the reply.
    pub(crate) fn end_call(&mut self, call: u64) {
        self.calls.remove(&call);
        let first = self.calls.keys().next().copied().unwrap_or(u64::MAX);
        self.losses.retain(|_, (_, call)| *call >= first); // no later reply can name the others
    }

    fn is_called(&self, name: &Name) -> bool {
        self.calls.values().any(|called| called == name)
    }

    /// The owner that the task may use for another acquire; none: it needs a fresh one.
    pub(crate) fn usable_owner(&self, task: &TaskOwner, key: &Arc<[u8]>) -> Option<Arc<str>> {
        let owner = task.get()?;
        let name = Name {
            key: Arc::clone(key),
            owner: Arc::clone(&owner),
        };
        let unfinished = self.unfinished.keys().map(|(name, _)| name);
        let mut names = self.calls.values().chain(unfinished);
        let given_up = self.names.get(&name).map(|id| &self.claims[id].given_up);
        let is_used = names.any(|name| name.owner == owner)
            || given_up.is_some_and(CancellationToken::is_cancelled);
        if is_used {
            task.set(None);
        }
        (!is_used).then_some(owner)
    }

    pub(crate) fn claim(&mut self, id: Id) -> &mut Claim {
        let claim = self.claims.get_mut(&id);
        claim.expect("a claim that its caller has")
    }

    /// Ends what is known of a claim whose caller has let go of it.
    pub(crate) fn remove(&mut self, id: Id) {
        self.forget(id);
        self.claims.remove(&id);
    }

    fn forget(&mut self, id: Id) {
        let Some(claim) = self.claims.get(&id) else {
            return;
        };
        if self.names.get(&claim.name) == Some(&id) {
            self.names.remove(&claim.name);
            self.nodes[claim.to.node].grants.remove(&id);
        }
    }

    /// Has the loop repeat a release.
    fn finish_later(&mut self, node: usize, ended: Ended, command: Cmd) {
        self.unfinished.insert(ended, (node, command));
    }

    /// Has the loop release a grant that the user does not have, or cancel a wait: without the session.
    fn give_back(&mut self, node: usize, name: Name, token: u64) {
        let of = (token != 0).then_some(("TOKEN", token));
        let command = command!["LOCK.RELEASE", &name, "ALL", of];
        self.finish_later(node, (name, token), command);
    }

    /// Applies the reply to an unfinished release, or to the cancel of a wait that was given up.
    pub(crate) fn finished(&mut self, ended: &Ended, reply: &Reply) {
        let Some(&(node, _)) = self.unfinished.get(ended) else {
            return;
        };
        let fault = reply.as_ref().err();
        if let Some(fault) = fault.filter(|fault| fault.redirection().is_some())
            && self.is_cluster
        {
            self.displaced.push((ended.clone(), node, fault.clone()));
        }
        if fault.is_some_and(Error::is_passing) {
            return;
        }
        self.unfinished.remove(ended);
        let is_refused = fault.is_some_and(|fault| !fault.is_gone());
        self.nodes[node].is_leaving |= ended.1 != 0 && is_refused;
    }

    /// Has all that is at a node looked for at the others.
    pub(super) fn displace(&mut self, node: usize, fault: &Error) {
        for id in self.names.values() {
            let claim = &self.claims[id];
            let is_there = claim.is_waiting() || self.nodes[node].grants.contains(id);
            if claim.to.node == node && is_there {
                let ended = (claim.name.clone(), claim.token);
                self.displaced.push((ended, node, fault.clone()));
            }
        }
    }

    /// Has another node of the cluster asked about what was displaced. It returns a grant that is to be moved there.
    pub(crate) fn relocate(&mut self, ended: &Ended, to: Target) -> Option<Id> {
        if let Some(how) = self.unfinished.get_mut(ended) {
            how.0 = to.node;
            return None;
        }
        let id = *self.names.get(&ended.0)?;
        let sure = self.sure(id).max(self.at); // a POLL that began before does not judge it
        let claim = self.claims.get_mut(&id);
        let claim = claim.filter(|claim| claim.token == ended.1)?;
        let from = std::mem::replace(&mut claim.to, to).node;
        if claim.phase == Phase::Held {
            (claim.sure, claim.session) = (sure, 0);
            self.nodes[from].grants.remove(&id);
            let node = &mut self.nodes[to.node];
            node.grants.insert(id);
            (node.soonest, node.is_outside) = (node.soonest.min(sure), true);
            return Some(id);
        }
        if from != to.node {
            self.set(id, Phase::Asked);
        }
        None
    }
}
