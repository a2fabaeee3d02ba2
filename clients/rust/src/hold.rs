//! What is done with a grant.

use crate::background::{background, sleep};
use crate::core::Core;
use crate::error::Error;
use crate::locks::Locks;
use crate::state::claim::LEAST_LEASE;
use crate::state::time::FAR;
use crate::state::{Answer, Caller, Mode, Name, State, Time, command};
use redis::Cmd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A wait, and then a grant that some guards share.
pub(crate) struct Hold {
    pub(crate) locks: Locks,
    pub(crate) id: u64,
    pub(crate) name: Name,
    pub(crate) caller: Arc<Caller>,
    /// Of the calls about the grant.
    pub(crate) turn: Mutex<()>,
    /// When it was granted.
    pub(crate) taken: Instant,
    /// When it ends at the latest.
    pub(crate) most: Time,
}

impl Hold {
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.locks.core()
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn token(&self) -> u64 {
        self.core().lock().claim(self.id).token
    }

    fn misuse(&self, operation: &'static str, why: &'static str) -> Error {
        Error::misuse(why).of(operation, &self.name.key)
    }

    /// Fails if the grant is lost or released.
    pub(crate) fn status(&self) -> Result<(), Error> {
        let status = self.core().lock().require_held(self.id);
        status.map_err(|failure| failure.of("hold", &self.name.key))
    }

    /// How long it is sure that nobody else has the lock.
    pub(crate) fn remaining(&self) -> Duration {
        let state = self.core().lock();
        let is_held = state.require_held(self.id).is_ok();
        let sure = if is_held {
            state.sure(self.id)
        } else {
            Time::ZERO
        };
        sure.saturating_sub(state.at)
    }

    /// Ends the grant at its maximum time, and at the end of a fixed lease.
    pub(crate) fn start(self: &Arc<Self>, is_fixed: bool) {
        if !is_fixed && self.most == FAR {
            return;
        }
        let (weak, caller) = (Arc::downgrade(self), Arc::clone(&self.caller));
        background().spawn(async move {
            while let Some(hold) = weak.upgrade() {
                let (lasts, release) = {
                    let mut state = hold.core().lock();
                    let Some((end, reason)) = state.end_of(hold.id, hold.most) else {
                        return;
                    };
                    let lasts = end.saturating_sub(state.at);
                    let is_over = lasts.is_zero();
                    (lasts, is_over.then(|| state.end(hold.id, reason)))
                };
                if let Some(release) = release {
                    let released = hold.call("release", |_, _| Ok(release), State::released);
                    let _ = released.await; // the loss is reported
                    return;
                }
                drop(hold);
                tokio::select! {
                    () = sleep(lasts) => {}
                    () = caller.changed.notified() => {}
                }
            }
        });
    }

    /// Makes a call about the grant. `before` returns its command, `after` applies the answer.
    async fn call(
        &self,
        operation: &'static str,
        before: impl FnOnce(&mut State, u64) -> Result<Cmd, Error> + Send,
        after: impl FnOnce(&mut State, u64, &Answer) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        let failed = |failure: Error| failure.of(operation, &self.name.key);
        let (command, call, to) = {
            let mut state = self.core().lock();
            let command = before(&mut state, self.id).map_err(failed)?;
            let call = state.begin_call(self.name.clone());
            (command, call, state.claim(self.id).to)
        };
        let key = Some(&*self.name.key);
        let answer = self.core().call(key, to, &command).await;
        let mut state = self.core().lock();
        let result = after(&mut state, self.id, &answer);
        state.end_call(call);
        result.map_err(failed)
    }

    /// Asks the server whether the grant stands.
    pub(crate) async fn check(self: Arc<Self>) -> Result<(), Error> {
        let check = |state: &mut State, id| state.check(id);
        self.call("check", check, State::confirmed).await
    }

    /// Adds a hold.
    pub(crate) async fn enter(self: Arc<Self>, mode: Mode) -> Result<Arc<Self>, Error> {
        let enter = |state: &mut State, id| state.enter(id, mode);
        let entered = |state: &mut State, id: u64, answer: &Answer| {
            state.confirmed(id, answer)?;
            state.claim(id).holds += 1;
            Ok(())
        };
        self.call("acquire", enter, entered).await?;
        Ok(self)
    }

    /// Gives the grant this lease. `leaves`: it also takes the grant out of its session.
    pub(crate) async fn renew(
        &self,
        operation: &'static str,
        lease: Duration,
        leaves: bool,
    ) -> Result<(), Error> {
        let renew = |state: &mut State, id| state.renew(id, lease, leaves);
        let renewed = if leaves {
            State::left
        } else {
            State::confirmed
        };
        self.call(operation, renew, renewed).await?;
        self.caller.changed.notify_one();
        Ok(())
    }

    /// Gives the grant another lease, from now on.
    pub(crate) async fn extend(self: Arc<Self>, lease: Duration) -> Result<(), Error> {
        let is_fixed = self.core().lock().claim(self.id).is_fixed;
        if lease < Duration::from_millis(1) || lease < LEAST_LEASE && !is_fixed {
            let why =
                "a lease must be at least 1 millisecond, and 1 second where the session renews it";
            return Err(self.misuse("extend", why));
        }
        self.renew("extend", lease, is_fixed).await
    }

    /// Leaves the grant to others, with this lease.
    pub(crate) async fn detach(self: Arc<Self>, lease: Duration) -> Result<(), Error> {
        let is_entered = self.core().lock().claim(self.id).holds > 1;
        if is_entered || lease < Duration::from_millis(1) {
            let why =
                "a lease must be at least 1 millisecond, and the task must have one hold only";
            return Err(self.misuse("detach", why));
        }
        let detach = |state: &mut State, id| state.renew(id, lease, true);
        let left = |state: &mut State, id: u64, answer: &Answer| {
            state.left(id, answer).map(|()| state.let_go(id))
        };
        self.call("detach", detach, left).await
    }

    /// Gives a hold back.
    pub(crate) async fn release(self: Arc<Self>) -> Result<(), Error> {
        let released = self.call("release", State::release, State::released).await;
        if let Some(observer) = &self.core().options.observer {
            let (held, error) = (self.taken.elapsed(), released.as_ref().err());
            observer.released(&self.name.key, held, error);
        }
        released
    }

    /// Lifts the token of the grant. After any failure but that the token is too far ahead of the server's clock, which
    /// is true, it is not known which token the grant has: it has to be given up.
    pub(crate) async fn raise(&self, token: u64) -> Result<(), (Error, bool)> {
        let raise = |state: &mut State, id: u64| {
            let from = state.claim(id).token;
            let command = command!["LOCK.RENEW", &self.name, "TOKEN", from, "RAISE", token];
            state.require_held(id).map(|()| command)
        };
        let mut is_ahead = false;
        let raised = |state: &mut State, id: u64, answer: &Answer| {
            is_ahead = answer.reply.as_ref().is_err_and(|fault| fault.is("AHEAD"));
            state.confirmed(id, answer)?;
            state.raised(id, token);
            Ok(())
        };
        let result = self.call("raise", raise, raised).await;
        result.map_err(|error| (error, is_ahead))
    }

    /// Gives a hold back in the background.
    pub(crate) fn release_later(self: Arc<Self>) {
        if self.status().is_ok() {
            background().spawn(async move {
                if let Err(error) = self.release().await {
                    tracing::warn!(%error, "a lock was not released");
                }
            });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.core().lock().remove(self.id);
    }
}
