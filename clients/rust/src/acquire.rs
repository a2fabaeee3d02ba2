//! Asks for a lock until there is a grant or an error.

use crate::background::{run, sleep};
use crate::core::{Core, Options, Target, now};
use crate::error::Error;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::locks::Locks;
use crate::pauses::Pauses;
use crate::server::Server;
use crate::state::{Asked, Claim, Fault, Mode, Name, Phase, Reply, Step, command};
use crate::task::Task;
use redis::Cmd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How a lock is acquired.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    /// A lease that is not renewed.
    pub(crate) fixed: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
    /// None: without a limit.
    pub(crate) wait: Option<Duration>,
    /// None: a fresh owner.
    pub(crate) task: Option<Task>,
    /// The owner and the token of a grant to adopt.
    pub(crate) adopts: Option<(Arc<str>, u64)>,
    /// The reason why these terms are misuse.
    pub(crate) wrong: Option<&'static str>,
}

/// Runs an acquire to its end, and reports that. It is told when it is given up, or when this future is dropped.
pub(crate) async fn acquiring<T: Send + 'static, F>(
    options: &Options,
    key: &Arc<[u8]>,
    given_up: &CancellationToken,
    acquire: impl FnOnce(CancellationToken) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (key, observer, begun) = (Arc::clone(key), options.observer.clone(), Instant::now());
    let stop = given_up.child_token();
    let (acquiring, stopped) = (acquire(stop.clone()), stop.clone());
    let _dropped = stop.drop_guard();
    run(async move {
        let acquired = acquiring.await;
        if let Some(observer) = observer {
            match &acquired {
                Err(_) if stopped.is_cancelled() => observer.cancelled(&key, begun.elapsed()),
                acquired => observer.acquired(&key, begun.elapsed(), acquired.as_ref().err()),
            }
        }
        acquired
    })
    .await
}

/// Acquires a lock, until it is given up or dropped.
pub(crate) async fn acquire(
    locks: &Locks,
    key: &Arc<[u8]>,
    terms: Terms,
    given_up: &CancellationToken,
) -> Result<Guard, Error> {
    let take = |stop| take(locks.clone(), Arc::clone(key), terms, stop);
    acquiring(&locks.core().options, key, given_up, take).await
}

async fn take(
    locks: Locks,
    key: Arc<[u8]>,
    terms: Terms,
    given_up: CancellationToken,
) -> Result<Guard, Error> {
    let core = locks.core();
    let failed = |failure: Error| failure.of("acquire", &key);
    if let Some(wrong) = terms.wrong {
        return Err(failed(Error::misuse(wrong)));
    }
    let routed = core.route(&key, None, core.options.reply).await;
    let mut target = routed.map_err(|fault| failed(fault.failure("cluster")))?;
    let mut hold = begin(&locks, &key, &terms, target.node).map_err(failed)?;
    if let Err(failure) = hold.ask(&mut target, &given_up).await {
        hold.give_up(target.is_asking).await;
        return Err(failed(failure));
    }
    hold.granted(terms.at_most);
    let hold = Arc::new(hold);
    if let Some(lease) = terms.fixed
        && let Err(error) = hold.renew("acquire", lease, true).await
    {
        hold.give_up(false).await;
        return Err(error);
    }
    hold.start(terms.fixed.is_some());
    Ok(Guard::new(hold))
}

/// Registers a wait.
fn begin(locks: &Locks, key: &Arc<[u8]>, terms: &Terms, node: usize) -> Result<Hold, Error> {
    let core = locks.core();
    let mut known = core.lock();
    let task = terms.task.as_ref().map(|task| Arc::clone(&task.owner));
    let adopts = terms.adopts.clone();
    let adopted = adopts.as_ref().map(|(owner, _)| Arc::clone(owner));
    let used = || task.as_ref().and_then(|it| known.state.usable_owner(it));
    let owner = adopted.or_else(used);
    let owner = owner.unwrap_or_else(|| known.owner());
    if let Some(task) = &task {
        task.set(Some(Arc::clone(&owner)));
    }
    let name = Name {
        key: Arc::clone(key),
        owner,
    };
    let mut claim = Claim::new(name.clone(), terms.wait, core.options.reply, known.state.at);
    claim.mode = terms.mode;
    claim.lease = terms.fixed.unwrap_or(core.options.lease);
    claim.is_fixed = terms.fixed.is_some();
    claim.adopts = adopts.map(|(_, token)| token);
    (claim.task, claim.node) = (task, node);
    let caller = Arc::clone(&claim.caller);
    let id = known.state.ask(claim)?;
    drop(known);
    Ok(Hold::new(locks, id, name, caller))
}

