//! One grant that this process holds, shared by all its guards.

mod telling;

use crate::backend::{Backend, Obtained};
use crate::background::Background;
use crate::observer::Reports;
use crate::registry::{Place, Registry};
use crate::request::{Change, Grant, Life, Mode};
use crate::server::Keeper;
use crate::server::commands::after;
use crate::{Error, Loss};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What belongs to a client and is needed for each of its grants.
#[derive(Clone)]
pub(crate) struct Owned {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) background: Background,
    pub(crate) registry: Arc<Registry>,
    pub(crate) reports: Reports,
    pub(crate) reply_time: Duration,
    pub(crate) release_time: Duration,
}

/// What is known of a grant.
pub(crate) struct Held {
    owned: Owned,
    number: u64,
    grant: Grant,
    since: Instant,
    /// Where its owner finds it again.
    _place: Option<Arc<Place>>,
    /// How many guards there are.
    guards: AtomicUsize,
    /// How many holds the server counts. Locked for the length of each call about this grant: what a
    /// call asks for depends on what the one before it came to.
    holds: tokio::sync::Mutex<u32>,
    term: Mutex<Term>,
    keeping: Mutex<Option<Keeping>>,
    /// The term has been changed.
    changed: Notify,
    lost: CancellationToken,
    /// It is released or lost: nothing is left to look after.
    over: CancellationToken,
}

#[derive(Clone, Copy)]
struct Term {
    life: Life,
    /// Until when it is known to stand, by the last call about it.
    known_until: Instant,
    /// When it ends in any case.
    ends: Option<Instant>,
    is_winding_down: bool,
    loss: Option<Loss>,
    /// Somebody has it, so that its end is told to the observer.
    is_followed: bool,
}

/// It is kept here, and was before each PING that is sent after this time.
struct Keeping {
    keeper: Arc<Keeper>,
    since: Instant,
    pace: Duration,
}

impl Held {
    pub(crate) fn new(
        owned: Owned,
        obtained: &Obtained,
        life: Life,
        place: Option<Arc<Place>>,
    ) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let granted = &obtained.granted;
        Self {
            owned,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            grant: granted.grant.clone(),
            since: Instant::now(),
            _place: place,
            guards: AtomicUsize::new(0),
            holds: tokio::sync::Mutex::new(granted.holds),
            term: Mutex::new(Term {
                life,
                known_until: granted.known_until,
                ends: life.at_most.map(|time| after(Instant::now(), time)),
                is_winding_down: false,
                loss: None,
                is_followed: false,
            }),
            keeping: Mutex::default(),
            changed: Notify::new(),
            lost: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(crate) fn life(&self) -> Life {
        self.term().life
    }

    pub(crate) fn ends(&self) -> Option<Instant> {
        self.term().ends
    }

    pub(crate) fn is_winding_down(&self) -> bool {
        self.term().is_winding_down
    }

    /// Until when it is known to stand, by the last call about it or the last PING that tells of it.
    pub(crate) fn known_until(&self) -> Instant {
        let term = *self.term();
        let by_ping = self.keeping().as_ref().and_then(|keeping| {
            let proof = keeping.keeper.proof()?;
            (proof >= keeping.since).then(|| after(proof, term.life.lease))
        });
        let known = by_ping.map_or(term.known_until, |known| known.max(term.known_until));
        term.ends.map_or(known, |ends| known.min(ends))
    }

    /// A call that was sent at this time has told that it stands.
    pub(crate) fn known_since(&self, sent: Instant) {
        let mut term = self.term();
        let known = after(sent, term.life.lease);
        term.known_until = term.known_until.max(known);
    }

    /// How it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.term().loss
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

    /// Comes back when the lease is another.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// From now on it is kept here; not when that has closed.
    #[must_use]
    pub(crate) fn kept_by(self: &Arc<Self>, keeper: &Arc<Keeper>) -> bool {
        let known = self.known_until();
        let life = self.life();
        let pace = life.keep.map_or(life.lease, |keep| keep.min(life.lease));
        self.kept_by_nobody();
        {
            let mut term = self.term();
            term.known_until = term.known_until.max(known);
        }
        if !keeper.add(self, pace) {
            return false;
        }
        *self.keeping() = Some(Keeping {
            keeper: Arc::clone(keeper),
            since: Instant::now(),
            pace,
        });
        if self.is_over() {
            self.kept_by_nobody();
        }
        true
    }

    /// Where it is kept.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeping = self.keeping();
        keeping.as_ref().map(|keeping| Arc::clone(&keeping.keeper))
    }

    fn kept_by_nobody(&self) {
        let keeping = self.keeping().take();
        if let Some(Keeping { keeper, pace, .. }) = keeping {
            keeper.remove(self.number, pace);
        }
    }

