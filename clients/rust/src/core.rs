//! What all parts of the client share: the state under its mutex, the servers, and calls that are repeated.

use crate::background::{background, sleep};
use crate::error::Error;
use crate::observer::Observer;
use crate::pauses::Pauses;
use crate::server::Servers;
use crate::state::{Answer, Displaced, Node, Reply, State, Target, Time};
use futures_util::future::join_all;
use redis::Cmd;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// The settings of a client.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) service: String,
    pub(crate) prefix: String,
    pub(crate) lease: Duration,
    pub(crate) silence: Duration,
    pub(crate) reply: Duration,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// What all parts of the client share.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) servers: Servers,
    pub(crate) loops: TaskTracker,
    /// Ends the loops, POLLs and pauses included.
    pub(crate) closing: CancellationToken,
    /// Begins each owner.
    process: String,
    state: Mutex<State>,
}

/// The state, until the end of the borrow: then the callers of what has changed are woken.
pub(crate) struct Locked<'a> {
    core: &'a Arc<Core>,
    state: Option<MutexGuard<'a, State>>,
}

/// The time of a monotonic clock.
pub(crate) fn now() -> Time {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed()
}

impl Core {
    pub(crate) fn new(options: Options, servers: Servers) -> Arc<Self> {
        let host = gethostname::gethostname();
        let cut = |text: &str| text.chars().take(40).collect::<String>();
        let (service, host) = (cut(&options.service), cut(&host.to_string_lossy()));
        let random = &Uuid::new_v4().simple().to_string()[..16];
        let state = State::new(options.lease, options.reply, servers.is_cluster());
        Arc::new(Self {
            process: format!("{service}:{host}:{}:{random}-", std::process::id()),
            options,
            servers,
            loops: TaskTracker::new(),
            closing: CancellationToken::new(),
            state: Mutex::new(state),
        })
    }

    /// The key of the lock of this name.
    pub(crate) fn key(&self, name: &[u8]) -> Arc<[u8]> {
        [self.options.prefix.as_bytes(), name].concat().into()
    }

    /// The state, at this time.
    pub(crate) fn lock(self: &Arc<Self>) -> Locked<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.at = now().max(state.at + Duration::from_nanos(1));
        Locked {
            core: self,
            state: Some(state),
        }
    }

    /// Finds where the next command about a key goes: where the last error leads, or else to the node that has the key.
    pub(crate) async fn route(
        self: &Arc<Self>,
        key: &[u8],
        last: Option<(usize, &Error)>,
    ) -> Result<Target, Error> {
        if last.is_some_and(|(_, fault)| fault.is_broken()) {
            self.servers.refresh(); // another node may have taken over
        }
        let redirected = last.and_then(|(node, fault)| self.servers.redirected(node, fault));
        let to = match redirected {
            Some(to) => to,
            None => Target {
                node: self.servers.find(key).await?,
                is_asking: false,
            },
        };
        self.lock().start(to.node);
        Ok(to)
    }

    /// Sends a command to a node until it is answered, for two reply timeouts. It follows the key, if it is about one.
    pub(crate) async fn call(
        self: &Arc<Self>,
        key: Option<&[u8]>,
        mut to: Target,
        command: &Cmd,
    ) -> Answer {
        let end = now() + 2 * self.options.reply;
        let (mut pauses, mut was_open) = (Pauses::default(), false);
        loop {
            let sent = now();
            let reply = self.send(to, end.saturating_sub(sent), command).await;
            let pause = pauses.next();
            let is_passing = |fault: &&Error| {
                let is_final = key.is_none() && fault.is("NOSESSION");
                fault.is_passing() && !is_final && now() + pause < end
            };
            let Some(fault) = reply.as_ref().err().filter(is_passing) else {
                return Answer {
                    sent,
                    reply,
                    was_open,
                };
            };
            was_open |= fault.may_arrive();
            if let Some(key) = key {
                to = self.route(key, Some((to.node, fault))).await.unwrap_or(to);
            }
            sleep(pause).await;
        }
    }

    /// Sends a command once.
    pub(crate) async fn send(self: &Arc<Self>, to: Target, left: Duration, command: &Cmd) -> Reply {
        let limit = self.options.reply.min(left);
        let server = self.servers.server(to.node);
        server.call(limit, to.is_asking, command).await
    }

    /// Looks for what was displaced.
    async fn follow(self: Arc<Self>, displaced: Vec<Displaced>) {
        const PAUSE: Duration = Duration::from_millis(20); // nodes may disagree for a while
        sleep(PAUSE).await;
        join_all(displaced.into_iter().map(|it| self.relocate(it))).await;
    }

    async fn relocate(self: &Arc<Self>, (ended, from, fault): Displaced) {
        let key = &ended.0.key;
        let Ok(to) = self.route(key, Some((from, &fault))).await else {
            return;
        };
        let (id, call, session, renew) = {
            let mut state = self.lock();
            if to.node == from && fault.redirection().is_none() {
                return;
            }
            let id = state.relocate(&ended, to);
            state.nodes[to.node].needed.notify_one();
            let session = state.nodes[to.node].session;
            let Some(id) = id.filter(|_| session != 0) else {
                return; // the loop will ask
            };
            let renew = state.claims[&id].renew_command(session);
            (id, state.begin_call(ended.0), session, renew)
        };
        // A POLL that waits would keep the loop from asking for long.
        let sent = now();
        let reply = self.send(to, self.options.reply, &renew).await;
        let mut state = self.lock();
        state.moved(to.node, id, session, sent, &reply);
        state.end_call(call);
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

impl Locked<'_> {
    /// A fresh owner, so that a late call meets only its own grant.
    pub(crate) fn owner(&mut self) -> Arc<str> {
        self.owners += 1;
        format!("{}{:x}", self.core.process, self.owners).into()
    }

    /// Starts the loop of a node that is used for the first time.
    fn start(&mut self, node: usize) {
        while self.nodes.len() <= node {
            let server = self.core.servers.server(self.nodes.len());
            self.nodes.push(Node::new(&server.address));
        }
        if !std::mem::replace(&mut self.nodes[node].is_started, true) {
            let running = crate::session::run(Arc::clone(self.core), node);
            background().spawn(self.core.loops.track_future(running));
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        let changed = std::mem::take(&mut state.changed);
        let changed: Vec<_> = changed.iter().filter_map(|id| state.notice(*id)).collect();
        let displaced = std::mem::take(&mut state.displaced);
        drop(state); // first, so that a caller who is woken does not wait for it
        for (caller, loss) in changed {
            caller.changed.notify_one();
            if let Some(error) = loss {
                caller.lost.cancel();
                report_loss(self.core.options.observer.as_ref(), error);
            }
        }
        if !displaced.is_empty() {
            background().spawn(Arc::clone(self.core).follow(displaced));
        }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("until the end")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("until the end")
    }
}
