//! What all parts of the client share: the state under its mutex, the servers, and calls that are repeated.

use crate::background::{background, sleep};
use crate::builder::Builder;
use crate::error::Error;
use crate::mutex::lock;
use crate::observer::Observer;
use crate::pauses::Pauses;
use crate::server::{Route, Servers};
use crate::state::{Id, Node, Reply, State, Time};
use redis::Cmd;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// What all parts of the client share.
pub(crate) struct Core {
    pub(crate) options: Builder,
    pub(crate) servers: Servers,
    pub(crate) loops: TaskTracker,
    /// Ends the loops, their POLLs and pauses.
    pub(crate) closing: CancellationToken,
    state: Mutex<State>,
}

/// The time of a monotonic clock.
pub(crate) fn now() -> Time {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed()
}

impl Core {
    pub(crate) fn new(options: Builder, servers: Servers) -> Arc<Self> {
        let host = gethostname::gethostname();
        let cut = |text: &str| text.chars().take(40).collect::<String>();
        let (service, host) = (cut(&options.service), cut(&host.to_string_lossy()));
        let random = &Uuid::new_v4().simple().to_string()[..16];
        let process = format!("{service}:{host}:{}:{random}-", std::process::id());
        let is_cluster = servers.is_cluster();
        let state = State::new(process, options.lease, options.reply, is_cluster);
        Arc::new(Self {
            options,
            servers,
            loops: TaskTracker::new(),
            closing: CancellationToken::new(),
            state: Mutex::new(state),
        })
    }

    /// Reads or changes the state at this time, and then notifies the callers of what has changed.
    pub(crate) fn with<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        state.at = now().max(state.at + Duration::from_nanos(1));
        let result = change(&mut state);
        let changed = std::mem::take(&mut state.changed).into_iter();
        let changed = changed.filter_map(|id| {
            let claim = state.claims.get(&id)?;
            let caller = Arc::clone(&claim.caller);
            Some((id, caller, claim.loss(), claim.is_sought()))
        });
        let changed: Vec<_> = changed.collect();
        drop(state); // first, so that a caller who is woken does not wait for it
        for (id, caller, loss, is_sought) in changed {
            caller.changed.notify_one();
            if is_sought {
                background().spawn(Arc::clone(self).find(id));
            }
            if let Some(error) = loss.filter(|_| !caller.lost.is_cancelled()) {
                caller.lost.cancel();
                report_loss(self.options.observer.as_ref(), error);
            }
        }
        result
    }

    /// Starts the loop of a node that is used for the first time.
    pub(crate) fn start(self: &Arc<Self>, state: &mut State, node: usize) {
        while state.nodes.len() <= node {
            let server = self.servers.server(state.nodes.len());
            state.nodes.push(Node::new(&server.address));
        }
        if !std::mem::replace(&mut state.nodes[node].is_started, true) {
            let running = crate::session::run(Arc::clone(self), node);
            background().spawn(self.loops.track_future(running));
        }
    }

    /// Finds where the next command about a key goes, in this time: where the last reply leads, or else to the node that
    /// has the key.
    pub(crate) async fn route(
        &self,
        key: &[u8],
        last: Option<&Reply>,
        limit: Duration,
    ) -> Result<Route, Error> {
        if let Some((last, fault)) = last.and_then(|last| Some((last, last.fault()?))) {
            if fault.is_broken() {
                self.servers.refresh(); // another node may have taken over
            }
            if let Some(to) = self.servers.redirected(last.node, fault) {
                return Ok(to);
            }
        }
        let found = self.servers.find(key, limit).await;
        found.map(|node| (node, false))
    }

    /// Sends a command about a key until it is answered, for this time; with a node it stays there.
    pub(crate) async fn call(
        &self,
        key: &[u8],
        node: Option<usize>,
        limit: Duration,
        command: &Cmd,
    ) -> Reply {
        let end = now() + limit;
        let left = || end.saturating_sub(now());
        let (mut pauses, mut was_open, mut last) = (Pauses::default(), false, None);
        loop {
            let routed = match node {
                Some(node) => Ok((node, false)),
                None => self.route(key, last.as_ref(), left()).await,
            };
            let mut reply = match routed {
                Ok(to) => self.send(to, left(), command).await,
                Err(fault) => Reply::new(Err(fault), 0, now()),
            };
            reply.was_open = was_open;
            let pause = pauses.next();
            let is_passing =
                |fault: &&Error| fault.is_passing() && !fault.is("NOSESSION") && pause < left();
            let Some(fault) = reply.fault().filter(is_passing) else {
                return reply;
            };
            was_open |= fault.is_open;
            last = Some(reply);
            sleep(pause).await;
        }
    }

    /// Sends a command once.
    pub(crate) async fn send(&self, to: Route, left: Duration, command: &Cmd) -> Reply {
        let (limit, sent) = (self.options.reply.min(left), now());
        let (node, is_asking) = to;
        let server = self.servers.server(node);
        let value = server.call(limit, is_asking, command).await;
        Reply::new(value, node, sent)
    }

    /// Asks for a grant where its key is now: a node of the cluster has deleted or redirected it.
    async fn find(self: Arc<Self>, id: Id) {
        if let Some((name, find)) = self.with(|state| state.find(id)) {
            let limit = 2 * self.options.reply;
            let reply = self.call(&name.key, None, limit, &find).await;
            self.with(|state| {
                self.start(state, reply.node);
                state.moved(id, 0, &reply);
                state.end_call(&name);
            });
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

/// Reports a loss to the log and to an observer.
pub(crate) fn report_loss(observer: Option<&Arc<dyn Observer>>, error: Error) {
    tracing::warn!(key = error.key(), cause = error.cause(), "a lock was lost");
    observe(observer, move |observer| observer.lost(&error));
}

/// Has an observer called, on a thread of its own.
pub(crate) fn observe(
    observer: Option<&Arc<dyn Observer>>,
    tell: impl FnOnce(&dyn Observer) + Send + 'static,
) {
    if let Some(observer) = observer.cloned() {
        background().spawn_blocking(move || tell(&*observer));
    }
}