/// A [`Step`], with what it takes to send the ACQUIRE.
enum Next {
    Done,
    Rest(Duration),
    Send(Asked, Arc<Server>, Cmd),
}

impl Hold {
    /// Asks until there is a grant or an error. The loop brings the events of a place in line.
    async fn ask(&self, target: &mut Target, given_up: &CancellationToken) -> Result<(), Error> {
        let mut pauses = Pauses::default();
        loop {
            let rest = match self.next(*target, given_up)? {
                Next::Done => return Ok(()),
                Next::Rest(rest) => rest,
                Next::Send(asked, server, command) => {
                    let reply = server.call(asked.limit, target.is_asking, &command).await;
                    if !self.answered(&asked, reply, target).await {
                        continue;
                    }
                    pauses.next().min(asked.end.saturating_sub(now()))
                }
            };
            tokio::select! {
                () = self.caller.changed.notified() => {}
                () = sleep(rest) => {}
                () = given_up.cancelled() => {}
            }
        }
    }

    /// The next step.
    fn next(&self, target: Target, given_up: &CancellationToken) -> Result<Next, Error> {
        let mut known = self.core().lock();
        let claim = known.state.claim(self.id);
        let is_asked = claim.phase == Phase::Asked;
        if is_asked {
            claim.node = target.node; // the key is there now
        }
        let node = claim.node;
        let step = known.state.next_step(self.id)?;
        if step == Step::Done {
            return Ok(Next::Done);
        }
        if given_up.is_cancelled() {
            let fault = Fault::no_reply("given up", false);
            return Err(fault.failure(&known.state.nodes[node].address));
        }
        if !known.loops[node].is_running || step != Step::Send && is_asked {
            known.run(node);
        }
        if let Step::Rest(rest) = step {
            return Ok(Next::Rest(rest));
        }
        let asked = known.state.asked(self.id);
        let command = known.state.claims[&self.id].acquire_command(asked.session, asked.sent);
        let server = Arc::clone(&known.loops[node].server);
        Ok(Next::Send(asked, server, command))
    }

    /// Applies the reply. It returns whether to send the ACQUIRE again, after a pause; else the state has changed.
    async fn answered(&self, asked: &Asked, reply: Reply, target: &mut Target) -> bool {
        self.core().lock().state.answered(asked, &reply);
        let Some(fault) = reply.err().filter(Fault::is_passing) else {
            return false;
        };
        let last = Target {
            node: asked.node,
            ..*target
        };
        let (key, last) = (&self.name().key, Some((last, &fault)));
        let routed = self.core().route(key, last, asked.limit).await;
        *target = routed.unwrap_or(*target);
        true
    }

    /// Makes sure that the owner neither holds the lock nor waits for it.
    pub(crate) async fn give_up(&self, is_asking: bool) {
        let core: &Arc<Core> = self.core();
        let (call, limit, server) = {
            let mut known = core.lock();
            let claim = known.state.claim(self.id);
            let (node, last) = (claim.node, claim.last);
            if !known.state.give_up(self.id) {
                return;
            }
            let limit = core.options.reply.min(last.saturating_sub(known.state.at));
            let call = known.state.begin_call(self.name().clone());
            (call, limit, Arc::clone(&known.loops[node].server))
        };
        let cancel = command!["LOCK.RELEASE", self.name(), "ALL"];
        let reply = server.call(limit, is_asking, &cancel).await;
        let mut known = core.lock();
        known.state.cancel_answered(self.name(), &reply);
        known.state.end_call(call);
    }
}
