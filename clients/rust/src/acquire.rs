//! Asks for a lock until there is a grant or an error.

use crate::background::{run, sleep};
use crate::core::{Core, Options, now};
use crate::error::Error;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::lock::Lock;
use crate::pauses::Pauses;
use crate::state::time::FAR;
use crate::state::{Claim, Mode, Name, Phase, Step, Target, command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Runs an acquire to its end, and reports that. It is told when it is given up, or when this future is dropped.
pub(crate) async fn acquiring<T: Send + 'static, F>(
    options: &Options,
    key: &[u8],
    given_up: &CancellationToken,
    acquire: impl FnOnce(CancellationToken) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (key, observer, begun) = (key.to_vec(), options.observer.clone(), Instant::now());
    let stopped = given_up.child_token();
    let acquiring = acquire(stopped.clone());
    let _dropped = stopped.clone().drop_guard();
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

/// Acquires a lock, until it is given up.
pub(crate) async fn take(lock: Lock, given_up: CancellationToken) -> Result<Guard, Error> {
    let failed = |failure: Error| failure.of("acquire", &lock.key);
    if lock.mode == Mode::Permits(0) {
        return Err(failed(Error::misuse("a semaphore has at least one permit")));
    }
    let routed = lock.locks.core().route(&lock.key, None).await;
    let to = routed.map_err(|error| failed(error.at("cluster")))?;
    let mut hold = Hold::begin(&lock, &given_up, to).map_err(failed)?;
    if let Err(failure) = hold.ask(&given_up).await {
        hold.give_up().await;
        return Err(failed(failure));
    }
    hold.taken = Instant::now();
    hold.most = lock.at_most.map_or(FAR, |most| now() + most);
    let hold = Arc::new(hold);
    if let Some(lease) = lock.fixed
        && let Err(error) = hold.renew("acquire", lease, true).await
    {
        hold.give_up().await;
        return Err(error);
    }
    hold.start(lock.fixed.is_some());
    Ok(Guard::new(hold))
}

impl Hold {
    /// Registers a wait.
    fn begin(lock: &Lock, given_up: &CancellationToken, to: Target) -> Result<Self, Error> {
        let core = lock.locks.core();
        let mut state = core.lock();
        let task = lock.task.as_ref().map(|task| &task.owner);
        let owner = match (&lock.adopts, task) {
            (Some((owner, _)), _) => Arc::clone(owner),
            (None, Some(task)) => {
                let usable = state.usable_owner(task, &lock.key);
                let owner = usable.unwrap_or_else(|| state.owner());
                task.set(Some(Arc::clone(&owner)));
                owner
            }
            (None, None) => state.owner(),
        };
        let key = Arc::clone(&lock.key);
        let name = Name { key, owner };
        let at = state.at;
        let mut claim = Claim::new(name.clone(), lock.wait, core.options.reply, at);
        claim.mode = lock.mode;
        claim.lease = lock.fixed.unwrap_or(core.options.lease);
        claim.is_fixed = lock.fixed.is_some();
        claim.adopts = lock.adopts.as_ref().map(|(_, token)| *token);
        (claim.task, claim.given_up) = (task.cloned(), given_up.clone());
        claim.to = to;
        let caller = Arc::clone(&claim.caller);
        let id = state.ask(claim)?;
        drop(state);
        Ok(Self {
            locks: lock.locks.clone(),
            id,
            name,
            caller,
            turn: Mutex::default(),
            taken: Instant::now(),
            most: FAR,
        })
    }

    /// Asks until there is a grant or an error. The loop brings the events of a place in line.
    async fn ask(&self, given_up: &CancellationToken) -> Result<(), Error> {
        let (core, id) = (self.core(), self.id);
        let mut pauses = Pauses::default();
        while !given_up.is_cancelled() {
            match self.next()? {
                Step::Done => return Ok(()),
                Step::Send(asked) => {
                    let reply = core.send(asked.to, asked.limit, &asked.command).await;
                    let is_asked = {
                        let mut state = core.lock();
                        state.answered(&asked, &reply);
                        state.claim(id).phase == Phase::Asked
                    };
                    if let Some(fault) = reply.err().filter(|it| is_asked && it.is_passing()) {
                        self.ask_again(asked.to, &fault, pauses.next()).await;
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
        let mut state = self.core().lock();
        let resume = state.at + pause;
        let claim = state.claim(self.id);
        claim.resume = resume;
        if let (Phase::Asked, Ok(to)) = (claim.phase, routed) {
            claim.to = to;
        }
    }

    /// The next step.
    fn next(&self) -> Result<Step, Error> {
        let mut state = self.core().lock();
        let step = state.next_step(self.id)?;
        if matches!(step, Step::Rest(_)) {
            let node = state.claim(self.id).to.node;
            state.nodes[node].needed.notify_one(); // ends its pause
        }
        Ok(step)
    }

    /// Makes sure that the owner neither holds the lock nor waits for it.
    pub(crate) async fn give_up(&self) {
        let core: &Arc<Core> = self.core();
        let (call, to, left) = {
            let mut state = core.lock();
            let claim = state.claim(self.id);
            let (to, last) = (claim.to, claim.last);
            if !state.give_up(self.id) {
                return;
            }
            let left = last.saturating_sub(state.at);
            let call = state.begin_call(self.name().clone());
            (call, to, left)
        };
        let cancel = command!["LOCK.RELEASE", self.name(), "ALL"];
        let reply = core.send(to, left, &cancel).await;
        let mut state = core.lock();
        state.finished(&(self.name().clone(), 0), &reply);
        state.end_call(call);
    }
}
