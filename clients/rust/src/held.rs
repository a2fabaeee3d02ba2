//! One grant that this process holds, shared by all its guards.

use crate::backend::{Backend, Grant, Granted};
use crate::registry::Registry;
use crate::{Error, Loss};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What is known of a grant.
pub(crate) struct Held {
    backend: Arc<dyn Backend>,
    registry: Arc<Registry>,
    grant: Grant,
    renews: bool,
    /// How long a call that the caller waits for may be repeated.
    patience: Duration,
    /// How many guards there are.
    guards: AtomicUsize,
    /// How many holds the server counts. Locked for the length of each call about this grant: what a
    /// call asks for depends on what the one before it came to.
    holds: tokio::sync::Mutex<u32>,
    term: Mutex<Term>,
    /// The term has been changed.
    changed: Notify,
    lost: CancellationToken,
    /// It is released or lost: nothing is left to look after.
    over: CancellationToken,
}

#[derive(Clone, Copy)]
struct Term {
    lease: Duration,
    /// Until when it may be trusted.
    deadline: Instant,
    loss: Option<Loss>,
}

impl Held {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        registry: Arc<Registry>,
        granted: Granted,
        lease: Duration,
        renews: bool,
        patience: Duration,
    ) -> Self {
        Self {
            backend,
            registry,
            grant: granted.grant,
            renews,
            patience,
            guards: AtomicUsize::new(0),
            holds: tokio::sync::Mutex::new(granted.holds),
            term: Mutex::new(Term {
                lease,
                deadline: granted.trusted_until,
                loss: None,
            }),
            changed: Notify::new(),
            lost: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.term().deadline
    }

    /// When the lease is to begin anew: when a third of it has passed.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        let term = *self.term();
        let rest = term.lease * 2 / 3;
        self.renews
            .then(|| term.deadline.checked_sub(rest).unwrap_or(term.deadline))
    }

    /// How it was lost, if it was, or if its time has passed unnoticed.
    pub(crate) fn loss(&self) -> Option<Loss> {
        let term = *self.term();
        let expired = Instant::now() >= term.deadline;
        term.loss.or(expired.then_some(Loss::Expired))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) fn over(&self) -> &CancellationToken {
        &self.over
    }

    pub(crate) fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Comes back when the lease or the deadline is another.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// It is not held any more. The first reason stands.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut term = self.term();
        if term.loss.is_none() && !self.is_over() {
            term.loss = Some(loss);
            let Grant { owner, token, .. } = &self.grant;
            tracing::warn!(key = %self.key(), owner, token, %loss, "lock lost");
            drop(term);
            self.lost.cancel();
            self.over.cancel();
        }
    }

    /// One more guard shares this grant.
    pub(crate) fn join(&self) {
        self.guards.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether there is more than one guard.
    pub(crate) fn is_shared(&self) -> bool {
        self.guards.load(Ordering::SeqCst) > 1
    }

    /// A guard less; with the last one all renewing ends.
    pub(crate) fn leave(&self) {
        if self.guards.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.over.cancel();
        }
    }

    /// One more hold.
    pub(crate) async fn enter(&self) -> Result<(), Error> {
        let mut holds = self.holds.lock().await;
        self.still()?;
        let wanted = *holds + 1;
        let entered = self.backend.enter(&self.grant, wanted, self.soon()).await;
        let granted = self.noted(entered)?;
        *holds = granted.holds;
        let mut term = self.term();
        // Re-entry never shortens.
        term.deadline = term.deadline.max(granted.trusted_until);
        Ok(())
    }

    /// The lease begins anew, with this length from now on, or with the one it has.
    pub(crate) async fn renew(&self, lease: Option<Duration>, until: Instant) -> Result<(), Error> {
        let _calls = self.holds.lock().await;
        self.still()?;
        let lease = lease.unwrap_or_else(|| self.term().lease);
        let renewed = self.backend.renew(&self.grant, lease, until).await;
        let granted = self.noted(renewed)?;
        let mut term = self.term();
        term.lease = lease;
        term.deadline = granted.trusted_until;
        drop(term);
        self.changed.notify_one();
        tracing::debug!(key = %self.key(), token = self.grant.token, "lock renewed");
        Ok(())
    }

    /// Gives one hold back: once for each guard.
    pub(crate) async fn release(&self, until: Instant) -> Result<(), Error> {
        let mut holds = self.holds.lock().await;
        if let Some(loss) = self.term().loss {
            return Err(Error::Lost(loss));
        }
        let left = holds.saturating_sub(1);
        if left == 0 {
            self.over.cancel();
        }
        let released = self.backend.release(&self.grant, left, until).await;
        // Also without an answer: the next release says how many are to be left then.
        *holds = left;
        self.noted(released)?;
        tracing::debug!(key = %self.key(), token = self.grant.token, left, "lock released");
        Ok(())
    }

    /// Gives all holds back, whatever is known of the grant.
    pub(crate) async fn release_all(&self, until: Instant) {
        if let Err(error) = self.backend.release(&self.grant, 0, until).await {
            tracing::debug!(key = %self.key(), token = self.grant.token, %error, "not released");
        }
    }

    /// A time to which a call may be repeated while somebody waits for it.
    pub(crate) fn soon(&self) -> Instant {
        self.deadline().min(Instant::now() + self.patience)
    }

    /// The key, to look at.
    pub(crate) fn key(&self) -> String {
        String::from_utf8_lossy(&self.grant.key).into_owned()
    }

    fn still(&self) -> Result<(), Error> {
        self.loss().map_or(Ok(()), |loss| Err(Error::Lost(loss)))
    }

    /// Takes note of a loss that an answer tells of.
    fn noted<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Lost(loss)) = &outcome {
            self.lose(*loss);
        }
        outcome
    }

    fn term(&self) -> MutexGuard<'_, Term> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.registry.forget(&self.grant);
    }
}
