//! Asks for a lock until there is a grant or an error.

use crate::background::{run, sleep};
use crate::core::{Core, Target, now};
use crate::error::{Error, Failure};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::locks::Locks;
use crate::pauses::Pauses;
use crate::server::Server;
use crate::state::claim::cancel_command;
use crate::state::{Asked, Caller, Claim, Fault, Mode, Name, Phase, Reply, Step, TaskOwner};
use redis::Cmd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How a lock is acquired.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    /// A lease that is not renewed.
    pub(crate) fixed: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
    /// None: without a limit.
    pub(crate) wait: Option<Duration>,
    /// What is wrong with them.
    pub(crate) wrong: Option<&'static str>,
}

impl Terms {
    pub(crate) fn set_fixed(&mut self, lease: Duration) {
        self.fixed = Some(lease);
        if lease < Duration::from_millis(1) {
            self.wrong = Some("a lease is at least 1 millisecond");
        }
    }
}

/// The owner for whom a lock is acquired.
pub(crate) enum For {
    /// A fresh one.
    Anybody,
    Task(Arc<TaskOwner>),
    /// That of the grant to adopt, which has this token.
    Adopter(Arc<str>, u64),
}

/// Acquires a lock, until it is given up or dropped.
pub(crate) async fn acquire(
    locks: &Locks,
    key: Arc<[u8]>,
    whose: For,
    terms: Terms,
    given_up: &CancellationToken,
) -> Result<Guard, Error> {
    let dropped = given_up.child_token();
    let taking = taking(
        locks.clone(),
        Arc::clone(&key),
        whose,
        terms,
        dropped.clone(),
    );
    let _dropped = dropped.drop_guard();
    run(taking).await
}

async fn taking(
    locks: Locks,
    key: Arc<[u8]>,
    whose: For,
    terms: Terms,
    given_up: CancellationToken,
) -> Result<Guard, Error> {
    let begun = Instant::now();
    let core = locks.core();
    let taken = take(&locks, &key, whose, &terms, &given_up).await;
    if let Some(observer) = &core.options.observer {
        match &taken {
            Err(_) if given_up.is_cancelled() => observer.cancelled(&key, begun.elapsed()),
            taken => observer.acquired(&key, begun.elapsed(), taken.as_ref().err()),
        }
    }
    taken
}

async fn take(
    locks: &Locks,
    key: &Arc<[u8]>,
    whose: For,
    terms: &Terms,
    given_up: &CancellationToken,
) -> Result<Guard, Error> {
    let core = locks.core();
    let failed = |failure: Failure| failure.of("acquire", key);
    if let Some(wrong) = terms.wrong {
        return Err(failed(Failure::misuse(wrong)));
    }
    let routed = core.route(key, None, core.options.reply).await;
    let target = routed.map_err(|fault| failed(fault.failure("cluster")))?;
    let mut asking = Asking::new(core, key, whose, terms, target).map_err(failed)?;
    if let Err(failure) = asking.ask(given_up).await {
        asking.give_up().await;
        return Err(failed(failure));
    }
    let guard = Guard::new(Arc::new(Hold::new(
        locks,
        asking.id,
        asking.name.clone(),
        terms.at_most,
    )));
    if let Some(lease) = terms.fixed
        && let Err(error) = guard.hold().renew("acquire", lease, true).await
    {
        guard.give_up().await;
        return Err(error);
    }
    guard.hold().start(terms.fixed.is_some());
    Ok(guard)
}

/// What the caller of an acquire does next.
enum Next {
    Done,
    Rest(Duration),
    Send(Asked, Arc<Server>, Cmd),
}

/// A wait.
struct Asking {
    core: Arc<Core>,
    id: u64,
    name: Name,
    caller: Arc<Caller>,
    target: Target,
}

impl Asking {
    fn new(
        core: &Arc<Core>,
        key: &Arc<[u8]>,
        whose: For,
        terms: &Terms,
        target: Target,
    ) -> Result<Self, Failure> {
        let mut known = core.lock();
        let (task, adopted) = match whose {
            For::Anybody => (None, None),
            For::Task(task) => (Some(task), None),
            For::Adopter(owner, token) => (None, Some((owner, token))),
        };
        let used = task
            .as_ref()
            .and_then(|task| known.state.usable_owner(task));
        let owner = adopted
            .as_ref()
            .map(|(owner, _)| Arc::clone(owner))
            .or(used);
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
        claim.adopts = adopted.map(|(_, token)| token);
        claim.task = task;
        claim.node = target.node;
        let caller = Arc::clone(&claim.caller);
        let id = known.state.ask(claim)?;
        drop(known);
        Ok(Self {
            core: Arc::clone(core),
            id,
            name,
            caller,
            target,
        })
    }

    /// Asks until there is a grant or an error. The loop brings the events of a place in line.
    async fn ask(&mut self, given_up: &CancellationToken) -> Result<(), Failure> {
        let mut pauses = Pauses::default();
        loop {
            let rest = match self.next(given_up)? {
                Next::Done => return Ok(()),
                Next::Rest(rest) => rest,
                Next::Send(asked, server, command) => {
                    let reply = server
                        .call(asked.limit, self.target.is_asking, &command)
                        .await;
                    match self.answered(&asked, reply, &mut pauses).await {
                        Some(pause) => pause,
                        None => continue,
                    }
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
    fn next(&mut self, given_up: &CancellationToken) -> Result<Next, Failure> {
        let mut known = self.core.lock();
        let claim = known.state.claims.get_mut(&self.id).expect("asked for");
        let is_asked = claim.phase == Phase::Asked;
        if is_asked {
            claim.node = self.target.node; // the key is there now
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
        Ok(Next::Send(
            asked,
            Arc::clone(&known.loops[node].server),
            command,
        ))
    }

    /// Applies the reply. It returns how long to pause before the ACQUIRE is sent again; none: the state has changed.
    async fn answered(
        &mut self,
        asked: &Asked,
        reply: Reply,
        pauses: &mut Pauses,
    ) -> Option<Duration> {
        self.core.lock().state.answered(asked, &reply);
        let fault = reply.err().filter(Fault::is_passing)?;
        let last = Target {
            node: asked.node,
            ..self.target
        };
        let routed = self
            .core
            .route(&self.name.key, Some((last, &fault)), asked.limit)
            .await;
        self.target = routed.unwrap_or(self.target);
        Some(pauses.next().min(asked.end.saturating_sub(now())))
    }

    /// Makes sure that the owner neither holds the lock nor waits for it.
    async fn give_up(self) {
        give_up(&self.core, self.id, &self.name, self.target.is_asking).await;
        self.core.lock().state.remove(self.id);
    }
}

/// Makes sure that the owner of a claim neither holds the lock nor waits for it.
pub(crate) async fn give_up(core: &Arc<Core>, id: u64, name: &Name, is_asking: bool) {
    let (call, limit, server) = {
        let mut known = core.lock();
        let claim = &known.state.claims[&id];
        let (node, last) = (claim.node, claim.last);
        if !known.state.give_up(id) {
            return;
        }
        let limit = core.options.reply.min(last.saturating_sub(known.state.at));
        (
            known.state.begin_call(name.clone()),
            limit,
            Arc::clone(&known.loops[node].server),
        )
    };
    let reply = server.call(limit, is_asking, &cancel_command(name)).await;
    let mut known = core.lock();
    known.state.cancel_answered(name, &reply);
    known.state.end_call(call);
}
