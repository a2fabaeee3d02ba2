//! Asks for a lock until there is a grant or an error.

use crate::background::{run, sleep};
use crate::builder::Builder;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::lock::Lock;
use crate::pauses::Pauses;
use crate::state::{Claim, State, Step};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Runs an acquire to its end, and reports that. It is given up when this future is dropped.
pub(crate) async fn acquiring<T: Send + 'static>(
    options: &Builder,
    key: Arc<[u8]>,
    given_up: CancellationToken,
    acquiring: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let dropped = given_up.clone().drop_guard();
    let (observer, begun) = (options.observer.clone(), Instant::now());
    let acquired = run(async move {
        let acquired = acquiring.await;
        if let Some(observer) = observer {
            match &acquired {
                Err(_) if given_up.is_cancelled() => observer.cancelled(&key, begun.elapsed()),
                acquired => observer.acquired(&key, begun.elapsed(), acquired.as_ref().err()),
            }
        }
        acquired
    });
    let acquired = acquired.await;
    dropped.disarm();
    acquired
}

/// Acquires a lock, until it is given up.
pub(crate) async fn take(lock: Lock, given_up: CancellationToken) -> Result<Guard, Error> {
    let failed = |failure: Error| failure.of("acquire", &lock.terms.key);
    let hold = begin(&lock, given_up).await.map_err(failed)?;
    let mut acquired = hold.ask().await.map_err(failed);
    if let (Ok(()), Some(lease)) = (&acquired, lock.terms.fixed) {
        acquired = Arc::clone(&hold)
            .renew("acquire", lease, true, State::left)
            .await;
    }
    if let Err(error) = acquired {
        hold.give_up().await;
        return Err(error);
    }
    if lock.terms.fixed.is_some() || lock.terms.at_most.is_some() {
        hold.end_by_time();
    }
    if let Some(task) = &lock.task {
        task.remember(&hold);
    }
    Ok(Guard::new(hold))
}

/// Registers a wait.
async fn begin(lock: &Lock, given_up: CancellationToken) -> Result<Arc<Hold>, Error> {
    let (core, terms) = (&lock.locks.core, &lock.terms);
    if terms.limit == Some(0) {
        return Err(Error::misuse("a semaphore has at least one permit"));
    }
    let node = core.servers.find(&terms.key, core.options.reply).await?;
    let mut claim = Claim::new(terms.clone(), given_up, node);
    claim.task = lock.task.as_ref().map(|task| Arc::clone(&task.owner));
    core.with(|state| {
        core.start(state, node);
        let id = state.ask(claim)?;
        Ok(Arc::new(Hold {
            locks: lock.locks.clone(),
            id,
            name: state[id].name.clone(),
            caller: Arc::clone(&state[id].caller),
            turn: Mutex::default(),
        }))
    })
}

impl Hold {
    /// Asks until there is a grant or an error. The loop brings the events of a place in line.
    async fn ask(&self) -> Result<(), Error> {
        let (core, id, given_up) = (self.core(), self.id, &self.caller.given_up);
        let (mut pauses, mut is_asking) = (Pauses::default(), false);
        while !given_up.is_cancelled() {
            let rest = match core.with(|state| state.next_step(id))? {
                Step::Done => return Ok(()),
                Step::Rest(rest) => rest,
                Step::Send(command, node, session, limit) => {
                    let reply = core.send((node, is_asking), limit, &command).await;
                    core.with(|state| state.answered(id, &self.name, session, &reply));
                    if !reply.fault().is_some_and(Error::is_passing) {
                        continue;
                    }
                    let to = core.route(&self.name.key, Some(&reply), limit).await;
                    core.with(|state| {
                        if let Ok((node, by_ask)) = to {
                            is_asking = by_ask;
                            core.start(state, node);
                            state.ask_at(id, node);
                        }
                        state.pause(id, pauses.next())
                    })
                }
            };
            tokio::select! {
                () = self.caller.changed.notified() => {}
                () = sleep(rest) => {}
                () = given_up.cancelled() => {}
            }
        }
        let why = "its caller has stopped waiting for the lock";
        Err(Error::new(ErrorKind::Unavailable, why))
    }
}
