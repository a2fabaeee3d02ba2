//! What a client knows, and the rules by which it changes: sessions, waits, grants, calls under way, and releases that
//! are not finished. It has no I/O, tasks, timers or clock: replies and events go in with the time, and commands that
//! are due come out. Its callers hold a mutex.

/// A command of these words and numbers.
macro_rules! command {
    ($($part:expr),+ $(,)?) => {{
        let mut command = redis::Cmd::with_capacity(16, 256);
        $(command.arg($part);)+
        command
    }};
}
pub(crate) use command;

mod claim;
mod grants;
mod reply;
mod session;
#[cfg(test)]
mod tests;
mod waits;

pub(crate) use claim::{Caller, Claim, LEAST_LEASE, Name, TaskOwner, Terms, millis};
pub(crate) use reply::{Answer, Reply, list, number, text};
pub(crate) use session::Node;
pub(crate) use waits::Step;

use crate::error::Error;
use claim::Phase;
use redis::Cmd;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::time::Duration;

/// A moment, as the time since a fixed moment on a monotonic clock.
pub(crate) type Time = Duration;

/// Identifies a claim, in the order of asking.
pub(crate) type Id = u64;

/// A grant, by its token; without a token, all that its owner has, a wait too.
pub(crate) type Ended = (Name, u64);

/// What is known of all servers.
#[derive(Default)]
pub(crate) struct State {
    /// The time of this call: its caller sets it, each time later.
    pub(crate) at: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) claims: HashMap<Id, Claim>,
    /// Claims whose callers have to look again.
    pub(crate) changed: Vec<Id>,
    pub(crate) is_closed: bool,
    /// Releases that another node of the cluster has to be sent.
    pub(crate) misplaced: Vec<(Name, Cmd)>,
    process: String,
    lease: Duration,
    reply: Duration,
    is_cluster: bool,
    last_id: Id,
    /// Waits, and grants that are held.
    names: HashMap<Name, Id>,
    /// How many calls are under way.
    calls: HashMap<Name, usize>,
    /// Why grants were lost that the reply to a call under way may still name.
    losses: HashMap<Ended, String>,
    /// Releases that the loop of this node repeats.
    unfinished: HashMap<Ended, (usize, Cmd)>,
}

/// A claim stays until its caller removes it.
impl Index<Id> for State {
    type Output = Claim;

    fn index(&self, id: Id) -> &Claim {
        &self.claims[&id]
    }
}

impl IndexMut<Id> for State {
    fn index_mut(&mut self, id: Id) -> &mut Claim {
        self.claims.get_mut(&id).expect("a claim")
    }
}

impl State {
    /// `process` begins each owner, `lease` is that of the sessions, `reply` how long a reply may take.
    pub(crate) fn new(process: String, lease: Duration, reply: Duration, is_cluster: bool) -> Self {
        Self {
            process,
            lease,
            reply,
            is_cluster,
            ..Self::default()
        }
    }

    /// Registers a call before it is sent. An owner is not used again while a call in its name is unanswered.
    pub(crate) fn begin_call(&mut self, name: &Name) {
        *self.calls.entry(name.clone()).or_default() += 1;
    }

    /// Follows the application of the reply.
    pub(crate) fn end_call(&mut self, name: &Name) {
        if let Some(count) = self.calls.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.calls.remove(name);
                self.losses.retain(|(of, _), _| of != name); // no later reply can name them
            }
        }
    }

    /// Ends what is known of a claim whose caller has let go of it.
    pub(crate) fn remove(&mut self, id: Id) {
        self.forget(id);
        self.claims.remove(&id);
    }

    fn forget(&mut self, id: Id) {
        let claim = &self.claims[&id];
        if self.names.get(&claim.name) == Some(&id) {
            self.names.remove(&claim.name);
            self.nodes[claim.node].grants.remove(&id);
        }
    }

    /// Ends a claim.
    fn end(&mut self, id: Id, failure: Error) {
        self.forget(id);
        let claim = &mut self[id];
        (claim.phase, claim.failure) = (Phase::Ended, Some(failure));
        self.changed.push(id);
    }

    /// Has the loop release a grant that the user does not have, or cancel a wait: without the session.
    fn give_back(&mut self, node: usize, ended: Ended) {
        let (name, token) = &ended;
        let of = (*token != 0).then_some(("TOKEN", *token));
        let command = command!["LOCK.RELEASE", name, "ALL", of];
        self.unfinished.insert(ended, (node, command));
    }

    /// Applies the reply to an unfinished release.
    fn finished(&mut self, ended: &Ended, reply: &Reply) {
        let fault = reply.fault();
        if !fault.is_some_and(Error::is_passing)
            && let Some((node, _)) = self.unfinished.remove(ended)
        {
            let is_refused = fault.is_some_and(|fault| !fault.is_gone());
            self.nodes[node].is_leaving |= ended.1 != 0 && is_refused;
        }
    }

    /// Ends all waits and grants. It returns the grants: their names and sessions, and the commands that release them.
    pub(crate) fn close(&mut self) -> Vec<(Name, u64, Cmd)> {
        self.is_closed = true;
        let mut grants = Vec::new();
        for id in self.names.values().copied().collect::<Vec<_>>() {
            let claim = &mut self[id];
            if claim.phase == Phase::Held {
                claim.holds = 0;
                grants.push((claim.name.clone(), claim.session, claim.release_command()));
            }
            self.end(id, Error::closed());
        }
        grants
    }
}
