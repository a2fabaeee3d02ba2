//! What all parts of the client share: the state under its mutex, the servers, and calls that are repeated.

use crate::background::{background, sleep};
use crate::error::Error;
use crate::observer::Observer;
use crate::pauses::Pauses;
use crate::server::{Server, Servers};
use crate::state::{Answer, Caller, Fault, Name, Node, Phase, Reply, State, Time};
use redis::Cmd;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
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
    /// Ends the pauses of the loops.
    pub(crate) closing: CancellationToken,
    /// Ends the loops, POLLs included.
    pub(crate) aborting: CancellationToken,
    /// Begins each owner.
    process: String,
    known: Mutex<Known>,
}

/// What is known: the state, and the servers and loops of its nodes.
pub(crate) struct Known {
    pub(crate) state: State,
    pub(crate) loops: Vec<Loop>,
    owners: u64,
}

/// The loop of a node.
pub(crate) struct Loop {
    pub(crate) server: Arc<Server>,
    pub(crate) is_running: bool,
    /// To the observer.
    pub(crate) is_down: bool,
    /// Ends a pause of the loop.
    pub(crate) needed: Arc<Notify>,
}

/// Where the next command about a key goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) node: usize,
    /// ASK led there.
    pub(crate) is_asking: bool,
}

/// The state, until the end of the borrow: then the callers of what has changed are woken.
pub(crate) struct Locked<'a> {
    core: &'a Arc<Core>,
    known: MutexGuard<'a, Known>,
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
            aborting: CancellationToken::new(),
            known: Mutex::new(Known {
                state,
                loops: Vec::new(),
                owners: 0,
            }),
        })
    }

    /// The key of the lock of this name.
    pub(crate) fn key(&self, name: &[u8]) -> Arc<[u8]> {
        [self.options.prefix.as_bytes(), name].concat().into()
    }

    /// The state, at this time.
    pub(crate) fn lock(self: &Arc<Self>) -> Locked<'_> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.state.at = now().max(known.state.at + Duration::from_nanos(1));
        Locked { core: self, known }
    }

    /// Finds where the next command about a key goes: where the last reply leads, or else to the node that has the key.
    pub(crate) async fn route(
        self: &Arc<Self>,
        key: &[u8],
        last: Option<(Target, &Fault)>,
        limit: Duration,
    ) -> Result<Target, Fault> {
        let last = last.filter(|(_, fault)| fault.redirection().is_some());
        let redirected = last.and_then(|(target, fault)| {
            let from = Arc::clone(&self.lock().loops[target.node].server);
            self.servers.redirected(&from, fault)
        });
        let is_asking = redirected.is_some() && last.is_some_and(|(_, fault)| fault.is("ASK"));
        let server = match redirected {
            Some(server) => server,
            None => self.servers.find(key, limit).await?,
        };
        let node = self.lock().node_of(&server);
        Ok(Target { node, is_asking })
    }

    /// Sends a command about a key until it is answered, for two reply timeouts. It returns the node that was asked last.
    pub(crate) async fn call_about(self: &Arc<Self>, key: &[u8], command: &Cmd) -> (usize, Answer) {
        self.call(Some(key), 0, |_| Some(command.clone())).await
    }

    /// Sends a command to a node until it is answered, for two reply timeouts.
    pub(crate) async fn call_node(self: &Arc<Self>, node: usize, command: &Cmd) -> Reply {
        let (_, answer) = self.call(None, node, |_| Some(command.clone())).await;
        answer.reply
    }

    /// Sends a command about a key, or to a node, until it is answered, for two reply timeouts. The command is none while
    /// there is no session for it. It returns the node that was asked last.
    async fn call(
        self: &Arc<Self>,
        key: Option<&[u8]>,
        mut node: usize,
        mut command: impl FnMut(usize) -> Option<Cmd>,
    ) -> (usize, Answer) {
        let end = now() + 2 * self.options.reply;
        let limit = || self.options.reply.min(end.saturating_sub(now()));
        let (mut pauses, mut last, mut was_open) = (Pauses::default(), None, false);
        let (mut is_asking, mut sent) = (false, now());
        loop {
            let attempt = async {
                if let Some(key) = key {
                    let last = last
                        .as_ref()
                        .map(|fault| (Target { node, is_asking }, fault));
                    let to = self.route(key, last, limit()).await?;
                    (node, is_asking) = (to.node, to.is_asking);
                }
                sent = now();
                let command = command(node).ok_or_else(|| Fault::no_reply("no session", false))?;
                let server = Arc::clone(&self.lock().loops[node].server);
                server.call(limit(), is_asking, &command).await
            };
            let reply = attempt.await;
            let pause = pauses.next();
            let is_passing = |fault: &&Fault| {
                let is_final = key.is_none() && fault.is("NOSESSION");
                fault.is_passing() && !is_final && now() + pause < end
            };
            let Some(fault) = reply.as_ref().err().filter(is_passing) else {
                let answer = Answer {
                    sent,
                    reply,
                    was_open,
                };
                return (node, answer);
            };
            was_open |= fault.may_arrive();
            last = Some(fault.clone());
            sleep(pause).await;
        }
    }

    /// Has the observer called.
    pub(crate) fn observe(&self, tell: impl FnOnce(&dyn Observer) + Send + 'static) {
        observe(self.options.observer.as_ref(), tell);
    }

    /// Sends a release that belongs to another node.
    async fn send_elsewhere(self: Arc<Self>, key: Arc<[u8]>, command: Cmd) {
        self.call_about(&key, &command).await;
    }

    /// Asks for a grant where its key is now: a node of the cluster has deleted or redirected it.
    async fn find(self: Arc<Self>, id: u64, name: Name) {
        let call = self.lock().state.begin_call(name.clone());
        let mut session = 0;
        let renew = |node: usize| {
            let mut known = self.lock();
            session = known.state.nodes[node].session;
            if session == 0 {
                known.run(node);
                return None;
            }
            Some(known.state.claims.get(&id)?.renew_command(session))
        };
        let (node, answer) = self.call(Some(&name.key), 0, renew).await;
        let mut known = self.lock();
        known.state.found(id, node, session, &answer);
        known.state.end_call(call);
    }
}