    /// It is not held any more. The first reason stands.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut term = self.term();
        if term.loss.is_some() || self.is_over() {
            return;
        }
        term.loss = Some(loss);
        let is_followed = term.is_followed;
        drop(term);
        let Grant { owner, token, .. } = &self.grant;
        if loss == Loss::Closed {
            tracing::debug!(key = %self.key(), owner, token, "lock given back");
        } else {
            tracing::warn!(key = %self.key(), owner, token, %loss, "lock lost");
        }
        self.lost.cancel();
        self.end();
        if is_followed {
            self.tell_loss(loss);
        }
    }

    /// Nothing is left to look after.
    fn end(&self) {
        self.over.cancel();
        self.kept_by_nobody();
    }

    /// One more guard shares this grant.
    pub(crate) fn join(&self) {
        self.guards.fetch_add(1, Ordering::SeqCst);
    }

    /// A guard less; with the last one all keeping ends.
    pub(crate) fn leave(&self) {
        if self.guards.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.end();
        }
    }

    /// No other call about this grant goes out while this is there.
    pub(crate) async fn calls(&self) -> impl Drop {
        self.holds.lock().await
    }

    /// One more hold.
    pub(crate) async fn enter(&self, mode: Mode) -> Result<(), Error> {
        let mut holds = self.holds.lock().await;
        self.still()?;
        let wanted = *holds + 1;
        let until = self.soon();
        let entered = self
            .owned
            .backend
            .enter(&self.grant, wanted, mode, until)
            .await;
        let granted = self.noted(entered)?;
        *holds = granted.holds;
        let mut term = self.term();
        // Re-entry never shortens.
        term.known_until = term.known_until.max(granted.known_until);
        Ok(())
    }

    /// The lease begins anew, changed in this way.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        change: Change,
        until: Instant,
    ) -> Result<(), Error> {
        let _calls = self.holds.lock().await;
        self.still()?;
        let renewed = self.owned.backend.renew(&self.grant, change, until).await;
        let renewed = self.noted(renewed)?;
        {
            let mut term = self.term();
            term.life.lease = renewed.granted.lease;
            term.known_until = renewed.granted.known_until;
            if change.keep == Some(Duration::ZERO) {
                term.is_winding_down = true;
            }
        }
        if change.keep == Some(Duration::ZERO) {
            self.kept_by_nobody();
        } else if let Some(keeper) = self.keeper() {
            // For its pace. When it has closed, it gives the grant on.
            let _ = self.kept_by(&keeper);
        }
        self.changed.notify_one();
        tracing::debug!(key = %self.key(), token = self.grant.token, "lock renewed");
        Ok(())
    }

    /// The last lease, kept by nobody.
    pub(crate) async fn wind_down(
        self: &Arc<Self>,
        change: Change,
        until: Instant,
    ) -> Result<(), Error> {
        self.renew(change, until).await
    }

    /// Asks whether it stands.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), Error> {
        self.still()?;
        let until = self.soon();
        let backend = Arc::clone(&self.owned.backend);
        let checked = backend.check(self, until).await;
        self.noted(checked)
    }

    /// Gives one hold back: once for each guard.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        let until = Instant::now() + self.owned.release_time;
        let mut holds = self.holds.lock().await;
        if let Some(loss) = self.loss() {
            return Err(Error::Lost(loss));
        }
        let left = holds.saturating_sub(1);
        if left == 0 {
            self.end();
        }
        let released = self.owned.backend.release(&self.grant, left, until).await;
        // Also without an answer: the next release says how many are to be left then.
        *holds = left;
        let released = self.noted(released);
        if left == 0 {
            self.tell_release(&released);
        }
        released?;
        tracing::debug!(key = %self.key(), token = self.grant.token, left, "lock released");
        Ok(())
    }

    /// Gives all holds back, whatever is known of the grant.
    pub(crate) async fn release_all(&self) -> Result<(), Error> {
        let until = Instant::now() + self.owned.release_time;
        let released = self.owned.backend.release(&self.grant, 0, until).await;
        if let Err(error) = &released {
            tracing::debug!(key = %self.key(), token = self.grant.token, %error, "not released");
        }
        released
    }

    /// The same, with nobody waiting for it.
    pub(crate) fn release_unheard(self: &Arc<Self>) {
        let held = Arc::clone(self);
        self.owned.background.start(async move {
            let _ = held.release_all().await;
        });
    }

    /// A time to which a call may be repeated while somebody waits for it.
    pub(crate) fn soon(&self) -> Instant {
        Instant::now() + self.owned.reply_time
    }

    /// The key, to look at.
    pub(crate) fn key(&self) -> String {
        String::from_utf8_lossy(&self.grant.key).into_owned()
    }

    pub(crate) fn background(&self) -> &Background {
        &self.owned.background
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

    fn keeping(&self) -> MutexGuard<'_, Option<Keeping>> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.kept_by_nobody();
        self.owned.registry.forget(self.number);
    }
}
