//! What is done with a grant.

use crate::background::{background, run, sleep};
use crate::core::{Core, now};
use crate::error::Error;
use crate::guard::Guard;
use crate::locks::Locks;
use crate::state::{Caller, Claim, Id, LEAST_LEASE, Name, Reply, State};
use redis::Cmd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// The shortest lease that nobody renews.
const LEAST_FIXED: Duration = Duration::from_millis(1);

/// A wait, and then a grant that some guards share.
pub(crate) struct Hold {
    pub(crate) locks: Locks,
    pub(crate) id: Id,
    pub(crate) name: Name,
    pub(crate) caller: Arc<Caller>,
    /// Of the calls about the grant.
    pub(crate) turn: Mutex<()>,
}

impl Hold {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.locks.core
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Claim) -> T) -> T {
        self.core().with(|state| read(&state[self.id]))
    }

    /// The grant is neither lost nor released.
    pub(crate) fn stands(&self) -> bool {
        self.read(|claim| claim.require_held().is_ok())
    }

    /// Ends the grant at its maximum time, and at the end of a fixed lease.
    pub(crate) fn end_by_time(self: &Arc<Self>) {
        let (weak, caller) = (Arc::downgrade(self), Arc::clone(&self.caller));
        background().spawn(async move {
            while let Some(hold) = weak.upgrade() {
                let rest = match hold.core().with(|state| state.expire(hold.id)) {
                    None => return,
                    Some(Err(rest)) => rest,
                    Some(Ok(release)) => {
                        let limit = 2 * hold.core().options.reply;
                        let _ = hold.send(limit, release, State::released).await; // the loss is reported
                        return;
                    }
                };
                drop(hold);
                tokio::select! {
                    () = sleep(rest) => {}
                    () = caller.changed.notified() => {}
                }
            }
        });
    }

    /// Makes a call about the grant, if it is held. `begin` returns its command, `apply` applies the answer. A call that
    /// is dropped goes on.
    pub(crate) async fn call(
        self: Arc<Self>,
        operation: &'static str,
        begin: impl FnOnce(&mut State, Id) -> Cmd + Send + 'static,
        apply: impl FnOnce(&mut State, Id, &Reply) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let hold = Arc::clone(&self);
        let called = run(async move {
            let _turn = hold.turn.lock().await;
            let command = hold.core().with(|state| {
                state[hold.id].require_held()?;
                state.begin_call(&hold.name);
                Ok(begin(state, hold.id))
            })?;
            let limit = 2 * hold.core().options.reply;
            hold.send(limit, command, apply).await
        });
        let failed = |failure: Error| failure.of(operation, &self.name.key);
        called.await.map_err(failed)
    }

    /// Sends a command about the grant until it is answered, or this time is over. The call is registered already.
    async fn send(
        &self,
        limit: Duration,
        command: Cmd,
        apply: impl FnOnce(&mut State, Id, &Reply) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (core, key) = (self.core(), &self.name.key);
        let reply = core.call(key, None, limit, &command).await;
        core.with(|state| {
            let result = apply(state, self.id, &reply);
            state.end_call(&self.name);
            result
        })
    }

    /// Asks the server whether the grant stands.
    pub(crate) async fn check(self: Arc<Self>) -> Result<(), Error> {
        let check = |state: &mut State, id| state[id].check_command();
        self.call("check", check, State::confirmed).await
    }

    /// Adds a hold, by an acquire with this limit.
    pub(crate) async fn enter(self: Arc<Self>, limit: Option<u32>) -> Result<Guard, Error> {
        let enter = move |state: &mut State, id| state[id].enter_command(limit);
        let entered = Arc::clone(&self).call("acquire", enter, State::entered);
        entered.await.map(|()| Guard::new(self))
    }

    /// Gives the grant this lease. `leaves`: it also takes the grant out of its session. `apply` applies the answer.
    pub(crate) async fn renew(
        self: Arc<Self>,
        operation: &'static str,
        lease: Duration,
        leaves: bool,
        apply: impl FnOnce(&mut State, Id, &Reply) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let shortest = if leaves { LEAST_FIXED } else { LEAST_LEASE };
        if lease < shortest {
            let why = format!("a lease must be at least {shortest:?}");
            return Err(Error::misuse(why).of(operation, &self.name.key));
        }
        let renew = move |state: &mut State, id| state.renew(id, lease, leaves);
        self.call(operation, renew, apply).await
    }

    /// Gives the grant another lease, from now on.
    pub(crate) async fn extend(self: Arc<Self>, lease: Duration) -> Result<(), Error> {
        if self.read(|claim| claim.terms.fixed.is_some()) {
            return self.renew("extend", lease, true, State::left).await;
        }
        self.renew("extend", lease, false, State::confirmed).await
    }

    /// Leaves the grant to others, with this lease.
    pub(crate) async fn detach(self: Arc<Self>, lease: Duration) -> Result<(), Error> {
        if self.read(|claim| claim.holds > 1) {
            let why = Error::misuse("the task must have one hold only");
            return Err(why.of("detach", &self.name.key));
        }
        self.renew("detach", lease, true, State::detached).await
    }

    /// Gives a hold back.
    pub(crate) async fn release(self: Arc<Self>) -> Result<(), Error> {
        let releasing = Arc::clone(&self).call("release", State::release, State::released);
        let released = releasing.await;
        if let Some(observer) = &self.core().options.observer {
            let held = now().saturating_sub(self.read(|claim| claim.taken));
            observer.released(&self.name.key, held, released.as_ref().err());
        }
        released
    }

    /// Makes sure that the owner neither holds the lock nor waits for it.
    pub(crate) async fn give_up(&self) {
        if let Some((cancel, limit)) = self.core().with(|state| state.give_up(self.id)) {
            let _ = self.send(limit, cancel, State::cancelled).await; // the loop repeats it
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.core().with(|state| state.remove(self.id));
    }
}
