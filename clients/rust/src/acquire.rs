//! Asks for a lock until there is a grant or an error.

use crate::background::{run, sleep};
use crate::core::{Core, Options, Target};
use crate::error::Error;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::locks::Locks;
use crate::pauses::Pauses;
use crate::state::{Claim, Mode, Name, Phase, Step, command};
use crate::task::Task;
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
    let routed = core.route(&key, None).await;
    let to = routed.map_err(|error| failed(error.at("cluster")))?;
    let mut hold = begin(&locks, &key, &terms, to).map_err(failed)?;
    if let Err(failure) = hold.ask(&given_up).await {
        hold.give_up().await;
        return Err(failed(failure));
    }
    hold.granted(terms.at_most);
    let hold = Arc::new(hold);
    if let Some(lease) = terms.fixed
        && let Err(error) = hold.renew("acquire", lease, true).await
    {
        hold.give_up().await;
        return Err(error);
    }
    hold.start(terms.fixed.is_some());
    Ok(Guard::new(hold))
}

/// Registers a wait.
fn begin(locks: &Locks, key: &Arc<[u8]>, terms: &Terms, to: Target) -> Result<Hold, Error> {
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
    (claim.task, claim.node, claim.is_asking) = (task, to.node, to.is_asking);
    let caller = Arc::clone(&claim.caller);
    let id = known.state.ask(claim)?;
    drop(known);
    Ok(Hold::new(locks, id, name, caller))
}

impl Hold {
    /// Asks until there is a grant or an error. The loop brings the events of a place in line.
    async fn ask(&self, given_up: &CancellationToken) -> Result<(), Error> {
        let (core, id) = (self.core(), self.id);
        let mut pauses = Pauses::default();
        while !given_up.is_cancelled() {
            match self.next()? {
                Step::Done => return Ok(()),
                Step::Send(asked) => {
                    let (node, is_asking) = (asked.node, core.lock().state.claim(id).is_asking);
                    let to = Target { node, is_asking };
                    let reply = core.send(to, asked.limit, &asked.command).await;
                    let is_asked = {
                        let mut known = core.lock();
                        known.state.answered(&asked, &reply);
                        known.state.claim(id).phase == Phase::Asked
                    };
                    if let Some(fault) = reply.err().filter(|it| is_asked && it.is_passing()) {
                        self.ask_again(to, &fault, pauses.next()).await;
                    }
                }
                Step::Rest(rest) => tokio::select! {
                    () = self.caller.changed.notified() => {}
                    () = sleep(rest) => {}
                    () = given_up.cancelled() => {}
                },
            }
        }
        Err(Error::unsent("given up"))
    }

    /// Finds out where to ask after a try that has failed, and has that wait for this long.
    async fn ask_again(&self, asked: Target, fault: &Error, pause: Duration) {
        let routed = self
            .core()
            .route(&self.name().key, Some((asked.node, fault)))
            .await;
        let mut known = self.core().lock();
        let resume = known.state.at + pause;
        let claim = known.state.claim(self.id);
        claim.resume = resume;
        if let (Phase::Asked, Ok(to)) = (claim.phase, routed) {
            (claim.node, claim.is_asking) = (to.node, to.is_asking);
        }
    }

    /// The next step.
    fn next(&self) -> Result<Step, Error> {
        let mut known = self.core().lock();
        let step = known.state.next_step(self.id)?;
        let claim = known.state.claim(self.id);
        let node = claim.node;
        if matches!(step, Step::Rest(_)) || !known.loops[node].is_running {
            known.run(node);
        }
        Ok(step)
    }

    /// Makes sure that the owner neither holds the lock nor waits for it.
    pub(crate) async fn give_up(&self) {
        let core: &Arc<Core> = self.core();
        let (call, to, left) = {
            let mut known = core.lock();
            let claim = known.state.claim(self.id);
            let (node, is_asking, last) = (claim.node, claim.is_asking, claim.last);
            if !known.state.give_up(self.id) {
                return;
            }
            let left = last.saturating_sub(known.state.at);
            let call = known.state.begin_call(self.name().clone());
            (call, Target { node, is_asking }, left)
        };
        let cancel = command!["LOCK.RELEASE", self.name(), "ALL"];
        let reply = core.send(to, left, &cancel).await;
        let mut known = core.lock();
        known.state.finished(&(self.name().clone(), 0), &reply);
        known.state.end_call(call);
    }
}
