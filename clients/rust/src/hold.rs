//! What is done with a grant.

use crate::background::{background, sleep};
use crate::core::{Core, now};
use crate::error::Error;
use crate::locks::Locks;
use crate::state::{Caller, Id, LEAST_LEASE, Name, Reply, State};
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

    pub(crate) fn token(&self) -> u64 {
        self.core().with(|state| state[self.id].token)
    }

    /// The grant is neither lost nor released.
    pub(crate) fn stands(&self) -> bool {
        self.core()
            .with(|state| state[self.id].require_held().is_ok())
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

    /// Makes a call about the grant, if it is held. `begin` returns its command, `apply` applies the answer.
    pub(crate) async fn call(
        self: Arc<Self>,
        operation: &'static str,
        begin: impl FnOnce(&mut State, Id) -> Cmd + Send,
        apply: impl FnOnce(&mut State, Id, &Reply) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let calling = async {
            let command = self.core().with(|state| {
                state[self.id].require_held()?;
                state.begin_call(&self.name);
                Ok(begin(state, self.id))
            })?;
            let limit = 2 * self.core().options.reply;
            self.send(limit, command, apply).await
        };
        calling
            .await
            .map_err(|failure| failure.of(operation, &self.name.key))
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

    /// Gives the grant this lease. `leaves`: it also takes the grant out of its session.
    pub(crate) async fn renew(
        self: Arc<Self>,
        operation: &'static str,
        lease: Duration,
        leaves: bool,
    ) -> Result<(), Error> {
        let shortest = if leaves { LEAST_FIXED } else { LEAST_LEASE };
        if lease < shortest {
            let why = format!("a lease must be at least {shortest:?}");
            return Err(Error::misuse(why).of(operation, &self.name.key));
        }
        let caller = Arc::clone(&self.caller);
        let renew = move |state: &mut State, id| state.renew(id, lease, leaves);
        let apply = if leaves {
            State::left
        } else {
            State::confirmed
        };
        self.call(operation, renew, apply).await?;
        caller.changed.notify_one();
        Ok(())
    }

    /// Asks the server whether the grant stands.
    pub(crate) async fn check(self: Arc<Self>) -> Result<(), Error> {
        let check = |state: &mut State, id| state[id].check_command();
        self.call("check", check, State::confirmed).await
    }

    /// Gives the grant another lease, from now on.
    pub(crate) async fn extend(self: Arc<Self>, lease: Duration) -> Result<(), Error> {
        let is_fixed = self
            .core()
            .with(|state| state[self.id].terms.fixed.is_some());
        self.renew("extend", lease, is_fixed).await
    }

    /// Leaves the grant to others, with this lease.
    pub(crate) async fn detach(self: Arc<Self>, lease: Duration) -> Result<(), Error> {
        if self.core().with(|state| state[self.id].holds > 1) {
            let why = Error::misuse("the task must have one hold only");
            return Err(why.of("detach", &self.name.key));
        }
        Arc::clone(&self).renew("detach", lease, true).await?;
        self.core().with(|state| state.let_go(self.id));
        Ok(())
    }

    /// Gives a hold back.
    pub(crate) async fn release(self: Arc<Self>) -> Result<(), Error> {
        let released = Arc::clone(&self)
            .call("release", State::release, State::released)
            .await;
        if let Some(observer) = &self.core().options.observer {
            let taken = self.core().with(|state| state[self.id].taken);
            let held = now().saturating_sub(taken);
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
