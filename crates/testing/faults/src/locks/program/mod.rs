//! Programs: each polls a session of its own on every server that takes one, and tells the clients that queue calls
//! there what came of these.

mod polling;
mod reply;

pub(crate) use reply::{Event, What};

use super::stage::Stage;
use history::Poll;
use polling::Polling;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A program, with a thread for each server.
pub(crate) struct Program<'s> {
    stage: &'s Stage,
    number: u32,
    /// Past the proxy.
    is_direct: bool,
    sites: Vec<Site>,
    is_over: AtomicBool,
}

/// A session on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) session: u64,
}

/// The request of a queued call.
pub(super) enum Next {
    /// An event that granted or ended it.
    Event(Event),
    /// The end of its session, or another server to ask.
    Gone,
    /// Nothing, for as long as it waits.
    Late,
}

/// The knowledge about one server.
#[derive(Default)]
struct Site {
    told: Mutex<Told>,
    news: Condvar,
}

#[derive(Default)]
struct Told {
    session: Option<u64>,
    /// How many POLLs were answered.
    replies: u64,
    /// By lock and owner: what nobody has asked for yet.
    events: HashMap<(String, String), Vec<Event>>,
    polls: Vec<Poll>,
}

impl<'s> Program<'s> {
    pub(crate) fn new(stage: &'s Stage, number: u32, is_direct: bool) -> Self {
        let nodes = stage.deployment.nodes().iter();
        Self {
            stage,
            number,
            is_direct,
            sites: nodes.map(|_| Site::default()).collect(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Polls on this server until [`Program::end`].
    pub(crate) fn poll(&self, node: usize) {
        Polling::new(self, node).run();
    }

    /// No client queues anything any more: the sessions are closed.
    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// How it polled.
    pub(crate) fn into_polls(self) -> Vec<Poll> {
        let told = self.sites.into_iter().map(|site| site.told.into_inner());
        let polls = told.map(|told| told.expect("no client has panicked").polls);
        polls.flatten().collect()
    }

    /// Its session on this server, if there is one now.
    pub(super) fn session(&self, node: usize) -> Option<u64> {
        self.told(node).session
    }

    /// The session where this lock is, or until then will be.
    pub(super) fn place(&self, key: &str, until: Instant) -> Option<Place> {
        loop {
            let node = self.stage.deployment.home(key);
            let left = until.checked_duration_since(Instant::now())?;
            let told = self.wait(node, left, |told| told.session.is_none());
            if let Some(session) = told.session {
                return Some(Place { node, session });
            }
        }
    }

    /// The outcome of a call that is in line in this session.
    pub(super) fn await_end(&self, place: Place, key: &str, owner: &str, until: Instant) -> Next {
        let name = (key.to_owned(), owner.to_owned());
        loop {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return Next::Late;
            };
            let mut told = self.wait(place.node, left, |told| {
                told.session == Some(place.session) && !told.events.contains_key(&name)
            });
            let mut events = told.events.remove(&name).unwrap_or_default();
            let ends = |event: &Event| matches!(event.what, What::Granted { .. } | What::Ended(_));
            let first = events
                .iter()
                .position(|event| ends(event) && event.session == place.session);
            let end = first.map(|first| events.remove(first));
            if let Some(event) = end {
                // Its loss may have come with it. What is of an earlier session is of no use.
                told.events.insert(name, events);
                return Next::Event(event);
            }
            let is_elsewhere = self.stage.deployment.home(key) != place.node;
            if told.session != Some(place.session) || is_elsewhere {
                return Next::Gone;
            }
        }
    }

    /// Whether the grant is no longer in the session, as far as it was told.
    pub(super) fn is_gone(&self, place: Place, key: &str, owner: &str, token: u64) -> bool {
        let told = self.told(place.node);
        let events = told.events.get(&(key.to_owned(), owner.to_owned()));
        events.is_some_and(|events| events.iter().any(|event| event.what == What::Gone(token)))
    }

    /// Whether the session reports that the grant is gone, or ends, before it has answered [`REPLIES`] POLLs more.
    pub(super) fn will_tell(&self, place: Place, (key, owner): (&str, &str), token: u64) -> bool {
        let first = self.told(place.node).replies;
        loop {
            if self.is_gone(place, key, owner, token) {
                return true;
            }
            let (session, replies) = {
                let told = self.wait(place.node, POLL, |_| true);
                (told.session, told.replies)
            };
            if session != Some(place.session) || self.stage.run.is_over() {
                return true;
            }
            if replies >= first + REPLIES {
                return self.is_gone(place, key, owner, token);
            }
        }
    }

    /// Waits for so long, or while this is so.
    fn wait(
        &self,
        node: usize,
        most: Duration,
        holds: impl Fn(&Told) -> bool,
    ) -> MutexGuard<'_, Told> {
        let most = most.min(POLL);
        let waited = self.sites[node]
            .news
            .wait_timeout_while(self.told(node), most, |told| holds(told));
        waited.expect("no client has panicked").0
    }

    fn told(&self, node: usize) -> MutexGuard<'_, Told> {
        let told = self.sites[node].told.lock();
        told.expect("no client has panicked")
    }
}

/// How many POLLs a session answers at most before it reports a loss.
const REPLIES: u64 = 4;
/// How long a client waits for an event at a time: servers may change their roles meanwhile.
const POLL: Duration = Duration::from_millis(50);