/// Reports a loss to the log and to an observer.
pub(crate) fn report_loss(observer: Option<&Arc<dyn Observer>>, error: Error) {
    tracing::warn!(key = error.key(), cause = error.cause(), "a lock was lost");
    observe(observer, move |observer| observer.lost(&error));
}

/// Has an observer called, on a thread of its own.
fn observe(
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

    fn node_of(&mut self, server: &Arc<Server>) -> usize {
        let is_it = |it: &Loop| Arc::ptr_eq(&it.server, server);
        self.loops.iter().position(is_it).unwrap_or_else(|| {
            self.state.nodes.push(Node::new(&server.address));
            self.loops.push(Loop {
                server: Arc::clone(server),
                is_running: false,
                is_down: false,
                needed: Arc::default(),
            });
            self.loops.len() - 1
        })
    }

    /// Starts the loop of a node if it is not running, and ends its pause.
    pub(crate) fn run(&mut self, node: usize) {
        let core = Arc::clone(self.core);
        self.loops[node].needed.notify_one();
        if !self.loops[node].is_running && !self.state.is_closed {
            self.loops[node].is_running = true;
            let running = crate::session::run(Arc::clone(&core), node);
            let running = core.loops.track_future(running);
            background().spawn(running);
        }
    }

    /// Wakes the caller of an acquire, and reports a loss.
    fn wake(&mut self, id: u64) {
        let Some(claim) = self.state.claims.get(&id) else {
            return;
        };
        let caller: &Caller = &claim.caller;
        caller.changed.notify_one();
        if claim.phase == Phase::Lost && claim.is_handed_over && !caller.lost.is_cancelled() {
            let error = self.state.require_held(id).err();
            let error = error
                .unwrap_or_else(Error::closed)
                .of("hold", &claim.name.key);
            let _ = caller.loss.set(error.clone());
            caller.lost.cancel();
            report_loss(self.core.options.observer.as_ref(), error);
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        for id in std::mem::take(&mut self.state.changed) {
            self.wake(id);
        }
        for id in std::mem::take(&mut self.state.elsewhere) {
            if let Some(claim) = self.state.claims.get(&id) {
                background().spawn(Arc::clone(self.core).find(id, claim.name.clone()));
            }
        }
        for (key, command) in std::mem::take(&mut self.state.misplaced) {
            background().spawn(Arc::clone(self.core).send_elsewhere(key, command));
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Known {
        &mut self.known
    }
}
